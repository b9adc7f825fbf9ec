"""All problems of one run: the list of checks, each of which looks for one thing.

Without a check in CHECKS its broken notebooks would pass; tests/notebooks/test_mutations.py
disables each check in turn and expects its broken notebook to pass.
"""

from collections.abc import Iterator
from typing import get_args

from workbench.notebooks.document import code_cells, excerpt, source_of
from workbench.notebooks.evidence import Evidence
from workbench.notebooks.parameters import unused_parameters
from workbench.notebooks.problems import MEANINGS, HiddenKind, NotebookProblem
from workbench.notebooks.result_checks import RESULT_CHECKS, Check


def problems_of(evidence: Evidence) -> tuple[NotebookProblem, ...]:
    """Return what every check found, most important first."""
    found = (problem for check in CHECKS for problem in check(evidence))
    return tuple(dict.fromkeys(found))


def run_ended(evidence: Evidence) -> Iterator[NotebookProblem]:
    """Find a run out of time, a dead kernel, a run that never began."""
    outcome = evidence.execution.outcome
    index, source = _last_started(evidence)
    if outcome.kind == "timeout":
        detail = f"; {outcome.message}" if outcome.message else ""
        limit = f"{evidence.timeout_s:g} s, the limit for all cells"
        interrupted = [problem for problem in evidence.shown if _is_interrupt(problem)]
        text = interrupted[-1].excerpt if interrupted else excerpt(source, "")
        yield NotebookProblem("timeout", index, f"still running after {limit}{detail}", text)
    elif outcome.kind == "over_memory":
        taken, most = (f"{size / 2**20:,.0f} MiB" for size in _memory(evidence))
        fix = f"{evidence.smaller}, or raise memory_limit_mib"
        message = f"the kernel was ended with {taken} of memory, the limit is {most}: {fix}"
        yield NotebookProblem("over_memory", index, message, excerpt(source, ""))
    elif outcome.kind in {"kernel_died", "not_run"}:
        detail = f": {outcome.message}" if outcome.kind == "not_run" else ""
        text = excerpt(source, evidence.execution.log)
        yield NotebookProblem(outcome.kind, index, MEANINGS[outcome.kind] + detail, text)


def cell_errors(evidence: Evidence) -> Iterator[NotebookProblem]:
    """Find cells that raised; `run_ended` reports the interrupt of a cell out of time."""
    errors = [problem for problem in evidence.shown if problem.kind == "cell_error"]
    outcome = evidence.execution.outcome
    if outcome.kind == "cell_error" and not errors:
        yield NotebookProblem("cell_error", None, outcome.message)
    late = outcome.kind == "timeout"
    yield from (error for error in errors if not (late and _is_interrupt(error)))


def shown_errors(evidence: Evidence) -> Iterator[NotebookProblem]:
    """Find errors that did not stop a cell: in streams, in Output widgets, in panels."""
    yield from (problem for problem in evidence.shown if problem.kind != "cell_error")


def hidden_errors(evidence: Evidence) -> Iterator[NotebookProblem]:
    """Find what the guard recorded in the kernel and no cell shows."""
    for kind in get_args(HiddenKind):
        for error in evidence.execution.hidden_errors:
            last = error["error"].splitlines()[-1]
            shown = any(each.kind == kind and last in each.excerpt for each in evidence.shown)
            if error["kind"] == kind and not shown:
                text = excerpt("", error["traceback"])
                yield NotebookProblem(kind, None, f"{MEANINGS[kind]}: {error['error']}", text)


def guarded(evidence: Evidence) -> Iterator[NotebookProblem]:
    """Find a kernel in which the guard could not work, so its findings stay hidden."""
    if error := evidence.record.get("guard_error"):
        fix = f"install the workbench where the kernel runs ({error})"
        message = f"the kernel could not watch its threads and tasks: {fix}"
        yield NotebookProblem("unguarded", None, message)


def parameters_read(evidence: Evidence) -> Iterator[NotebookProblem]:
    """Find parameters that no later cell reads."""
    if evidence.whole:
        yield from unused_parameters(evidence.source)


CHECKS: tuple[Check, ...] = (
    *(run_ended, cell_errors, shown_errors, hidden_errors, guarded),
    *RESULT_CHECKS,
    parameters_read,
)


def _is_interrupt(problem: NotebookProblem) -> bool:
    return problem.message.startswith("KeyboardInterrupt")


def _memory(evidence: Evidence) -> tuple[int, int]:
    limit_bytes = evidence.expectations.budgets.limits.memory_bytes
    return evidence.record.get("peak_bytes", 0), limit_bytes


def _last_started(evidence: Evidence) -> tuple[int | None, str]:
    for index, cell in reversed(code_cells(evidence.execution.executed)):
        if cell["metadata"].get("papermill", {}).get("start_time"):
            return index, source_of(cell)
    return None, ""
