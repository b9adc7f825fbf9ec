"""A pytest plugin: every case of a matrix file is a test.

    pytest -p workbench.run.notebooks.pytest_plugin notebooks/matrix.toml
    pytest -p workbench.run.notebooks.pytest_plugin notebooks/matrix.toml -m "not matrix" -n 4

Any file named `matrix.toml`, `matrix.json`, `*.matrix.toml` or `*.matrix.json` is collected. The
quick cases carry the marker `notebook`, the others `notebook` and `matrix`. With
--notebook-output the executed notebooks and their results stay in a folder.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from workbench.run.notebooks.matrix import Case, Matrix

_ADMITTED = {
    "skipped_gpu_cells": "GPU cells of notebooks skipped",
    "failed_kernel_starts": "kernels of notebooks started again",
}
_NAMES = ("matrix.toml", "matrix.json", "*.matrix.toml", "*.matrix.json")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of this plugin."""
    group = parser.getgroup("notebooks", "notebooks of a matrix file")
    group.addoption(
        "--notebook-output",
        metavar="DIR",
        help="folder that keeps executed notebooks and results (default: a temporary one)",
    )
    group.addoption(
        "--notebook-time-scale",
        type=float,
        default=1.0,
        metavar="N",
        help="factor for the time budgets, on a machine slower than CI's",
    )


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
        from workbench.run.notebooks.errors import NotebookError
        from workbench.run.notebooks.matrix import read_matrix

        try:
            matrix = read_matrix(self.path)
        except NotebookError as error:
            raise self.CollectError(error.message) from error
        for case in matrix.cases:
            item = NotebookItem.from_parent(self, name=case.case_id, matrix=matrix, case=case)
            item.add_marker("notebook")
            if not case.quick:
                item.add_marker("matrix")
            yield item
        for each in matrix.excluded:
            left = ExcludedItem.from_parent(self, name=each.case_id)
            left.add_marker(pytest.mark.skip(reason=each.reason))
            left.add_marker("notebook")
            left.add_marker("matrix")
            yield left
        yield GoldensItem.from_parent(self, name="goldens", matrix=matrix)


class NotebookFailedError(AssertionError):
    """A case that failed; its text is the report."""


class _Item(pytest.Item):
    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the report of the run instead of a traceback of this plugin."""
        if isinstance(excinfo.value, NotebookFailedError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Return where the item is, for the terminal."""
        return self.path, None, self.name


class NotebookItem(_Item):
    """One run of one notebook."""

    def __init__(self, *, matrix: Matrix, case: Case, **others: Any) -> None:
        super().__init__(**others)
        self.matrix, self.case = matrix, case

    def runtest(self) -> None:
        """Run it; its numbers and skipped GPU cells become properties of the test."""
        import tempfile

        from workbench.run.notebooks.matrix_run import run_case

        kept = self.config.getoption("--notebook-output")
        scale = self.config.getoption("--notebook-time-scale")
        with tempfile.TemporaryDirectory(prefix="notebook-") as folder:
            result = run_case(self.matrix, self.case, kept or folder, time_scale=scale)
        run = result.run
        self.user_properties += [
            ("peak_bytes", run.peak_bytes),
            ("executed_bytes", run.size_after_bytes),
            ("hash_seed", run.hash_seed),
            ("skipped_gpu_cells", list(run.skipped)),
            ("failed_kernel_starts", list(run.failed_starts)),
        ]
        if not result.ok:
            raise NotebookFailedError(result.report())


class ExcludedItem(_Item):
    """A combination that is not run: shown as skipped, with its reason."""

    def runtest(self) -> None:
        """Do nothing: the item is skipped."""
        raise NotImplementedError


class GoldensItem(_Item):
    """Every golden belongs to a case."""

    def __init__(self, *, matrix: Matrix, **others: Any) -> None:
        super().__init__(**others)
        self.matrix = matrix

    def runtest(self) -> None:
        """Fail with one line for each golden whose case is gone."""
        from workbench.run.notebooks.matrix_run import orphans

        found = list(orphans(self.matrix))
        if found:
            raise NotebookFailedError("\n".join(found))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Report what a green run hides: GPU cells skipped, kernels started again."""
    for name, title in _ADMITTED.items():
        reasons = _reasons(terminalreporter, name)
        if reasons:
            terminalreporter.section(title)
        for reason in dict.fromkeys(reasons):
            terminalreporter.line(f"{reasons.count(reason)} x {reason}")


def _reasons(terminalreporter: pytest.TerminalReporter, name: str) -> list[str]:
    """Return the texts that the runs recorded as a property of this name."""
    reasons: list[str] = []
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", "") == "call":
                found = dict(report.user_properties).get(name, [])
                reasons += found if isinstance(found, list) else []
    return reasons
