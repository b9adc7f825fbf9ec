"""All problems of one run: the list of checks, each of which looks for one thing.

Without a check in CHECKS its broken notebooks would pass; tests/notebooks/test_mutations.py
disables each check in turn and expects its broken notebook to pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from workbench.run.notebooks.budget_checks import (
    artifact_size,
    cell_memory,
    cell_time,
    notebook_memory,
    notebook_time,
)
from workbench.run.notebooks.document import Notebook, code_cells, excerpt, source_of
from workbench.run.notebooks.evidence import Evidence
from workbench.run.notebooks.golden import golden_results
from workbench.run.notebooks.problems import NotebookProblem, ProblemKind
from workbench.run.notebooks.result_checks import (
    expected_values,
    recorded_results,
    result_schema,
    skipped_cells,
)
from workbench.run.notebooks.usage import unused_parameters

Check = Callable[[Evidence], Iterator[NotebookProblem]]

_MEANING = {
    "kernel_died": "the kernel died: out of memory, a crash in native code, or killed from outside",
    "not_run": "the notebook could not be run",
}
_HIDDEN: dict[str, tuple[ProblemKind, str]] = {
    "background_thread": ("background_thread", "a background thread failed"),
    "asyncio_task": ("asyncio_task", "an asyncio task failed, and was never awaited"),
    "pending_task": ("pending_task", "an asyncio task never ended, and was never awaited"),
    "network_use": ("network_use", "the notebook tried to use the network"),
}
_STREAM_KINDS = {"background_thread", "asyncio_task", "never_awaited", "traceback_in_stream"}


def problems_of(evidence: Evidence) -> tuple[NotebookProblem, ...]:
    """Return what every check found, most important first."""
    found = (problem for check in CHECKS for problem in check(evidence))
    return tuple(dict.fromkeys(found))


def run_ended(evidence: Evidence) -> Iterator[NotebookProblem]:
    """Find a run out of time, a dead kernel, a run that never began."""
    execution = evidence.execution
    kind = execution.outcome.kind
    if kind == "ok" or kind == "cell_error":  # noqa: PLR1714 - narrows the type
        return
    index, source = _last_started(execution.executed)
    if kind == "timeout":
        detail = f"; {execution.outcome.message}" if execution.outcome.message else ""
        limit = f"{evidence.timeout_s:g} s, the limit for all cells"
        interrupted = [problem for problem in evidence.shown if _is_interrupt(problem)]
        text = interrupted[-1].excerpt if interrupted else excerpt(source, "")
        yield NotebookProblem("timeout", index, f"still running after {limit}{detail}", text)
        return
    detail = f": {execution.outcome.message}" if kind == "not_run" else ""
    text = excerpt(source, execution.log)
    yield NotebookProblem(kind, index, _MEANING[kind] + detail, text)


def cell_errors(evidence: Evidence) -> Iterator[NotebookProblem]:
    """Find cells that raised; `run_ended` reports the interrupt of a cell out of time."""
    errors = [problem for problem in evidence.shown if problem.kind == "cell_error"]
    outcome = evidence.execution.outcome
    if outcome.kind == "cell_error" and not errors:
        yield NotebookProblem("cell_error", None, outcome.message)
    late = outcome.kind == "timeout"
    yield from (problem for problem in errors if not (late and _is_interrupt(problem)))


def streams(evidence: Evidence) -> Iterator[NotebookProblem]:
    """Find tracebacks and complaints of asyncio that were printed."""
    yield from (problem for problem in evidence.shown if problem.kind in _STREAM_KINDS)


def output_widgets(evidence: Evidence) -> Iterator[NotebookProblem]:
    """Find errors that an Output widget or `interact` caught."""
    yield from (problem for problem in evidence.shown if problem.kind == "widget_error")


def panels(evidence: Evidence) -> Iterator[NotebookProblem]:
    """Find panels that show an error, or whose session recorded one."""
    yield from (problem for problem in evidence.shown if problem.kind == "panel_error")


def threads(evidence: Evidence) -> Iterator[NotebookProblem]:
    """Find threads that failed outside a cell."""
    yield from _hidden(evidence, "background_thread")


def failed_tasks(evidence: Evidence) -> Iterator[NotebookProblem]:
    """Find tasks of asyncio that failed and were never awaited."""
    yield from _hidden(evidence, "asyncio_task")


def pending_tasks(evidence: Evidence) -> Iterator[NotebookProblem]:
    """Find tasks of asyncio that outlived the last cell."""
    yield from _hidden(evidence, "pending_task")


def network(evidence: Evidence) -> Iterator[NotebookProblem]:
    """Find attempts to reach another machine, also those whose error was swallowed."""
    yield from _hidden(evidence, "network_use")


def guarded(evidence: Evidence) -> Iterator[NotebookProblem]:
    """Find a kernel in which the guard could not work, so its findings stay hidden."""
    record = (evidence.execution.executed or {"metadata": {}})["metadata"].get("papermill", {})
    if "guard_error" in record:
        message = (
            "the kernel could not watch its threads and tasks: install the workbench where the "
            f"kernel runs ({record['guard_error']})"
        )
        yield NotebookProblem("unguarded", None, message)


def parameters_read(evidence: Evidence) -> Iterator[NotebookProblem]:
    """Find parameters that no later cell reads."""
    if evidence.whole:
        yield from unused_parameters(evidence.source)


CHECKS: tuple[Check, ...] = (
    run_ended,
    cell_errors,
    streams,
    output_widgets,
    panels,
    threads,
    failed_tasks,
    pending_tasks,
    network,
    guarded,
    recorded_results,
    result_schema,
    expected_values,
    golden_results,
    skipped_cells,
    notebook_time,
    cell_time,
    notebook_memory,
    cell_memory,
    artifact_size,
    parameters_read,
)


def _hidden(evidence: Evidence, wanted: str) -> Iterator[NotebookProblem]:
    """Return what the guard recorded in the kernel and no cell shows."""
    for error in evidence.execution.hidden_errors:
        if error["kind"] != wanted:
            continue
        kind, meaning = _HIDDEN[wanted]
        last = error["error"].splitlines()[-1]
        if not any(shown.kind == kind and last in shown.excerpt for shown in evidence.shown):
            text = excerpt("", error["traceback"])
            yield NotebookProblem(kind, None, f"{meaning}: {error['error']}", text)


def _is_interrupt(problem: NotebookProblem) -> bool:
    return problem.message.startswith("KeyboardInterrupt")


def _last_started(notebook: Notebook | None) -> tuple[int | None, str]:
    started = [
        (index, source_of(cell))
        for index, cell in (code_cells(notebook) if notebook else ())
        if cell["metadata"].get("papermill", {}).get("start_time")
    ]
    return started[-1] if started else (None, "")
