"""One run of one notebook, from the check of its parameters to the verdict."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workbench.core.errors import unknown_name_message
from workbench.run.notebooks.document import notebook_text, read_notebook
from workbench.run.notebooks.errors import NotebookError
from workbench.run.notebooks.execute import Execution, execute
from workbench.run.notebooks.parameters import check_parameters, inspect_parameters
from workbench.run.notebooks.problems import NotebookResult
from workbench.run.notebooks.results import plain_values
from workbench.run.notebooks.results_check import read_results
from workbench.run.notebooks.usage import unused_parameters
from workbench.run.notebooks.verdict import problems_of, slowest_cells
from workbench.run.notebooks.widget_state import without_widget_state


def run_notebook(
    path: str | os.PathLike[str],
    parameters: Mapping[str, Any] | None = None,
    *,
    output_dir: str | os.PathLike[str],
    timeout_s: float = 600.0,
    kernel: str = "python3",
    keep_widget_state: bool = False,
    expect: Mapping[str, Any] | None = None,
    name: str | None = None,
) -> NotebookResult:
    """Run a notebook in a fresh kernel, offline, with its own folder as working directory.

    `timeout_s`: seconds for all cells together; `expect`: results that must come out;
    `name`: stem of the two files written to `output_dir`, `<name>.executed.ipynb` and
    `<name>.results.json` (the notebook's own stem unless given: give it when several runs of one
    notebook share a folder). Widget state is scanned for errors, then removed; it stays when
    there is a problem, as evidence.

    A notebook that fails gives a result with problems. Raises for misuse only: NotebookFileError,
    NotebookParameterError (unknown name, wrong type, not exactly one parameters cell),
    NotebookResultsError (`expect` holds what JSON cannot) and NotebookError (kernel, time limit).
    """
    source = Path(path).absolute()
    notebook = read_notebook(source)
    given = check_parameters(inspect_parameters(notebook), parameters or {})
    expected = plain_values(expect or {})
    _check_limit(timeout_s)
    _check_kernel(kernel)
    folder = Path(output_dir).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    stem = name or source.stem
    with tempfile.TemporaryDirectory(prefix=".run-", dir=folder) as work:
        execution = execute(
            notebook,
            given,
            cwd=source.parent,
            work=Path(work),
            kernel=kernel,
            timeout_s=timeout_s,
        )
        recorded = read_results(execution.results_path)
        problems = (
            *problems_of(execution, recorded, expected, timeout_s),
            *unused_parameters(notebook),
        )
        executed = _named(execution, notebook, source.name)
        full = notebook_text(executed)
        keep = keep_widget_state or bool(problems)
        written = full if keep else notebook_text(without_widget_state(executed))
        output_path = folder / f"{stem}.executed.ipynb"
        _publish(written, Path(work), output_path)
        _publish_results(execution.results_path, folder / f"{stem}.results.json")
    return NotebookResult(
        path=source,
        output_path=output_path,
        results=recorded.results,
        skipped=recorded.skipped,
        duration_s=execution.duration_s,
        slowest=slowest_cells(executed),
        problems=problems,
        size_before_bytes=len(full.encode()),
        size_after_bytes=len(written.encode()),
    )


def _named(execution: Execution, notebook: dict[str, Any], name: str) -> dict[str, Any]:
    """The executed notebook, or the source when nothing was executed; it names its source."""
    executed = execution.executed or notebook
    record = executed["metadata"].get("papermill")
    if record is not None:
        record |= {"input_path": name, "output_path": None}
    return executed


def _publish(text: str, work: Path, target: Path) -> None:
    """Write in one step: a reader, or another run, never meets half a file."""
    draft = work / "published"
    draft.write_text(text, encoding="utf-8")
    draft.replace(target)


def _publish_results(written: Path, target: Path) -> None:
    if written.exists():
        written.replace(target)
    else:
        # Results of an earlier run must not pass for those of this one.
        target.unlink(missing_ok=True)


def _check_limit(timeout_s: float) -> None:
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or not timeout_s > 0:
        message = f"timeout_s was given {timeout_s!r}. Allowed: seconds above 0, such as 60."
        raise NotebookError("timeout_s", message, field="timeout_s")


def _check_kernel(kernel: str) -> None:
    from jupyter_client.kernelspec import KernelSpecManager

    installed = KernelSpecManager().find_kernel_specs()
    if kernel not in installed:
        message = unknown_name_message("Kernel", kernel, installed)
        raise NotebookError("unknown_kernel", message, field="kernel")
