"""The paged-attention benchmark: peers, verdicts, what a GPU run keeps; and the whole thing."""

import itertools
import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch

from workbench.kernels.bench import flex, gpu_clock, timing
from workbench.kernels.bench import run as bench_run
from workbench.kernels.bench.__main__ import main
from workbench.kernels.bench.flex import READS_MASKED, FlexRun
from workbench.kernels.bench.flex_cases import CASES
from workbench.kernels.bench.flex_inputs import Truth, flex_input, truth
from workbench.kernels.bench.flex_peers import DensePeer, OurPeer, SdpaPeer, own_kinds
from workbench.kernels.bench.peers import PeerKind
from workbench.kernels.bench.ratios import AGAIN
from workbench.kernels.bench.report import report
from workbench.kernels.bench.run import Plan
from workbench.kernels.mode import COMPILE_VARIABLE, triton_mode

DEVICE = triton_mode().torch_device
GPU = triton_mode().mode == "gpu"
OWN = own_kinds("abc")
D1, D4, D2, P5 = (CASES[name].reduced() for name in ("D1", "D4", "D2", "P5"))


class AlwaysWrong(OurPeer):
    """One element of one checked token is off."""

    def launch(self, piece="attention"):
        super().launch(piece)
        self.out[0, 0, 0] += 0.01


class WrongLater(OurPeer):
    launches = 0

    def launch(self, piece="attention"):
        super().launch(piece)
        self.launches += 1
        if self.launches > 4:
            self.out[0, 0, 0] += 0.01


class NoGraph(OurPeer):
    launches = 0

    def launch(self, piece="attention"):
        self.launches += 1
        if self.launches > 2:
            raise RuntimeError("operation not permitted when stream is capturing")
        super().launch(piece)


def kind(name, peer):
    return PeerKind(name, peer, "")


def run_of(case, kinds):
    run = FlexRun(Plan((case,), True, lambda line: None))
    run.kinds = tuple(kinds)
    return run


@pytest.mark.thorough
def test_peers_are_held_against_float64_on_pages_full_of_nan():
    run = run_of(P5, [*OWN, kind("wrong", AlwaysWrong)])
    peers, _right = run.check(flex_input(P5, DEVICE))
    found = {verdict.peer: verdict for verdict in run.result.verdicts}
    assert [one.name for one in peers] == [one.name for one in OWN]
    assert all(found[one.name].ok for one in OWN)
    assert found["fast"].detail == found["bitwise"].detail == ""
    if not GPU:
        assert found["flex paged"].detail == READS_MASKED
    assert not found["wrong"].ok
    assert "is allowed against float64" in found["wrong"].detail


@pytest.mark.thorough
def test_a_peer_that_cannot_says_why():
    run = run_of(D4, OWN)
    peers, _right = run.check(flex_input(D4, DEVICE))
    assert {one.name for one in peers} == {"fast", "bitwise", "flex paged"}
    assert any("D4: no sdpa dense: its requests have" in line for line in run.result.open_questions)


@pytest.mark.parametrize("name", ["S1", "D1"])
def test_queries_of_peers_without_pages_are_the_last_ones_of_their_request(name):
    case = CASES[name].reduced()
    run = run_of(case, [kind("dense", DensePeer), kind("sdpa", SdpaPeer)])
    run.check(flex_input(case, DEVICE))
    assert [verdict.ok for verdict in run.result.verdicts] == [True, True]


@pytest.mark.parametrize(("name", "ways"), [("D1", []), ("D2", ["alone"]), ("P3", ["chunk"])])
def test_bits_are_compared_with_what_a_request_can_be_cut_out_of(name, ways):
    rows = flex.bits_rows(flex_input(CASES[name].reduced(), DEVICE))
    assert [row.way for row in rows] == ways * 2  # of both modes
    assert not any(row.differing for row in rows if row.promised)


@pytest.mark.thorough
def test_metadata_of_ours_does_not_grow_with_the_pool_and_the_engines_does():
    run = run_of(D2, OWN)
    given = flex_input(D2, DEVICE)
    run.describe(given, run.check(given)[0])
    found = {row.peer: row for row in run.result.metadata}
    for name in ("fast", "bitwise"):
        assert found[name].bytes == found[name].larger_pool_bytes > 0
    assert found["flex paged"].larger_pool_bytes > found["flex paged"].bytes
    assert found["flex dense"].larger_pool_bytes is None
    assert {(row.peer, row.way) for row in run.result.bits} == {
        ("fast", "alone"),
        ("bitwise", "alone"),
    }
    assert all(row.differing == 0 and row.promised for row in run.result.bits)
    text = report(run.result)
    assert " -> " in text
    assert "0 of " in text


