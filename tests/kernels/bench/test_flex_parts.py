"""What a benchmark of attention does, where, and with which inputs; its parts are stood in for."""

from types import SimpleNamespace

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import numpy as np
import torch

from workbench.kernels.bench import flex, gpu_clock, vllm_attention, vllm_flash
from workbench.kernels.bench import run as bench_run
from workbench.kernels.bench.flex import FlexRun
from workbench.kernels.bench.flex_cases import CASES, CasePart, FlexCase
from workbench.kernels.bench.flex_inputs import (
    CHECKED_TOKENS,
    checked_tokens,
    flex_input,
    in_larger_pool,
)
from workbench.kernels.bench.flex_peers import own_kinds
from workbench.kernels.bench.peers import PeerKind
from workbench.kernels.bench.run import Plan
from workbench.kernels.inspection import TARGETS
from workbench.kernels.mode import triton_mode

DEVICE = triton_mode().torch_device
D1 = CASES["D1"].reduced()
OWN, VLLM = (
    f"workbench.kernels.{name}" for name in ("paged_flex.calls", "bench.vllm_attention_specs")
)


@pytest.fixture
def begun(monkeypatch):
    """A function: mode, how -> the result, what was begun, compiled, said and saved."""
    machine = flex.this_machine("paged_flex")
    monkeypatch.delenv("VLLM_SRC", raising=False)

    def run(mode="interpreter", **how):
        done, compiled, said, saved = [], [], [], []
        monkeypatch.setattr(flex, "this_machine", lambda _name: {**machine, "mode": mode})
        monkeypatch.setattr(flex, "check_cases", lambda run: done.append(("check", run.kinds)))
        monkeypatch.setattr(flex, "time_all", lambda run: done.append(("time", run.kinds)))
        monkeypatch.setattr(flex, "library_kinds", lambda _absent: ())
        monkeypatch.setattr(
            bench_run, "inspect_kernels", lambda *given: compiled.append(given) or ()
        )
        plan = Plan((D1,), how.pop("quick", False), said.append, save=saved.append, **how)
        result = flex.run(plan)
        return SimpleNamespace(result=result, done=done, compiled=compiled, said=said, saved=saved)

    return run


@pytest.mark.parametrize(
    ("mode", "compile_only", "done"),
    [
        ("interpreter", False, ["check"]),
        ("interpreter", True, []),
        ("gpu", True, []),
        ("gpu", False, ["time"]),
    ],
)
def test_times_are_taken_on_a_gpu_and_the_rest_elsewhere(begun, mode, compile_only, done):
    found = begun(mode, compile_only=compile_only)
    assert [what for what, _kinds in found.done] == done
    times = done == ["time"]
    assert found.compiled == ([] if times else [(OWN, list(TARGETS))])
    # a timed run saves after each of its cases
    assert found.saved == ([] if times else [found.result])
    assert any("GPU times are open" in line for line in found.result.open_questions) != times
    assert any("which has no times" in line for line in found.said) == (done == ["check"])


def test_vllm_takes_part_in_each_of_its_ways(begun, monkeypatch):
    wanted = []

    def found_in(_run, find):
        wanted.append(find)
        return [PeerKind(f"vllm {len(wanted)}", None, "")]

    monkeypatch.setattr(FlexRun, "in_every_vllm", found_in)
    found = begun(quick=True)
    plain, invariant, flash = wanted
    assert plain is vllm_attention.vllm_attention
    assert (invariant.func, invariant.keywords) == (plain, {"invariant": True})
    assert flash is vllm_flash.vllm_flash
    [(_check, kinds)] = found.done
    assert [kind.name for kind in kinds[-3:]] == ["vllm 1", "vllm 2", "vllm 3"]
    assert found.compiled == [(OWN, ["sm_90"]), (VLLM, ["sm_90"])]


