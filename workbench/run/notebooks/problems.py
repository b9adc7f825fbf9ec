"""The result of a notebook run: values, and every reason not to trust them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

ProblemKind = Literal[
    # the run
    "cell_error",
    "timeout",
    "kernel_died",
    "not_run",
    "unguarded",
    "notebook_missing",
    "not_a_notebook",
    "unknown_parameter",
    "parameter_type",
    # errors that papermill does not see
    "widget_error",
    "panel_error",
    "background_thread",
    "asyncio_task",
    "pending_task",
    "never_awaited",
    "traceback_in_stream",
    "network_use",
    # results
    "no_results",
    "bad_results",
    "results_schema",
    "unexpected_result",
    "no_golden",
    "stale_golden",
    "golden_differs",
    "silent_skip",
    "undeclared_skip",
    # budgets
    "over_time",
    "over_memory",
    "too_large",
    # the source
    "unused_parameter",
    "leftover",
    "kernelspec",
    "parameters_cell",
    "parameter_style",
    "cell_count",
    "long_function",
    "install",
    "title",
    "syntax",
]
SLOWEST = 3
PROBLEM_KINDS: tuple[str, ...] = get_args(ProblemKind)


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
    results: dict[str, Any] | None
    skipped: tuple[str, ...]
    duration_s: float
    cells: tuple[CellTime, ...] = ()
    problems: tuple[NotebookProblem, ...] = field(default=())
    size_before_bytes: int = 0
    size_after_bytes: int = 0
    peak_bytes: int = 0
    parameters: Mapping[str, Any] = field(default_factory=dict)
    hash_seed: int = 0
    failed_starts: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Return whether no problem was found."""
        return not self.problems

    @property
    def slowest(self) -> tuple[CellTime, ...]:
        """Return the three slowest cells, slowest first."""
        return tuple(sorted(self.cells, key=lambda cell: -cell.duration_s)[:SLOWEST])

    def rerun(self, to_cell: int | None = None) -> str:
        """Return the command that repeats this run, up to a cell if one is named."""
        near = Path.cwd()
        inside = self.path.is_relative_to(near)
        path = self.path.relative_to(near) if inside else self.path
        words = ["workbench", "notebook", "run", path.as_posix()]
        for name, value in self.parameters.items():
            words += ["-p", f"{name}={json.dumps(value)}"]
        words += ["--hash-seed", str(self.hash_seed)]
        if to_cell is not None:
            words += ["--to-cell", str(to_cell)]
        return shlex.join(words)

    def report(self) -> str:
        """Return text for a terminal: one line if all is well, else every problem with its excerpt.

        A problem of one cell is followed by the command that runs the notebook up to that cell.
        """
        if self.ok:
            skipped = f", skipped: {'; '.join(self.skipped)}" if self.skipped else ""
            return f"{self.path.name}: ok in {self.duration_s:.1f} s{skipped}{self._starts()}"
        count = len(self.problems)
        head = (
            f"{self.path.name}: {count} problem{'s' if count > 1 else ''}; see {self.output_path}"
            f"{self._starts()}"
        )
        lines = [head]
        for problem in self.problems:
            lines.append(f"- {problem}")
            if problem.cell_index is not None:
                lines.append(f"  rerun: {self.rerun(problem.cell_index)}")
        if all(problem.cell_index is None for problem in self.problems):
            lines.append(f"  rerun: {self.rerun()}")
        return "\n".join(lines)

    def _starts(self) -> str:
        """Return a note on kernels that never became ready; empty if the first was ready."""
        if not self.failed_starts:
            return ""
        return f", kernel started again after: {'; '.join(self.failed_starts)}"
