"""A pytest plugin: every case of a matrix file is a test.

    pytest -p workbench.notebooks.pytest_plugin notebooks/matrix.toml
    pytest -p workbench.notebooks.pytest_plugin notebooks/matrix.toml -m "not matrix" -n 4

Any file named `matrix.toml`, `matrix.json`, `*.matrix.toml` or `*.matrix.json` is collected. The
quick cases carry the marker `notebook`, the others `notebook` and `matrix`. With
--notebook-output the executed notebooks and their results stay in a folder.
"""

from __future__ import annotations

import fnmatch
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from workbench.notebooks.matrix import Case, Matrix

_ADMITTED = {
    "skipped_gpu_cells": "GPU cells of notebooks skipped",
    "failed_kernel_starts": "kernels of notebooks started again",
}
_NAMES = ("matrix.toml", "matrix.json", "*.matrix.toml", "*.matrix.json")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of this plugin."""
    group = parser.getgroup("notebooks", "notebooks of a matrix file")
    kept = "folder that keeps executed notebooks and results (default: a temporary one)"
    group.addoption("--notebook-output", metavar="DIR", help=kept)
    scale = "factor for the time budgets, on a machine slower than CI's"
    group.addoption("--notebook-time-scale", type=float, default=1.0, metavar="N", help=scale)


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers, so that --strict-markers knows them."""
    config.addinivalue_line("markers", "notebook: executes a whole notebook")
    config.addinivalue_line("markers", "matrix: a notebook case outside the quick part")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect a matrix file as a collector of its cases."""
    if any(fnmatch.fnmatch(file_path.name, name) for name in _NAMES):
        return MatrixFile.from_parent(parent, path=file_path)
    return None


class MatrixFile(pytest.File):
    """A matrix file; one that is broken fails the collection with its own message."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield an item for each case, each excluded combination, and the goldens."""
        from workbench.notebooks.golden import orphans
        from workbench.notebooks.matrix import read_matrix
        from workbench.notebooks.problems import NotebookError

        try:
            matrix = read_matrix(self.path)
        except NotebookError as error:
            raise self.CollectError(error.message) from error
        for case in matrix.cases:
            marks = ("notebook",) if case.quick else ("notebook", "matrix")
            yield self._item(case.case_id, partial(_run_case, matrix, case), *marks)
        for case_id, reason in matrix.excluded.items():
            skip = pytest.mark.skip(reason=reason)
            yield self._item(case_id, lambda _: "", skip, "notebook", "matrix")
        yield self._item("goldens", lambda _: "\n".join(orphans(matrix)))

    def _item(self, name: str, check: Check, *marks: str | pytest.MarkDecorator) -> pytest.Item:
        item = MatrixItem.from_parent(self, name=name, check=check)
        for mark in marks:
            item.add_marker(mark)
        return item


class MatrixItem(pytest.Item):
    """One test of a matrix file; `check` returns what is wrong, or ""."""

    def __init__(self, *, check: Check, **others: Any) -> None:
        super().__init__(**others)
        self.check = check

    def runtest(self) -> None:
        """Fail with what the check returns, and without a traceback of this plugin."""
        if report := self.check(self):
            pytest.fail(report, pytrace=False)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Return where the item is, for the terminal."""
        return self.path, None, self.name


Check = Callable[[MatrixItem], str]


def _run_case(matrix: Matrix, case: Case, item: MatrixItem) -> str:
    """Run a case; its numbers and skipped GPU cells become properties of the test."""
    import tempfile

    from workbench.notebooks.golden import golden_of
    from workbench.notebooks.matrix_run import run_case

    kept = item.config.getoption("--notebook-output")
    scale = item.config.getoption("--notebook-time-scale")
    with tempfile.TemporaryDirectory(prefix="notebook-") as folder:
        golden = golden_of(matrix, case)
        result = run_case(matrix, case, kept or folder, golden=golden, time_scale=scale)
    item.user_properties += result.run.numbers.items()
    return "" if result.run.ok else result.report()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report what a green run hides: GPU cells skipped, kernels started again."""
    every = [report for reports in terminalreporter.stats.values() for report in reports]
    calls = [report for report in every if getattr(report, "when", "") == "call"]
    for name, title in _ADMITTED.items():
        found = (dict(report.user_properties).get(name, ()) for report in calls)
        counts = Counter(reason for reasons in found for reason in reasons)
        if counts:
            terminalreporter.section(title)
        for reason, count in counts.items():
            terminalreporter.line(f"{count} x {reason}")
