"""What a run of a notebook gives: values, and every reason not to trust them."""

from __future__ import annotations

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
    # errors that papermill does not see
    "widget_error",
    "panel_error",
    "background_thread",
    "asyncio_task",
    "traceback_in_stream",
    # results
    "no_results",
    "bad_results",
    "unexpected_result",
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
    """How long one cell took; `first_line` helps to recognise it."""

    cell_index: int
    duration_s: float
    first_line: str


@dataclass(frozen=True)
class NotebookResult:
    """One finished run.

    `results`: what the notebook recorded, or None; `skipped`: why GPU cells were skipped;
    `slowest`: the slowest cells, slowest first; the sizes are those of the executed notebook
    with and without widget state (equal when the state was kept, as it is after a failure).
    """

    path: Path
    output_path: Path
    results: dict[str, Any] | None
    skipped: tuple[str, ...]
    duration_s: float
    slowest: tuple[CellTime, ...] = ()
    problems: tuple[NotebookProblem, ...] = field(default=())
    size_before_bytes: int = 0
    size_after_bytes: int = 0

    @property
    def ok(self) -> bool:
        """Whether nothing speaks against the results."""
        return not self.problems

    def report(self) -> str:
        """Text for a terminal: one line when all is well, else every problem with its excerpt."""
        if self.ok:
            skipped = f", skipped: {'; '.join(self.skipped)}" if self.skipped else ""
            return f"{self.path.name}: ok in {self.duration_s:.1f} s{skipped}"
        count = len(self.problems)
        head = (
            f"{self.path.name}: {count} problem{'s' if count > 1 else ''}; see {self.output_path}"
        )
        return "\n".join([head, *(f"- {problem}" for problem in self.problems)])
