"""Run notebooks without a browser, and find the errors that papermill alone would miss.

    from workbench.run.notebooks import run_notebook

    result = run_notebook("notebooks/00_start.ipynb", {"smoke": True}, output_dir="test-output")
    assert result.ok, result.report()

A matrix file says which notebooks to run with which parameters, within which budgets:

    report = run_matrix(read_matrix("notebooks/matrix.toml"), output_dir="test-output", workers=2)

The names are loaded on first use: a notebook that only records results pays for nothing else.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.run.notebooks.errors import (
        NotebookError,
        NotebookFileError,
        NotebookMatrixError,
        NotebookParameterError,
        NotebookResultsError,
    )
    from workbench.run.notebooks.expectations import Budgets, Expectations
    from workbench.run.notebooks.matrix import read_matrix
    from workbench.run.notebooks.matrix_run import run_matrix
    from workbench.run.notebooks.parameters import NotebookParameter, inspect_parameters
    from workbench.run.notebooks.problems import CellTime, NotebookProblem, NotebookResult
    from workbench.run.notebooks.results import record_results, write_results
    from workbench.run.notebooks.runner import run_notebook
    from workbench.run.notebooks.scan import scan_notebook
    from workbench.run.notebooks.source_rules import check_notebook_source

_HOME = {
    "Budgets": "expectations",
    "CellTime": "problems",
    "Expectations": "expectations",
    "NotebookError": "errors",
    "NotebookFileError": "errors",
    "NotebookMatrixError": "errors",
    "NotebookParameter": "parameters",
    "NotebookParameterError": "errors",
    "NotebookProblem": "problems",
    "NotebookResult": "problems",
    "NotebookResultsError": "errors",
    "check_notebook_source": "source_rules",
    "inspect_parameters": "parameters",
    "read_matrix": "matrix",
    "record_results": "results",
    "run_matrix": "matrix_run",
    "run_notebook": "runner",
    "scan_notebook": "scan",
    "write_results": "results",
}
__all__ = [
    "Budgets",
    "CellTime",
    "Expectations",
    "NotebookError",
    "NotebookFileError",
    "NotebookMatrixError",
    "NotebookParameter",
    "NotebookParameterError",
    "NotebookProblem",
    "NotebookResult",
    "NotebookResultsError",
    "check_notebook_source",
    "inspect_parameters",
    "read_matrix",
    "record_results",
    "run_matrix",
    "run_notebook",
    "scan_notebook",
    "write_results",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
