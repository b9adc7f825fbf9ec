"""The record of one run: everything that a check may use."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from workbench.access.files import FileUse, read_start
from workbench.notebooks.document import Notebook, code_cells, first_line, source_of
from workbench.notebooks.execute import Execution
from workbench.notebooks.expectations import Expectations
from workbench.notebooks.parameters import inspect_parameters
from workbench.notebooks.problems import CellTime, NotebookProblem
from workbench.notebooks.scan import scan_notebook
from workbench.notebooks.strict import Strict, read_strict

RESULTS = FileUse("results file", 64 * 2**20)


class ResultsFile(Strict):
    """What `write_results` writes."""

    schema_version: Literal[1]
    results: dict[str, Any]
    skipped: list[Annotated[str, Field(min_length=1)]]


@dataclass(frozen=True, slots=True)
class ResultsRecord:
    """The results of a notebook; `problems` state why `results` is None."""

    results: dict[str, Any] | None
    skipped: tuple[str, ...] = ()
    problems: tuple[NotebookProblem, ...] = ()


def read_results(path: Path) -> ResultsRecord:
    """Return the recorded results; a missing or malformed file is a problem, not an error."""
    if not path.exists():
        why = "the notebook recorded no results: end it with `record_results(name=value, ...)`"
        return ResultsRecord(None, problems=(NotebookProblem("no_results", None, why),))
    start = ""
    try:
        start = read_start(path, 500, RESULTS).decode(errors="replace")
        found = read_strict(path, RESULTS, ResultsFile)
    except ValueError as error:
        why = f"the results file is malformed: {error}; write it with `record_results`"
        return ResultsRecord(None, problems=(NotebookProblem("bad_results", None, why, start),))
    return ResultsRecord(found.results, tuple(found.skipped))


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
        return scan_notebook(self.execution.executed)

    @property
    def stopped(self) -> bool:
        """Return whether the run ended early; such a run is not blamed for missing records."""
        failed = any(problem.kind == "cell_error" for problem in self.shown)
        return failed or not self.whole or self.execution.outcome.kind != "ok"

    @cached_property
    def smaller(self) -> str:
        """Return how a run takes less; only a notebook with the parameter `smoke` can set it."""
        names = [parameter.name for parameter in inspect_parameters(self.source)]
        return "make it smaller" + " with smoke=True" * ("smoke" in names)

    @property
    def finished_results(self) -> dict[str, Any] | None:
        """Return the results of a run that did not end early, if it recorded any."""
        return None if self.stopped else self.recorded.results

    @cached_property
    def cells(self) -> tuple[CellTime, ...]:
        """Return what each executed code cell took, in the order of the notebook."""
        return tuple(
            CellTime(
                cell_index=index,
                duration_s=float(record["duration"]),
                first_line=first_line(source_of(cell)),
                peak_bytes=record.get("peak_bytes", 0),
                added_bytes=record.get("added_bytes", 0),
            )
            for index, cell in code_cells(self.execution.executed)
            if (record := cell["metadata"].get("papermill", {})).get("duration") is not None
        )

    @property
    def record(self) -> dict[str, Any]:
        """Return what the engine wrote into the metadata of the executed notebook."""
        record: dict[str, Any] = self.execution.executed.get("metadata", {}).get("papermill", {})
        return record