def test_a_misplaced_token_is_found():
    given = flex_input(P5, DEVICE)
    right = truth(given)
    exact = torch.zeros(given.paged.query.shape, dtype=torch.float64, device=DEVICE)
    exact[right.tokens] = right.exact

    def difference(result):
        return right.difference(SimpleNamespace(result=lambda: result))

    assert difference(exact) == ""
    assert "off by" in difference(exact.roll(1, 0))
    exact[right.tokens[3], 0, 0] = float("nan")
    found = f"first at query {right.tokens[3]}, 1 of {len(right.tokens)}"
    assert difference(exact) == f"not finite, {found}"


def test_a_result_may_be_off_by_the_tolerance_and_no_more():
    right = Truth([0, 2], torch.zeros(2, 1, 2, dtype=torch.float64), tolerance=0.25)

    def off(value):
        result = torch.zeros(3, 1, 2)
        result[2, 0, 1] = value
        return right.difference(SimpleNamespace(result=lambda: result))

    assert off(0.25) == off(-0.25) == ""
    assert off(-0.5) == "off by 0.5 at query 2; 0.25 is allowed against float64"


class StandIn:
    """Launches where a graph would be replayed, and takes the given seconds."""

    def __init__(self, peers, piece, steps_wanted):
        self.peers = peers
        assert steps_wanted >= 1
        self.run_once()

    def cold_s(self):
        return 2e-5

    def hot_s(self):
        return 1e-5

    def run_once(self):
        for peer in self.peers:
            peer.launch("attention")


@pytest.fixture
def timed(monkeypatch):
    """A function: case, kinds -> the result of timing it, with CUDA's clocks stood in for."""
    monkeypatch.setattr(timing, "StepGraphs", StandIn)
    monkeypatch.setattr(flex, "_free_bytes", lambda: 10**12)
    walls = itertools.cycle([1e-4, 2e-4, 2e-4, 1e-4])
    monkeypatch.setattr(gpu_clock, "wall_s", lambda peers, work, turns: next(walls))

    def once(launch):
        launch()
        return 1e-5

    monkeypatch.setattr(gpu_clock, "event_seconds", once)

    def run(case, kinds):
        made = run_of(case, kinds)
        made.result.copy_bytes_per_s, made.result.matmul_flop_per_s = 4e12, 8e14
        made.result.launch_us = 2.0
        flex.time_case(made, case)
        return made.result

    return run


def test_a_graph_has_as_many_steps_as_a_sample_has_room_for(monkeypatch):
    launched = []
    peer = SimpleNamespace(launch=launched.append)
    steps = {}
    for share in (1e4, 5.0, 0.2):

        def seconds(work, share=share):
            work()
            return flex.SAMPLE_S / share

        monkeypatch.setattr(gpu_clock, "event_seconds", seconds)
        steps[share] = flex._steps_of_graph([peer])
    assert steps == {1e4: gpu_clock.GRAPH_STEPS, 5.0: 5, 0.2: 1}
    assert launched == ["attention"] * 6  # once to compile, before it is timed


def clocks(result, peer):
    return {(row.piece, row.clock) for row in result.steps if row.peer == peer}


BOTH = {("attention", "gpu cold"), ("metadata", "wall")}


@pytest.mark.thorough
def test_a_gpu_run_keeps_times_rates_and_the_noise(timed):
    result = timed(D2, OWN)
    for peer in ("fast", "bitwise", "flex paged", "flex dense", "sdpa dense", AGAIN):
        assert clocks(result, peer) == BOTH
    rate = next(row for row in result.rates if row.peer == "fast")
    assert rate.us == pytest.approx(20.0)
    assert rate.of_copy == pytest.approx(D2.bytes / 20e-6 / 4e12)
    assert rate.of_matmul == pytest.approx(D2.flop / 20e-6 / 8e14)
    assert {row.peer for row in result.rates} == {kind.name for kind in OWN}
    text = report(result)
    assert "GPU time, graph replay, cold L2 (attention)" in text
    assert "of copy" in text


