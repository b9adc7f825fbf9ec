"""How long the host's share is measured, and what a row says of it; the clock is the test's."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch

from workbench.kernels.bench import host_side
from workbench.kernels.bench.dry_side import DryRunError, dry_step_rows
from workbench.kernels.bench.host_side import (
    CASES,
    MOST_TURNS,
    QUICK,
    QUICK_CASES,
    SAMPLE_S,
    STEP_SAMPLE_S,
    expansion_rows,
    step_rows,
    ways,
)
from workbench.kernels.bench.peers import PeerKind
from workbench.kernels.bench.run import QUICK_ROUNDS, Plan
from workbench.kernels.bench.workloads import LONG_ROWS, WORKLOADS

PUBLISHED = Path(__file__).parents[3] / "benchmarks" / "results" / "block_table_cpu.json"


@pytest.fixture
def work(monkeypatch):
    """A function that takes some seconds of the test's clock, and counts its calls."""
    now = [0.0]
    monkeypatch.setattr(host_side, "clock", lambda: now[0])
    found = SimpleNamespace(calls=0, seconds=0.0)

    def pass_by(seconds=None):
        now[0] += found.seconds if seconds is None else seconds

    def call(*_peer):
        found.calls += 1
        pass_by()

    found.call, found.pass_by = call, pass_by
    return found


@pytest.mark.parametrize(("seconds", "calls"), [(0.25, 8), (0.75, 2), (8.0, 1), (0.0, 10_000)])
def test_a_sample_has_as_many_calls_as_fit_in_its_budget(work, seconds, calls):
    work.seconds = seconds
    sample = host_side._repeated(work.call, 2.0)
    assert work.calls == 1  # one says how many
    assert sample() == seconds
    assert work.calls == 1 + calls


@pytest.mark.parametrize(("seconds", "turns"), [(0.5, 4), (8.0, 2), (0.0, MOST_TURNS)])
def test_a_step_is_sampled_in_turns_without_its_rewinds(work, seconds, turns):
    work.seconds, rewound = seconds, []

    def rewind():
        rewound.append(work.calls)
        work.pass_by(100.0)

    sample = host_side._sample(SimpleNamespace(rewind=rewind), work.call, 2.0)
    assert work.calls == 2  # a cold one, and one that says how many
    assert sample() == seconds
    assert work.calls == 2 + turns
    assert rewound == [*range(2 + turns)]


@pytest.mark.parametrize(("quick", "cases"), [(True, QUICK_CASES), (False, ((3, 2), (5, 7)))])
def test_every_way_of_every_case_has_a_row(monkeypatch, quick, cases):
    budgets = []
    monkeypatch.setattr(host_side, "CASES", ((3, 2), (5, 7)))
    monkeypatch.setattr(host_side, "_repeated", lambda _way, budget: budgets.append(budget))

    def measured(samples, rounds):
        seconds = {name: [2.5e-6 + i * 1e-7] * rounds for i, name in enumerate(samples)}
        return {**seconds, "list": [7.5e-6] * rounds}

    monkeypatch.setattr(host_side, "measured_rounds", measured)
    rows = expansion_rows(Plan((), quick, print))
    names = [*ways(1, 2)]
    assert [(row.blocks, row.ratio, row.way) for row in rows] == [
        (*case, name) for case in cases for name in names
    ]
    assert budgets == pytest.approx([SAMPLE_S * (QUICK if quick else 1)] * len(rows))
    for row in rows:
        us = 7.5 if row.way == "list" else 2.5 + 0.1 * names.index(row.way)
        assert row.us.median == pytest.approx(us)
        assert row.speedup.median == pytest.approx(7.5 / us)
        assert row.ns_per_output == pytest.approx(us * 1000 / (row.blocks * row.ratio))


@pytest.mark.parametrize("quick", [True, False])
def test_every_peer_of_every_case_has_a_row_of_one_thread(monkeypatch, quick):
    budgets, threads = [], []

    def sampled(peer, work, budget):
        budgets.append(budget)
        return lambda: work(peer)

    monkeypatch.setattr(host_side, "_sample", sampled)
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    kinds = [PeerKind(name, lambda _given, us=us: us, "") for name, us in (("fast", 2), ("x", 3))]
    cases = tuple(one.reduced() for one in (WORKLOADS["W1"], WORKLOADS["W7"]))
    plan = Plan(cases, quick, print)
    rows = step_rows(plan, kinds, "host", lambda peer: peer * 1e-6)
    assert [(row.workload, row.peer) for row in rows] == [
        (name, peer) for name in ("W1", "W7") for peer in ("fast", "x", "fast, again")
    ]
    assert {(row.piece, row.clock) for row in rows} == {("step", "host")}
    assert [row.us.median for row in rows] == pytest.approx([2, 3, 2] * 2)
    assert budgets == pytest.approx([STEP_SAMPLE_S * (QUICK if quick else 1)] * 4)
    assert threads == [1]


def dry_rows(name, quick=True):
    return dry_step_rows(Plan((SimpleNamespace(name=name),), quick, print))


def test_whole_steps_are_launched_dry_in_a_process_of_their_own(monkeypatch):
    monkeypatch.delenv("VLLM_SRC", raising=False)
    rows = dry_rows("W1")
    assert {(row.workload, row.piece, row.clock) for row in rows} == {("W1", "step", "dry")}
    names = ["fast", "faithful", "fast, arrays", "fast, host batch", "fast, again"]
    assert [row.peer for row in rows] == names
    for row in rows:
        assert row.us.low > 0
        assert row.us.low <= row.us.median <= row.us.high
        assert row.us.n == row.ratio.n == QUICK_ROUNDS


def test_what_that_process_says_at_last_is_the_reason():
    with pytest.raises(DryRunError, match="Invalid workload 'W0'"):
        dry_rows("W0")


def test_rows_are_expanded_from_one_block_to_the_longest():
    """The ratios are those of two, of some, and of many kernel blocks in a manager block."""
    sizes = {ratio: [blocks for blocks, own in CASES if own == ratio] for _, ratio in CASES}
    assert len(sizes) == 3
    for blocks in sizes.values():
        assert blocks == sorted(set(blocks))
        assert all(size & (size - 1) == 0 for size in blocks)
    assert sizes[2][0] == sizes[66][0] == 1
    assert sizes[66][-1] == LONG_ROWS.groups[0].max_blocks
    assert set(QUICK_CASES) < set(CASES)


def test_the_published_quick_run_has_the_cases_of_todays():
    published = json.loads(PUBLISHED.read_text(encoding="utf-8"))
    assert published["quick"]
    found = dict.fromkeys((row["blocks"], row["ratio"]) for row in published["expansions"])
    assert tuple(found) == QUICK_CASES
