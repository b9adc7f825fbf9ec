"""What a benchmark of the block tables does, with and without a GPU; its parts are stood in for."""

import os
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from workbench.kernels.bench import block_table, dry_side, gpu_clock
from workbench.kernels.bench import run as bench_run
from workbench.kernels.bench.block_table import CASES, TablesRun, floor, peer_kinds, time_workload
from workbench.kernels.bench.gpu_clock import Limits
from workbench.kernels.bench.machine import this_machine
from workbench.kernels.bench.peers import FAST
from workbench.kernels.bench.results import Spread, StepRow, TablesResult, Verdict
from workbench.kernels.bench.run import Plan
from workbench.kernels.bench.vllm_source import VARIABLE
from workbench.kernels.bench.workloads import LONG_ROWS
from workbench.kernels.mode import triton_mode

MACHINE = this_machine("block_table")
LAUNCHED = ["fast", "faithful", "torch", "fast, arrays"]
MODULE = "workbench.kernels.block_table.calls"
ALL = tuple(CASES.values())


@pytest.fixture
def begun(monkeypatch):
    """A function: plan, mode -> the result, what was begun, what was said, what was saved."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 99.0, 99.0))

    def run(cases, *, quick=False, mode="interpreter"):
        done, said, saved = [], [], []
        plan = Plan(cases, quick, said.append, save=saved.append)
        monkeypatch.setattr(block_table, "this_machine", lambda _name: {**MACHINE, "mode": mode})
        for name, note in {
            "check_in_interpreter": lambda run: ("check", [kind.name for kind in run.kinds]),
            "host_side": lambda _run, kinds: ("host", [kind.name for kind in kinds]),
            "time_workload": lambda _run, case, limits: ("time", case, limits),
            "time_cases": lambda _run, cases, scored, time: (
                "cases", [case.name for case in cases], scored, time("a case", "limits")
            ),
        }.items():  # fmt: skip
            monkeypatch.setattr(
                block_table, name, lambda *given, note=note: done.append(note(*given))
            )
        monkeypatch.setattr(
            bench_run, "inspect_kernels", lambda *given: done.append(("compile", *given)) or ()
        )
        return SimpleNamespace(result=block_table.run(plan), done=done, said=said, saved=saved)

    return run


@pytest.mark.parametrize(("quick", "targets"), [(True, ["sm_90"]), (False, ["sm_90", "gfx942"])])
def test_without_a_gpu_everything_but_times_is_found(begun, quick, targets):
    found = begun(ALL, quick=quick)
    assert found.done == [
        ("check", LAUNCHED),
        ("compile", MODULE, targets),
        ("host", [*LAUNCHED, "fast, host batch"]),
    ]
    assert found.saved == [found.result]
    again = "Run the same command on a GPU to fill them in."
    no_vllm, no_times = found.result.open_questions
    assert no_vllm.startswith("No vLLM to compare with. VLLM_SRC is not set")
    assert no_times == f"GPU times are open: {MACHINE['device']}. {again}"
    said = "\n".join(found.said)
    assert "kernels are not timed" in said
    assert "Correctness and counts at reduced size" in said


@pytest.mark.parametrize(
    ("cases", "quick", "more"),
    [(ALL, False, [LONG_ROWS.name]), (ALL, True, []), (ALL[:2], False, []), (ALL[:2], True, [])],
)
def test_on_a_gpu_the_cases_are_timed_and_nothing_else(begun, cases, quick, more):
    found = begun(cases, quick=quick, mode="gpu")
    one, every = found.done
    assert one == ("time", "a case", "limits")
    assert every[:3] == ("cases", [*(case.name for case in cases), *more], ["step"])


@pytest.mark.parametrize(
    ("cores", "load", "busy"), [(4, 4.0, False), (4, 4.5, True), (None, 1.5, True)]
)
def test_a_busy_machine_is_named(begun, monkeypatch, cores, load, busy):
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    found = begun(ALL[:1])
    assert any("noisy" in line for line in found.result.open_questions) == busy


def tables_run(kinds=()):
    said = []
    plan = Plan(ALL[:1], True, said.append)
    return TablesRun(plan, TablesResult(MACHINE, True, 5), kinds), said


def row(name, peer, us=3.0, piece="step", clock="gpu cold"):
    one = Spread(us, us, us, 5)
    return StepRow(name, piece, clock, peer, "", one, one, us)


@pytest.mark.parametrize("fails", [False, True])
def test_the_hosts_share_is_measured_of_peers_that_were_right(monkeypatch, fails):
    kinds = peer_kinds(MACHINE, (), launches=False)
    run, said = tables_run()
    run.result.verdicts = [Verdict("W1", "torch", False), Verdict("W1", "faithful", True)]
    right = [kind for kind in kinds if kind.name != "torch"]

    def measured(_plan, given):
        assert given == right
        return [row("W1", "faithful", 2.0, clock="host")]

    def dry(_plan):
        if fails:
            raise dry_side.DryRunError("no compiler")
        return [row("W1", "faithful", 4.0, clock="dry")]

    monkeypatch.setattr(block_table, "host_step_rows", measured)
    monkeypatch.setattr(dry_side, "dry_step_rows", dry)
    monkeypatch.setattr(block_table, "expansion_rows", lambda _plan: ["expanded"])
    block_table.host_side(run, kinds)
    assert [score.ratio for score in run.result.host_scores] == [pytest.approx(2.0)]
    assert [score.ratio for score in run.result.dry_scores] == [pytest.approx(4.0)][: not fails]
    why = ["Host times with launches are open: no compiler"] * fails
    assert run.result.open_questions == why
    assert run.result.expansions == ["expanded"]
    assert said == [
        "The host's share of a step, without launches ...",
        "The same with its launches, launched dry ...",
        *why,
        "Expansion of ids on the host ...",
    ]


def test_without_a_right_fast_path_the_host_has_no_rows(monkeypatch):
    run, said = tables_run()
    run.result.verdicts = [Verdict("W1", FAST, False)]
    monkeypatch.setattr(block_table, "expansion_rows", lambda _plan: ["expanded"])
    block_table.host_side(run, peer_kinds(MACHINE, (), launches=False))
    assert run.result.host_steps == run.result.dry_steps == []
    assert said == ["Expansion of ids on the host ..."]


@pytest.mark.parametrize(("piece", "launches"), [("step", 2), ("gather", 1)])
def test_a_floor_is_the_bytes_or_the_launches_of_a_piece(piece, launches):
    workload = ALL[0]
    moved = workload.moved_bytes(piece)
    quick, slow = Limits(3e15, 7e-6), Limits(3e6, 7e-6)
    found = floor(workload, row("W1", FAST, 9.5, piece), quick)
    assert (found.workload, found.piece, found.bytes, found.fast_us) == ("W1", piece, moved, 9.5)
    assert found.bytes_us == pytest.approx(moved / 3e9)
    assert found.floor_us == pytest.approx(7.0 * launches)
    assert floor(workload, row("W1", FAST, 9.5, piece), slow).floor_us == pytest.approx(moved / 3)


def test_a_whole_step_is_timed_on_cold_memory_from_its_start(monkeypatch):
    done = []
    peer = SimpleNamespace(rewind=lambda: done.append("rewind"), step=lambda: done.append("step"))

    def wall(peers, work, before):
        for one in peers:
            before(one)
            work(one)
        return 0.5

    monkeypatch.setattr(gpu_clock, "wall_s", wall)
    monkeypatch.setattr(gpu_clock, "flush_l2", lambda: done.append("flush"))
    assert block_table._step_s([peer]) == 0.5
    assert done == ["rewind", "flush", "step"]


@pytest.mark.skipif(triton_mode().mode == "gpu", reason="counts in the interpreter")
def test_a_step_is_counted_for_what_launches_kernels_of_ours():
    run, _said = tables_run(
        [kind for kind in peer_kinds(MACHINE, (), launches=True) if kind.name in {FAST, "torch"}]
    )
    run.plan = Plan((CASES["W5"],), True, print)
    block_table.check_in_interpreter(run)
    assert [(one.peer, one.ok) for one in run.result.verdicts] == [(FAST, True), ("torch", True)]
    [counts] = run.result.counts
    assert (counts.workload, counts.peer, counts.launches) == ("W5", FAST, 2)
    # ids, tables and slots, and what a launch reads to find them
    assert counts.bytes > CASES["W5"].reduced().moved_bytes()


def test_pieces_are_timed_as_graphs_and_whole_steps_from_the_call_too(monkeypatch):
    wanted = []

    class Times:
        def __init__(self, *_given):
            self.rows = []

        def add_wall(self, piece, seconds):
            wanted.append(("wall", piece, seconds))

        def add_graphs(self, piece, *, hot, check):
            wanted.append(("graphs", piece, hot, check))
            self.rows += [row("W1", FAST, piece=piece), row("W1", "torch", piece=piece)]
            self.rows += [row("W1", FAST, piece=piece, clock="gpu hot")]

        def kept(self):
            return self.rows

    kinds = peer_kinds(MACHINE, (), launches=True)[:1]
    run, _said = tables_run(kinds)
    monkeypatch.setattr(block_table, "CaseTimes", Times)
    monkeypatch.setattr(bench_run, "ran", lambda *_given: ([], ""))
    workload = SimpleNamespace(
        **{name: getattr(ALL[0].reduced(), name) for name in ("name", "moved_bytes")},
        pieces=("step", "slots"),
    )
    monkeypatch.setattr(block_table, "step_input", lambda *_given: None)
    monkeypatch.setattr(block_table, "expected", lambda *_given: None)
    time_workload(run, workload, Limits(1e12, 2e-6))
    assert wanted == [
        ("wall", "step", block_table._step_s),
        ("graphs", "step", True, True),
        ("graphs", "slots", True, False),
    ]
    assert len(run.result.steps) == 6
    assert [one.piece for one in run.result.floors] == ["step", "slots"]
