"""Run notebooks without a browser, and find the errors that papermill alone would miss.

    from workbench.notebooks import run_notebook

    result = run_notebook("notebooks/00_start.ipynb", {"smoke": True}, output_dir="test-output")
    assert result.ok, result.report()

A matrix file says which notebooks to run with which parameters, within which budgets:

    report = run_matrix(read_matrix("notebooks/matrix.toml"), output_dir="test-output", workers=2)

The names are loaded on first use: a notebook that only records results pays for nothing else.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.notebooks.expectations import Budgets, Expectations
    from workbench.notebooks.matrix import read_matrix
    from workbench.notebooks.matrix_run import run_matrix
    from workbench.notebooks.parameters import NotebookParameter, inspect_parameters
    from workbench.notebooks.problems import (
        CellTime,
        NotebookError,
        NotebookFileError,
        NotebookMatrixError,
        NotebookParameterError,
        NotebookProblem,
        NotebookResult,
        NotebookResultsError,
    )
    from workbench.notebooks.results import record_results, write_results
    from workbench.notebooks.runner import run_notebook
    from workbench.notebooks.scan import scan_notebook
    from workbench.notebooks.source_rules import check_notebook_source

_NAMES = {
    "expectations": "Budgets Expectations",
    "matrix": "read_matrix",
    "matrix_run": "run_matrix",
    "parameters": "NotebookParameter inspect_parameters",
    "problems": """CellTime NotebookError NotebookFileError NotebookMatrixError
        NotebookParameterError NotebookProblem NotebookResult NotebookResultsError""",
    "results": "record_results write_results",
    "runner": "run_notebook",
    "scan": "scan_notebook",
    "source_rules": "check_notebook_source",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = [*_HOME]  # noqa: PLE0604 - strings, made above


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    return value


def __dir__() -> list[str]:
    return __all__
