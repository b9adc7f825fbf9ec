"""The record of one run: everything that a check may use."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from workbench.notebooks.document import Notebook, code_cells, first_line, source_of
from workbench.notebooks.execute import Execution
from workbench.notebooks.expectations import Expectations
from workbench.notebooks.problems import CellTime, NotebookProblem
from workbench.notebooks.results_check import ResultsRecord
from workbench.notebooks.scan import scan_notebook


@dataclass(frozen=True)
class Evidence:
    """`source`: the notebook before the run; `size_bytes`: of the executed one without state.

    `has_gpu`: whether this machine has a GPU; `whole`: False when only the first cells were run,
    which owe no results.
    """

    source: Notebook
    execution: Execution
    recorded: ResultsRecord
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

    @property
    def finished_results(self) -> dict[str, Any] | None:
        """Return the results of a run that did not end early, if it recorded any."""
        return None if self.stopped else self.recorded.results

    @cached_property
    def cells(self) -> tuple[CellTime, ...]:
        """Return what each executed code cell took, in the order of the notebook."""
        executed = self.execution.executed
        return tuple(
            CellTime(
                cell_index=index,
                duration_s=float(record["duration"]),
                first_line=first_line(source_of(cell)),
                peak_bytes=record.get("peak_bytes", 0),
                added_bytes=record.get("added_bytes", 0),
            )
            for index, cell in (code_cells(executed) if executed else ())
            if (record := cell["metadata"].get("papermill", {})).get("duration") is not None
        )

    @property
    def peak_bytes(self) -> int:
        """Return the highest memory of the kernel and its children."""
        return int(self.record.get("peak_bytes", 0))

    @property
    def record(self) -> dict[str, Any]:
        """Return what the engine wrote into the metadata of the executed notebook."""
        executed = self.execution.executed or {"metadata": {}}
        record: dict[str, Any] = executed["metadata"].get("papermill", {})
        return record
