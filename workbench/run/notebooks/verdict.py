"""All the problems of one execution, most telling first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.run.notebooks.document import Notebook, code_cells, excerpt, first_line, source_of
from workbench.run.notebooks.execute import Execution
from workbench.run.notebooks.problems import CellTime, NotebookProblem, ProblemKind
from workbench.run.notebooks.results_check import Recorded, check_expected
from workbench.run.notebooks.scan import scan_notebook

SLOWEST = 3
_MEANING = {
    "kernel_died": "the kernel died: out of memory, a crash in native code, or killed from outside",
    "not_run": "the notebook could not be run",
}
_HIDDEN: dict[str, tuple[ProblemKind, str]] = {
    "background_thread": ("background_thread", "a background thread failed"),
    "asyncio_task": ("asyncio_task", "an asyncio task failed, and nobody awaited it"),
}


def problems_of(
    execution: Execution, recorded: Recorded, expected: Mapping[str, Any], timeout_s: float
) -> tuple[NotebookProblem, ...]:
    """Problems of the run, hidden errors, results.

    A run that stopped early is not blamed for the results that it could not record.
    """
    shown = scan_notebook(execution.executed) if execution.executed else ()
    stopped = execution.outcome.kind != "ok" or any(p.kind == "cell_error" for p in shown)
    problems = [*_of_outcome(execution, shown, timeout_s)]
    problems += _of_guard(execution, shown)
    if not stopped or any(problem.kind != "no_results" for problem in recorded.problems):
        problems += recorded.problems
    problems += check_expected(
        recorded.results or {}, expected, complete=not stopped and recorded.results is not None
    )
    return tuple(problems)


def _of_outcome(
    execution: Execution, shown: tuple[NotebookProblem, ...], timeout_s: float
) -> tuple[NotebookProblem, ...]:
    kind = execution.outcome.kind
    if kind == "ok":
        return shown
    if kind == "cell_error":
        errors = [problem for problem in shown if problem.kind == "cell_error"]
        unseen = NotebookProblem("cell_error", None, execution.outcome.message)
        return shown if errors else (unseen, *shown)
    index, source = _last_started(execution.executed)
    if kind == "timeout":
        detail = f"; {execution.outcome.message}" if execution.outcome.message else ""
        message = f"still running after {timeout_s:g} s, the limit for all cells{detail}"
        interrupted = [p for p in shown if p.message.startswith("KeyboardInterrupt")]
        text = interrupted[-1].excerpt if interrupted else excerpt(source, "")
        others = tuple(problem for problem in shown if problem not in interrupted)
        return (NotebookProblem("timeout", index, message, text), *others)
    message = _MEANING[kind] + (f": {execution.outcome.message}" if kind == "not_run" else "")
    return (NotebookProblem(kind, index, message, excerpt(source, execution.log)), *shown)


def _of_guard(
    execution: Execution, shown: tuple[NotebookProblem, ...]
) -> tuple[NotebookProblem, ...]:
    """What the guard recorded in the kernel and no cell shows."""
    found = []
    for error in execution.hidden_errors:
        kind, meaning = _HIDDEN[error["kind"]]
        last = error["error"].splitlines()[-1]
        if not any(problem.kind == kind and last in problem.excerpt for problem in shown):
            text = excerpt("", error["traceback"])
            found.append(NotebookProblem(kind, None, f"{meaning}: {error['error']}", text))
    record = (execution.executed or {"metadata": {}})["metadata"].get("papermill", {})
    if "guard_error" in record:
        message = (
            "the kernel could not watch its threads and tasks: install the workbench where the "
            f"kernel runs ({record['guard_error']})"
        )
        found.append(NotebookProblem("unguarded", None, message))
    return tuple(dict.fromkeys(found))


def _last_started(notebook: Notebook | None) -> tuple[int | None, str]:
    started = [
        (index, source_of(cell))
        for index, cell in (code_cells(notebook) if notebook else ())
        if cell["metadata"].get("papermill", {}).get("start_time")
    ]
    return started[-1] if started else (None, "")


def slowest_cells(notebook: Notebook) -> tuple[CellTime, ...]:
    """The slowest code cells, slowest first."""
    times = [
        CellTime(index, float(duration), first_line(source_of(cell)))
        for index, cell in code_cells(notebook)
        if (duration := cell["metadata"].get("papermill", {}).get("duration")) is not None
    ]
    return tuple(sorted(times, key=lambda time: -time.duration_s)[:SLOWEST])
