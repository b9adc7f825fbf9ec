"""Checks of time, memory and size against the budgets of a run."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.run.notebooks.evidence import Evidence
from workbench.run.notebooks.expectations import MIB
from workbench.run.notebooks.problems import NotebookProblem

RAISE = "make it smaller with smoke=True, or raise the budget in the matrix file"


def notebook_time(evidence: Evidence) -> Iterator[NotebookProblem]:
    """Check the seconds of all cells together; the start of the kernel is not counted."""
    budget = evidence.expectations.budgets.time_s
    taken = sum(cell.duration_s for cell in evidence.cells)
    if budget is not None and taken > budget:
        slow = max(evidence.cells, key=lambda cell: cell.duration_s)
        message = (
            f"the cells took {taken:.1f} s together, the budget is {budget:g} s; the slowest is "
            f"cell {slow.cell_index} with {slow.duration_s:.1f} s: {RAISE}"
        )
        yield NotebookProblem("over_time", None, message, slow.first_line)


def cell_time(evidence: Evidence) -> Iterator[NotebookProblem]:
    """Check the seconds of each cell."""
    budget = evidence.expectations.budgets.cell_time_s
    for cell in evidence.cells:
        if budget is not None and cell.duration_s > budget:
            message = f"took {cell.duration_s:.1f} s, the budget of a cell is {budget:g} s: {RAISE}"
            yield NotebookProblem("over_time", cell.cell_index, message, cell.first_line)


def notebook_memory(evidence: Evidence) -> Iterator[NotebookProblem]:
    """Check the kernel's highest memory."""
    budget = evidence.expectations.budgets.memory_bytes
    taken = evidence.peak_bytes
    if budget is not None and taken > budget:
        large = max(evidence.cells, key=lambda cell: cell.added_bytes, default=None)
        where = f"; cell {large.cell_index} added most, {_mib(large.added_bytes)}" if large else ""
        message = f"the kernel took {_mib(taken)}, the budget is {_mib(budget)}{where}: {RAISE}"
        yield NotebookProblem("over_memory", None, message)


def cell_memory(evidence: Evidence) -> Iterator[NotebookProblem]:
    """Check what each cell adds to the memory at its start."""
    budget = evidence.expectations.budgets.cell_memory_bytes
    for cell in evidence.cells:
        if budget is not None and cell.added_bytes > budget:
            message = (
                f"added {_mib(cell.added_bytes)} of memory, the budget of a cell is "
                f"{_mib(budget)}: {RAISE}"
            )
            yield NotebookProblem("over_memory", cell.cell_index, message, cell.first_line)


def artifact_size(evidence: Evidence) -> Iterator[NotebookProblem]:
    """Check the bytes of the executed notebook without widget state."""
    budget = evidence.expectations.budgets.size_bytes
    if budget is not None and evidence.size_bytes > budget:
        message = (
            f"the executed notebook has {_mib(evidence.size_bytes)} without widget state, the "
            f"budget is {_mib(budget)}: show fewer points, or a picture of them"
        )
        yield NotebookProblem("too_large", None, message)


def _mib(number: float) -> str:
    return f"{number / MIB:,.1f} MiB"
