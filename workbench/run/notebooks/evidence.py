"""The record of one run: everything that a check may use."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from workbench.run.notebooks.document import Notebook, code_cells, first_line, source_of
from workbench.run.notebooks.execute import Execution
from workbench.run.notebooks.expectations import Expectations
from workbench.run.notebooks.problems import CellTime, NotebookProblem
from workbench.run.notebooks.results_check import Recorded
from workbench.run.notebooks.scan import scan_notebook


@dataclass(frozen=True)
class Evidence:
    """`source`: the notebook before the run; `size_bytes`: of the executed one without state.

    `has_gpu`: whether this machine has a GPU; `whole`: False when only the first cells were run,
    which owe no results.
    """

    source: Notebook
    execution: Execution
    recorded: Recorded
    expectations: Expectations
    timeout_s: float
    size_bytes: int = 0
    has_gpu: bool = False
    whole: bool = True

    @cached_property
    def shown(self) -> tuple[NotebookProblem, ...]:
        """Return errors in the executed notebook's cells, streams and widget state."""
        executed = self.execution.executed
        return scan_notebook(executed) if executed else ()

    @property
    def stopped(self) -> bool:
        """Return whether the run ended early; such a run is not blamed for missing records."""
        failed = any(problem.kind == "cell_error" for problem in self.shown)
        return failed or not self.whole or self.execution.outcome.kind != "ok"

    @cached_property
    def cells(self) -> tuple[CellTime, ...]:
        """Return what each code cell took."""
        executed = self.execution.executed
        return cell_times(executed) if executed else ()

    @property
    def peak_bytes(self) -> int:
        """Return the highest memory of the kernel and its children."""
        return int(self._record.get("peak_bytes", 0))

    @property
    def failed_starts(self) -> tuple[str, ...]:
        """Return why each kernel before the one that ran the cells did not become ready."""
        return tuple(self._record.get("failed_starts", ()))

    @property
    def _record(self) -> dict[str, Any]:
        executed = self.execution.executed or {"metadata": {}}
        record: dict[str, Any] = executed["metadata"].get("papermill", {})
        return record


def cell_times(executed: Notebook) -> tuple[CellTime, ...]:
    """Return what each executed code cell took, in the order of the notebook."""
    records = [
        (index, source_of(cell), cell["metadata"].get("papermill", {}))
        for index, cell in code_cells(executed)
    ]
    return tuple(
        CellTime(
            index,
            float(record["duration"]),
            first_line(source),
            int(record.get("peak_bytes", 0)),
            int(record.get("added_bytes", 0)),
        )
        for index, source, record in records
        if record.get("duration") is not None
    )