@pytest.mark.parametrize("is_right", [True, False])
def test_without_a_clock_cases_are_described_where_the_fast_mode_is_right(monkeypatch, is_right):
    said, saved, described = [], [], []
    run = FlexRun(Plan((CASES["D1"],), True, said.append, save=saved.append))
    peers = {kind: [None] for kind in own_kinds("")[not is_right :]}
    monkeypatch.setattr(run, "check", lambda given: (peers, given))
    monkeypatch.setattr(run, "describe", lambda given, peers: described.append((given.case, peers)))
    flex.check_cases(run)
    assert described == [(D1, peers)] * is_right
    assert (said, saved) == ([f"D1: {CASES['D1'].title} ..."], [run.result])


def test_all_cases_are_timed_next_to_the_rate_of_a_product(monkeypatch):
    run = FlexRun(Plan((D1,), True, print))
    timed = []
    monkeypatch.setattr(gpu_clock, "matmul_flop_per_s", lambda dtype: {torch.bfloat16: 7.0}[dtype])
    monkeypatch.setattr(flex, "time_case", lambda *given: timed.append(given))
    monkeypatch.setattr(
        flex, "time_cases", lambda _run, cases, pieces, time: timed.append((cases, pieces, time))
    )
    flex.time_all(run)
    [(cases, pieces, time)] = timed
    assert (cases, pieces) == ((D1,), ("attention", "metadata"))
    time(D1, None)
    assert timed[-1] == (run, D1)
    assert run.result.matmul_flop_per_s == 7.0


class DrawnError(Exception):
    """Ends a case when its input is drawn."""


@pytest.mark.parametrize("fits", [True, False])
def test_a_case_is_made_to_fit_what_is_free_and_that_is_said(monkeypatch, fits):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (1000, 5000))
    reset, given = [], []
    monkeypatch.setattr(torch.compiler, "reset", lambda: reset.append(True))
    smaller = SimpleNamespace(title="a case, divided by 2")
    case = SimpleNamespace(
        name="D1", fitted=lambda free: given.append(free) or (case if fits else smaller)
    )

    def drawn(one, _device):
        given.append(one)
        raise DrawnError

    monkeypatch.setattr(flex, "flex_input", drawn)
    run = FlexRun(Plan((), True, lambda _line: None))
    with pytest.raises(DrawnError):
        flex.time_case(run, case)
    assert given == [800, case if fits else smaller]
    assert reset == [True]
    said = ["D1 was made to fit this memory: a case, divided by 2."]
    assert run.result.open_questions == ([] if fits else said)


def test_two_requests_of_two_queries_are_compared_alone_and_in_chunks():
    case = FlexCase(
        "n", "t", (CasePart(2, 20, 2),), 16, heads=2, kv_heads=1, head_dim=16, dtype="float32"
    )
    rows = flex.bits_rows(flex_input(case, DEVICE))
    assert [(row.way, row.elements) for row in rows] == [("alone", 64), ("chunk", 32)] * 2


def test_a_pool_has_twice_the_blocks_of_its_batch_and_the_larger_one_twice_as_many():
    case = FlexCase("n", "t", (CasePart(2, 20, 1), CasePart(1, 3, 3)), 16, heads=2, kv_heads=1)
    given = flex_input(case, "cpu")
    assert len(given.paged.kv_cache) == 2 * (2 * 2 + 1)
    assert len(in_larger_pool(given).paged.kv_cache) == 4 * (2 * 2 + 1)


@pytest.mark.parametrize(
    ("requests", "queries", "touched"), [(100, 100, 64), (7, 500, 7), (1, 900, 1)]
)
def test_first_last_and_some_other_queries_are_checked(requests, queries, touched):
    starts = np.arange(requests + 1) * queries
    batch = SimpleNamespace(query_start_loc=starts)
    tokens = checked_tokens(SimpleNamespace(paged=SimpleNamespace(batch=batch)))
    rows = {token // queries for token in tokens}
    assert (len(rows), min(rows), max(rows)) == (touched, 0, requests - 1)
    assert tokens == sorted(set(tokens))
    for row in rows:
        own = [token for token in tokens if token // queries == row]
        assert (own[0], own[-1]) == (row * queries, (row + 1) * queries - 1)
        assert len(own) <= CHECKED_TOKENS // touched + 2
        # of random ones a few are equal, where there are many to choose from
        assert touched == 64 or len(own) > 0.8 * (CHECKED_TOKENS // touched)