@pytest.mark.thorough
def test_a_peer_that_is_wrong_after_timing_leaves_no_time(timed):
    result = timed(D2, [OWN[0], kind("later", WrongLater)])
    assert clocks(result, "later") == set()
    assert clocks(result, "fast") == BOTH
    assert [row.peer for row in result.rates] == ["fast"]
    [bad] = [verdict for verdict in result.verdicts if not verdict.ok]
    assert (bad.peer, bad.detail[:13]) == ("later", "after timing:")


@pytest.mark.thorough
def test_a_peer_that_no_graph_takes_keeps_its_metadata_time(timed):
    result = timed(D2, [OWN[0], kind("bare", NoGraph)])
    assert clocks(result, "bare") == {("metadata", "wall")}
    assert any("D2 bare: no graph" in line for line in result.open_questions)


@pytest.mark.thorough
def test_without_a_right_fast_mode_nothing_is_timed(timed):
    result = timed(D2, [kind("fast", AlwaysWrong), *OWN[1:]])
    assert result.steps == result.rates == []
    assert any("the fast mode is wrong" in line for line in result.open_questions)


def bench(*arguments, **environment):
    command = [sys.executable, "-m", "workbench.kernels.bench", "flex", *arguments]
    without = {name: value for name, value in os.environ.items() if name != "VLLM_SRC"}
    return subprocess.run(
        command, capture_output=True, text=True, env={**without, **environment}, check=False
    )


@pytest.mark.thorough  # compiles every kernel, for minutes
def test_quick_run(tmp_path):
    file, cases = tmp_path / "result.json", "D1,D4"
    done = bench("--quick", "--cases", cases, "--json", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    result = SimpleNamespace(**json.loads(file.read_text(encoding="utf-8")))
    assert {v["workload"] for v in result.verdicts} == set(cases.split(","))
    assert all(v["ok"] for v in result.verdicts)
    assert {row["target"] for row in result.gate} == {"sm_90"}
    prefills = [row for row in result.gate if row["kernel"] == "prefill, page 64"]
    assert all(any("wgmma" in name for name in row["matrix_instructions"]) for row in prefills)
    assert prefills
    assert any("VLLM_SRC is not set" in line for line in result.open_questions)
    assert str(tmp_path) not in file.read_text(encoding="utf-8")
    if GPU:
        assert {row["case"] for row in result.rates} == set(cases.split(","))
        assert all(row["differing"] == 0 for row in result.bits if row["promised"])
    else:
        # the interpreter never reports a time
        assert result.steps == result.rates == result.scores == []
        assert result.copy_bytes_per_s is None
        assert any("GPU times are open" in line for line in result.open_questions)


def test_compile_only_asks_the_compiler_alone(monkeypatch):
    compiled = []

    def inspected(module, targets):
        compiled.append((module, targets))
        return ()

    monkeypatch.delenv("VLLM_SRC", raising=False)
    monkeypatch.setattr(bench_run, "inspect_kernels", inspected)
    result = flex.run(Plan((D1,), True, lambda line: None, compile_only=True))
    assert compiled == [("workbench.kernels.paged_flex.calls", ["sm_90"])]
    assert result.verdicts == result.steps == result.metadata == []


@pytest.mark.thorough
@pytest.mark.slow
def test_compile_only_runs_nothing(tmp_path):
    file = tmp_path / "result.json"
    done = bench("--quick", "--compile-only", "--json", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
    result = SimpleNamespace(**json.loads(file.read_text(encoding="utf-8")))
    assert result.verdicts == result.steps == result.metadata == []
    assert result.gate


@pytest.mark.parametrize(("flags", "wanted"), [((), False), (("--compile-only",), True)])
def test_only_the_flag_leaves_everything_to_the_compiler(flags, wanted, monkeypatch):
    plans = []

    def run(plan):
        plans.append(plan)
        raise KeyboardInterrupt

    monkeypatch.setattr(flex, "run", run)
    with pytest.raises(KeyboardInterrupt):
        main(["flex", *flags])
    assert [(plan.compile_only, plan.quick) for plan in plans] == [(wanted, False)]


@pytest.mark.thorough
def test_an_unknown_case_ends_the_program():
    done = bench("--cases", "P9")
    assert done.returncode == 2
    assert "Invalid case 'P9'" in done.stdout


def test_a_process_that_only_compiles_runs_no_benchmark():
    done = bench("--cases", "P1", **{COMPILE_VARIABLE: "1"})
    assert done.returncode == 2
    assert "Nothing can run here: WORKBENCH_COMPILE_ONLY is set" in done.stdout + done.stderr
