"""Which clocks a case is timed by on a GPU, and what a failing case leaves to the others."""

import gc
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch

from workbench.kernels.bench import gpu_clock, timing
from workbench.kernels.bench.gpu_clock import GRAPH_STEPS, Limits, TooNoisyError
from workbench.kernels.bench.machine import this_machine
from workbench.kernels.bench.peers import PeerKind
from workbench.kernels.bench.results import Spread, StepRow, TablesResult
from workbench.kernels.bench.run import Plan, Run
from workbench.kernels.bench.timing import CaseTimes, time_cases

MACHINE = this_machine("block_table")
LIMITS = Limits(4e12, 2.5e-6)


def run_of(said, saved):
    return Run(Plan((), True, said.append, save=saved.append), TablesResult(MACHINE, True, 5))


def test_a_case_that_fails_leaves_the_others_their_times_and_memory(monkeypatch):
    said, saved, freed, timed = [], [], [], []
    monkeypatch.setattr(gpu_clock, "measured_limits", lambda: LIMITS)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: freed.append("cache"))
    monkeypatch.setattr(gc, "collect", lambda: freed.append("cycles"))
    run = run_of(said, saved)
    one = Spread(2.0, 2.0, 2.0, 5)

    def time_case(case, limits):
        timed.append((case.name, limits))
        if case.name == "W1":
            raise RuntimeError("no memory")
        for piece in ("step", "slots"):
            run.result.steps.append(StepRow(case.name, piece, "wall", "torch", "", one, one, 2.0))

    cases = [SimpleNamespace(name=name, title=f"case {name}") for name in ("W1", "W2")]
    time_cases(run, cases, ["step"], time_case)
    assert timed == [("W1", LIMITS), ("W2", LIMITS)]
    assert (run.result.copy_bytes_per_s, run.result.launch_us) == (4e12, pytest.approx(2.5))
    failed = "W1 was not timed: RuntimeError: no memory"
    assert said == ["W1: case W1 ...", failed, "W2: case W2 ..."]
    assert run.result.open_questions == [failed]
    assert freed == ["cycles", "cache"] * 2
    assert saved == [run.result] * 2
    assert [(score.clock, score.workloads) for score in run.result.scores] == [("wall", 1)]


class Peer:
    """What a graph's replay is to write, and whether it was made ready."""

    def __init__(self, *, fails=False):
        self.fails, self.log = fails, []

    def ready(self):
        self.log.append("ready")
        if self.fails:
            raise RuntimeError("not captured")

    def poison(self):
        self.log.append("poison")


@pytest.fixture
def times(monkeypatch):
    """A function: noisy, peers by name -> the times of a case, and the graphs that were made."""
    graphs = []

    class Graphs:
        def __init__(self, peers, piece, steps, noisy):
            self.peers, self.noisy = peers, noisy
            graphs.append((piece, steps))

        def cold_s(self):
            if self.noisy:
                raise TooNoisyError("lost")
            return 4e-6

        def hot_s(self):
            return 2e-6

        def run_once(self):
            for peer in self.peers:
                peer.log.append("run")

    def make(noisy=False, wrong="", **peers):
        monkeypatch.setattr(timing, "StepGraphs", lambda *given: Graphs(*given, noisy=noisy))
        said = []
        run = run_of(said, [])
        kinds = {PeerKind(name, None, ""): [peer] for name, peer in peers.items()}
        right = SimpleNamespace(difference=lambda peer: wrong if peer is peers.get("x") else "")
        return CaseTimes(run, "W1", kinds, [right]), run, graphs

    return make


def clocks(rows):
    return [(row.clock, row.peer, row.us.median) for row in rows]


FAST, X, AGAIN = "fast", "x", "fast, again"


def both(clock, us):
    return [(clock, name, pytest.approx(us)) for name in (FAST, X, AGAIN)]


def test_hot_times_are_taken_where_they_are_wanted(times):
    made, _run, graphs = times(fast=Peer(), x=Peer())
    made.add_graphs("step", hot=True)
    assert clocks(made.kept()) == [*both("gpu hot", 2), *both("gpu cold", 4)]
    assert graphs == [("step", GRAPH_STEPS)] * 2
    made, _run, graphs = times(fast=Peer(), x=Peer())
    graphs.clear()
    made.add_graphs("attention", lambda peers: 10 * len(peers), hot=False)
    assert clocks(made.kept()) == both("gpu cold", 4)
    assert graphs == [("attention", 10)] * 2


@pytest.mark.parametrize("hot", [True, False])
def test_a_step_that_the_flush_hides_has_hot_times_once(times, hot):
    made, run, _graphs = times(noisy=True, fast=Peer(), x=Peer())
    made.add_graphs("step", hot=hot)
    assert clocks(made.kept()) == both("gpu hot", 2)
    assert run.result.open_questions == ["W1: no cold GPU time of the step: lost"]


def test_without_a_graph_of_the_fast_one_nothing_is_timed(times):
    peers = {"fast": Peer(fails=True), "x": Peer()}
    made, run, _graphs = times(**peers)
    made.add_graphs("step", hot=True)
    assert made.kept() == []
    why = "W1 fast: no graph of its step, so no GPU time: RuntimeError: not captured"
    assert run.result.open_questions == [why]
    # but what was captured is checked
    assert peers["x"].log == ["ready", "poison", "run"]


@pytest.mark.parametrize("check", [True, False])
def test_what_is_wrong_after_timing_has_no_times_if_it_is_checked(times, check):
    peers = {"fast": Peer(), "x": Peer()}
    made, run, _graphs = times(wrong="3 slots differ", **peers)
    made.add_wall("step", lambda own: 1e-6 * len(own))
    made.add_graphs("step", hot=False, check=check)
    kept = [FAST, AGAIN] * 2 if check else [FAST, X, AGAIN] * 2
    rows = made.kept()
    assert [row.peer for row in rows] == kept
    assert clocks(rows)[0] == ("wall", FAST, pytest.approx(1.0))
    wrong = [("x", False, "after timing: 3 slots differ")] * check
    assert [(one.peer, one.ok, one.detail) for one in run.result.verdicts] == wrong
    assert peers["x"].log == ["ready", *["poison", "run"] * check]
