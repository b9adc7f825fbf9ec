"""The result of a notebook run, every reason not to trust it, and the errors of misuse.

A notebook that fails is not misuse: it gives a `NotebookResult` with problems.
"""

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from workbench.core.errors import WorkbenchError


class NotebookError(WorkbenchError):
    """Base of the errors of this package; `field` names the invalid argument."""


class NotebookFileError(NotebookError):
    """The file does not exist, or is not a notebook of format 4."""


class NotebookParameterError(NotebookError):
    """A parameter does not exist or has the wrong type, or the notebook declares none properly."""


class NotebookResultsError(NotebookError):
    """A value cannot be recorded as a result, because JSON cannot hold it."""


class NotebookMatrixError(NotebookError):
    """A matrix file, or a file of goldens, is invalid."""


_OfRun = Literal["cell_error", "timeout", "kernel_died", "not_run", "unguarded"]
_OfMisuse = Literal["notebook_missing", "not_a_notebook", "unknown_parameter", "parameter_type"]
_Printed = Literal["traceback_in_stream", "widget_error", "panel_error"]
HiddenKind = Literal[
    "background_thread",
    "asyncio_task",
    "pending_task",
    "never_awaited",
    "unread_future",
    "network_use",
    "output_flood",
]
_OfResults = Literal["no_results", "bad_results", "results_schema", "unexpected_result"]
_OfGoldens = Literal["no_golden", "stale_golden", "golden_differs"]
_OfSkips = Literal["silent_skip", "undeclared_skip"]
_OfBudgets = Literal["over_time", "over_memory", "too_large"]
_OfParameters = Literal["unused_parameter", "parameters_cell", "parameter_style"]
_OfSource = Literal[
    "leftover", "kernelspec", "cell_count", "long_function", "install", "title", "harness"
]
_Ran = Literal[_OfRun, _Printed, HiddenKind, _OfResults, _OfGoldens, _OfSkips, _OfBudgets]
ProblemKind = Literal[_Ran, _OfMisuse, _OfParameters, _OfSource, "syntax"]
PROBLEM_KINDS: tuple[str, ...] = get_args(ProblemKind)
MEANINGS: dict[str, str] = {
    "kernel_died": "the kernel died: out of memory, a crash in native code, or killed from outside",
    "not_run": "the notebook could not be run",
    "background_thread": "a background thread failed",
    "asyncio_task": "an asyncio task failed, and was never awaited",
    "pending_task": "an asyncio task never ended, and was never awaited",
    "unread_future": "a future failed, and its result was never read",
    "output_flood": "the output floods",
    "never_awaited": "a coroutine was called and never awaited",
    "traceback_in_stream": "a traceback was printed",
    "network_use": "the notebook tried to use the network",
}
"""How a message begins."""
UNWATCHED = "network use of child processes not watched"


@dataclass(frozen=True, slots=True)
class NotebookProblem:
    """One reason not to trust a notebook.

    `cell_index`: position in the source notebook, from 0; None when no cell is to blame.
    `excerpt`: the cell's source and the end of the traceback, or the offending text.
    """

    kind: ProblemKind
    cell_index: int | None
    message: str
    excerpt: str = ""

    def __str__(self) -> str:
        where = "" if self.cell_index is None else f" in cell {self.cell_index}"
        body = "".join(f"\n    {line}" for line in self.excerpt.splitlines())
        return f"{self.kind}{where}: {self.message}{body}"


@dataclass(frozen=True, slots=True)
class CellTime:
    """What one cell took; `first_line` helps to recognise it.

    `peak_bytes`: most memory of the kernel while it ran; `added_bytes`: how far that is above
    the cell's start. 0 where it was not measured.
    """

    cell_index: int
    duration_s: float
    first_line: str
    peak_bytes: int = 0
    added_bytes: int = 0


@dataclass(frozen=True)
class NotebookResult:
    """One finished run.

    `results`: what the notebook recorded, or None; `skipped`: why GPU cells were skipped, one
    reason each; `cells`: what each code cell took, in order; `peak_bytes`: of the kernel; the
    sizes are those of the executed notebook with and without widget state (equal when the state
    was kept); `hash_seed`: PYTHONHASHSEED of the run, which a rerun needs; `failed_starts`: why a
    kernel was started again before the first cell was run, one reason per kernel.
    """

    path: Path
    output_path: Path
    results: dict[str, Any] | None = None
    skipped: tuple[str, ...] = ()
    duration_s: float = 0.0
    cells: tuple[CellTime, ...] = ()
    problems: tuple[NotebookProblem, ...] = ()
    size_before_bytes: int = 0
    size_after_bytes: int = 0
    peak_bytes: int = 0
    parameters: Mapping[str, Any] = field(default_factory=dict)
    hash_seed: int = 0
    failed_starts: tuple[str, ...] = ()
    unwatched: str = ""
    """Why the network use of child processes was not watched; empty where it was."""

    @property
    def ok(self) -> bool:
        """Return whether no problem was found."""
        return not self.problems

    @property
    def slowest(self) -> tuple[CellTime, ...]:
        """Return the three slowest cells, slowest first."""
        return tuple(sorted(self.cells, key=lambda cell: -cell.duration_s)[:3])

    @property
    def numbers(self) -> dict[str, Any]:
        """Return what every report says of a run, by its published name; reasons as lists."""
        return {
            "peak_bytes": self.peak_bytes,
            "executed_bytes": self.size_after_bytes,
            "hash_seed": self.hash_seed,
            "skipped_gpu_cells": list(self.skipped),
            "failed_kernel_starts": list(self.failed_starts),
            "network_not_watched": [self.unwatched] if self.unwatched else [],
        }

    def rerun(self, to_cell: int | None = None) -> str:
        """Return the command that repeats this run, up to a cell if one is named."""
        words = ["workbench", "notebook", "run", near_path(self.path)]
        for name, value in self.parameters.items():
            words += ["-p", f"{name}={json.dumps(value)}"]
        words += ["--hash-seed", str(self.hash_seed)]
        return shlex.join(words + ([] if to_cell is None else ["--to-cell", str(to_cell)]))

    def report(self) -> str:
        """Return text for a terminal: one line if all is well, else every problem and its rerun."""
        again = "; ".join(self.failed_starts)
        starts = f", kernel started again after: {again}" if again else ""
        starts += f", {UNWATCHED}: {self.unwatched}" if self.unwatched else ""
        if self.ok:
            skipped = f", skipped: {'; '.join(self.skipped)}" if self.skipped else ""
            return f"{self.path.name}: ok in {self.duration_s:.1f} s{skipped}{starts}"
        count = len(self.problems)
        found = f"{count} problem{'s' if count > 1 else ''}"
        lines = [f"{self.path.name}: {found}; see {self.output_path}{starts}"]
        for problem in self.problems:
            lines.append(f"- {problem}")
            if problem.cell_index is not None:
                lines.append(f"  rerun: {self.rerun(problem.cell_index)}")
        if all(problem.cell_index is None for problem in self.problems):
            lines.append(f"  rerun: {self.rerun()}")
        return "\n".join(lines)


def near_path(path: Path) -> str:
    """Return the path as a command takes it: relative if it is in the working directory."""
    here = Path.cwd()
    return (path.relative_to(here) if path.is_relative_to(here) else path).as_posix()
