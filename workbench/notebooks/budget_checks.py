"""Checks of time, memory and size against the budgets of a run."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.notebooks.evidence import Evidence
from workbench.notebooks.problems import NotebookProblem

MIB = 2**20
RAISE = "make it smaller with smoke=True, or raise the budget in the matrix file"


def over_time(evidence: Evidence) -> Iterator[NotebookProblem]:
    """Check the seconds of all cells together, without the start of the kernel, and of each."""
    budgets = evidence.expectations.budgets
    taken = sum(cell.duration_s for cell in evidence.cells)
    if budgets.time_s is not None and taken > budgets.time_s:
        slow = max(evidence.cells, key=lambda cell: cell.duration_s)
        message = (
            f"the cells took {taken:.1f} s together, the budget is {budgets.time_s:g} s; the "
            f"slowest is cell {slow.cell_index} with {slow.duration_s:.1f} s: {RAISE}"
        )
        yield NotebookProblem("over_time", None, message, slow.first_line)
    most = budgets.cell_time_s
    for cell in evidence.cells:
        if most is not None and cell.duration_s > most:
            message = f"took {cell.duration_s:.1f} s, the budget of a cell is {most:g} s: {RAISE}"
            yield NotebookProblem("over_time", cell.cell_index, message, cell.first_line)


def over_memory(evidence: Evidence) -> Iterator[NotebookProblem]:
    """Check the kernel's highest memory, and what each cell adds to the memory at its start."""
    budgets = evidence.expectations.budgets
    most, taken = budgets.memory_mib, evidence.peak_bytes / MIB
    if most is not None and taken > most:
        large = max(evidence.cells, key=lambda cell: cell.added_bytes, default=None)
        added = f"{large.added_bytes / MIB:,.1f} MiB" if large else ""
        where = f"; cell {large.cell_index} added most, {added}" if large else ""
        message = f"the kernel took {taken:,.1f} MiB, the budget is {most:,.1f} MiB{where}: {RAISE}"
        yield NotebookProblem("over_memory", None, message)
    most = budgets.cell_memory_mib
    for cell in evidence.cells:
        if most is not None and cell.added_bytes > most * MIB:
            message = (
                f"added {cell.added_bytes / MIB:,.1f} MiB of memory, the budget of a cell is "
                f"{most:,.1f} MiB: {RAISE}"
            )
            yield NotebookProblem("over_memory", cell.cell_index, message, cell.first_line)


def artifact_size(evidence: Evidence) -> Iterator[NotebookProblem]:
    """Check the size of the executed notebook without widget state."""
    most = evidence.expectations.budgets.size_kib
    if most is not None and evidence.size_bytes > most * 1024:
        message = (
            f"the executed notebook has {evidence.size_bytes / MIB:,.1f} MiB without widget "
            f"state, the budget is {most / 1024:,.1f} MiB: show fewer points, or a picture of them"
        )
        yield NotebookProblem("too_large", None, message)
