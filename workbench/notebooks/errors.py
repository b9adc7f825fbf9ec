"""Misuse of the runner: a wrong path, a wrong parameter, a result that is not JSON.

A notebook that fails is not misuse: it gives a `NotebookResult` with problems.
"""

from __future__ import annotations

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
