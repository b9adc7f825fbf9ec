"""What a GPU run keeps and drops. CUDA's graphs and events are stood in for, the rest is real."""

import dataclasses
import itertools

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from workbench.kernels.bench import gpu_clock, timing
from workbench.kernels.bench.block_table import TablesRun, time_workload
from workbench.kernels.bench.gpu_clock import Limits
from workbench.kernels.bench.machine import this_machine
from workbench.kernels.bench.peers import Manner, PeerKind, TorchPeer, ours
from workbench.kernels.bench.ratios import AGAIN
from workbench.kernels.bench.results import TablesResult
from workbench.kernels.bench.run import Plan
from workbench.kernels.bench.workloads import WORKLOADS

W4 = WORKLOADS["W4"].reduced()


class StandIn:
    """Launches where a graph would be replayed, and takes the given seconds."""

    seconds = 1e-5

    def __init__(self, peers, piece, steps_wanted):
        self.peers, self.piece = peers, piece
        self.run_once()

    def cold_s(self):
        return 2 * self.seconds

    def hot_s(self):
        return self.seconds

    def run_once(self):
        for peer in self.peers:
            peer.launch(self.piece)


class WrongLater(TorchPeer):
    """Right while it is checked and captured; wrong when its graph is replayed once more."""

    launches = 0

    def launch(self, piece="step"):
        super().launch(piece)
        self.launches += 1
        if self.launches > 2:
            self.slots[0, 0] += 1


class NoGraph(TorchPeer):
    def ready(self):
        raise RuntimeError("operation not permitted when stream is capturing")


class AlwaysWrong(TorchPeer):
    def launch(self, piece="step"):
        super().launch(piece)
        self.slots[0, 0] += 1


@pytest.fixture
def timed(monkeypatch):
    """A function: kinds, pieces -> the result of timing W4 over them."""
    walls = itertools.cycle([1e-4, 2e-4, 2e-4, 1e-4])
    monkeypatch.setattr(timing, "StepGraphs", StandIn)
    monkeypatch.setattr(gpu_clock, "wall_s", lambda peers, work, before: next(walls))

    def run(kinds, pieces=("step",)):
        result = TablesResult(this_machine("block_table"), quick=True, rounds=5)
        run = TablesRun(Plan((W4,), True, lambda line: None), result, kinds)
        time_workload(run, dataclasses.replace(W4, pieces=pieces), Limits(1e12, 2e-6))
        return result

    return run


FAST_KIND = ours(Manner("fast"), "fast", "")


def clocks(result, peer):
    return {(row.piece, row.clock) for row in result.steps if row.peer == peer}


ALL = {("step", "wall"), ("step", "gpu hot"), ("step", "gpu cold")}


@pytest.mark.thorough
def test_every_clock_and_the_floor(timed):
    result = timed([FAST_KIND, PeerKind("torch", TorchPeer, "2.11")], ("step", "slots"))
    parts = {("slots", "gpu hot"), ("slots", "gpu cold")}
    for peer in ("fast", "torch", AGAIN):
        assert clocks(result, peer) == ALL | parts
    assert [row.piece for row in result.floors] == ["step", "slots"]
    step, slots = result.floors
    assert step.floor_us == pytest.approx(4.0)  # two launches
    assert slots.floor_us == pytest.approx(2.0)
    assert step.over_floor == pytest.approx(5.0)
    assert all(verdict.ok for verdict in result.verdicts)


@pytest.mark.thorough
def test_a_peer_that_is_wrong_after_timing_leaves_no_time(timed):
    result = timed([FAST_KIND, PeerKind("later", WrongLater, "")])
    assert clocks(result, "later") == set()
    assert clocks(result, "fast") == ALL
    [bad] = [verdict for verdict in result.verdicts if not verdict.ok]
    assert (bad.peer, bad.detail[:13]) == ("later", "after timing:")


@pytest.mark.thorough
def test_a_peer_that_no_graph_takes_keeps_its_wall_time(timed):
    result = timed([FAST_KIND, PeerKind("bare", NoGraph, "")])
    assert clocks(result, "bare") == {("step", "wall")}
    assert clocks(result, "fast") == ALL
    assert any("W4 bare: no graph of its step" in line for line in result.open_questions)


def test_without_a_right_fast_path_nothing_is_timed(timed):
    wrong = PeerKind("fast", AlwaysWrong, "")
    result = timed([wrong, PeerKind("torch", TorchPeer, "")])
    assert result.steps == result.floors == []
    assert any("the fast path is wrong" in line for line in result.open_questions)


@pytest.mark.thorough
def test_times_are_dropped_if_the_fast_path_is_wrong_afterwards(timed):
    result = timed([PeerKind("fast", WrongLater, ""), PeerKind("torch", TorchPeer, "")])
    assert result.steps == result.floors == []
    assert any("wrong after timing" in line for line in result.open_questions)


def test_a_flush_that_hides_the_step_is_reported(timed, monkeypatch):
    def noisy(self):
        raise gpu_clock.TooNoisyError("lost")

    monkeypatch.setattr(StandIn, "cold_s", noisy)
    result = timed([FAST_KIND])
    assert clocks(result, "fast") == ALL - {("step", "gpu cold")}
    assert any("no cold GPU time" in line for line in result.open_questions)
