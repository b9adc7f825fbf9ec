from types import MappingProxyType

import pytest

from workbench.notebooks.evidence import Evidence, ResultsRecord
from workbench.notebooks.execute import Execution
from workbench.notebooks.expectations import Budgets, Expectations
from workbench.notebooks.problems import NotebookProblem
from workbench.notebooks.verdict import problems_of
from workbench.notebooks.worker import Outcome

NO_RESULTS = ResultsRecord(None, problems=(NotebookProblem("no_results", None, "none"),))
NO_NOTEBOOK = MappingProxyType({})


@pytest.fixture
def kinds(tmp_path, with_parameters):
    def judge(
        outcome, executed=NO_NOTEBOOK, hidden=(), recorded=NO_RESULTS, expected=None, **known
    ):
        execution = Execution(Outcome(*outcome), 1.0, executed, tmp_path, hidden, "log line")
        wanted = Expectations(values=expected or {}, gpu_cells=known.pop("gpu_cells", None))
        source = with_parameters("smoke: bool = True  # small", "smoke")
        evidence = Evidence(source, execution, recorded, wanted, 60.0, **known)
        return [problem.kind for problem in problems_of(evidence)]

    return judge


def hidden(kind="background_thread", error="ValueError: no"):
    return {"kind": kind, "error": error, "traceback": f"Traceback\n{error}"}


def test_a_run_that_stopped_is_not_blamed_for_missing_results(kinds):
    assert kinds(("not_run", "No such kernel"), expected={"a": 1}) == ["not_run"]
    assert kinds(("kernel_died", "")) == ["kernel_died"]
    assert kinds(("cell_error", "ValueError: no")) == ["cell_error"]
    assert kinds(("timeout", "")) == ["timeout"]


def test_a_run_that_stopped_is_still_blamed_for_a_wrong_result(kinds):
    recorded = ResultsRecord({"a": 2})
    assert kinds(("timeout", ""), recorded=recorded, expected={"a": 1, "b": 1}) == [
        "timeout",
        "unexpected_result",
    ]


@pytest.mark.parametrize(("source", "is_advised"), [("smoke: bool = True", 1), ("n: int = 1", 0)])
def test_smoke_is_advised_where_the_notebook_has_it(tmp_path, with_parameters, source, is_advised):
    execution = Execution(Outcome("over_memory"), 1.0, NO_NOTEBOOK, tmp_path, (), "")
    evidence = Evidence(with_parameters(source), execution, NO_RESULTS, Expectations(), 60.0)
    message = next(p.message for p in problems_of(evidence) if p.kind == "over_memory")
    assert "make it smaller" in message
    assert ("smoke=True" in message) == is_advised


def test_a_finished_run_owes_its_results(kinds, make_notebook):
    assert kinds(("ok",), make_notebook("x = 1")) == ["no_results"]


def test_a_hidden_error_is_reported_once(kinds, make_notebook, make_cell):
    text = "Exception in thread T:\nTraceback (most recent call last):\n  a\nValueError: no\n"
    shown = make_notebook(make_cell("go()", outputs=[{"output_type": "stream", "text": text}]))
    recorded = ResultsRecord({})
    assert kinds(("ok",), shown, (hidden(),), recorded) == ["background_thread"]
    other = hidden(error="ValueError: another")
    assert kinds(("ok",), shown, (hidden(), other, other), recorded) == ["background_thread"] * 2
    task = hidden("asyncio_task")
    assert kinds(("ok",), shown, (task,), recorded) == ["background_thread", "asyncio_task"]


def test_a_kernel_without_the_guard_is_a_problem(kinds, make_notebook):
    notebook = make_notebook("x = 1")
    notebook["metadata"]["papermill"] = {"guard_error": "ModuleNotFoundError: workbench"}
    assert kinds(("ok",), notebook, recorded=ResultsRecord({})) == ["unguarded"]


@pytest.mark.parametrize(
    ("has_gpu", "declared", "skipped", "found"),
    [
        (False, 1, ("no GPU",), []),
        (False, 1, (), ["silent_skip"]),
        (False, 2, ("no GPU",), ["silent_skip"]),
        (False, 0, ("no GPU",), ["undeclared_skip"]),
        (False, None, ("no GPU",), []),
        (True, 1, (), []),
        (True, 1, ("forced onto the interpreter",), []),
        (True, 0, ("no vLLM",), ["undeclared_skip"]),
    ],
)
def test_gpu_cells_are_declared_and_say_when_they_are_skipped(
    kinds, make_notebook, has_gpu, declared, skipped, found
):
    recorded = ResultsRecord({}, skipped)
    known = {"has_gpu": has_gpu, "gpu_cells": declared}
    assert kinds(("ok",), make_notebook("x = 1"), recorded=recorded, **known) == found


def test_the_first_cells_owe_no_results(kinds, make_notebook):
    assert kinds(("ok",), make_notebook("x = 1"), whole=False, expected={"a": 1}) == []


def test_only_budgets_of_time_are_scaled():
    budgets = Budgets(time_s=10, memory_mib=5).scaled(2)
    assert (budgets.time_s, budgets.cell_time_s, budgets.memory_mib) == (20, None, 5)
