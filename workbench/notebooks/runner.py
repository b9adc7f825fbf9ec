"""One run of one notebook, from the check of its parameters to the verdict."""

import os
import secrets
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from workbench.core.errors import unknown_name_message
from workbench.notebooks import document, verdict
from workbench.notebooks.evidence import Evidence, read_results
from workbench.notebooks.execute import execute
from workbench.notebooks.expectations import Expectations
from workbench.notebooks.page import notebook_page
from workbench.notebooks.parameters import check_parameters, inspect_parameters
from workbench.notebooks.problems import NotebookError, NotebookResult
from workbench.notebooks.results import plain_values
from workbench.notebooks.source_rules import RUN_FOLDER

MOST_HASH_SEED = 2**32 - 1


def run_notebook(
    path: str | os.PathLike[str],
    parameters: Mapping[str, Any] | None = None,
    *,
    output_dir: str | os.PathLike[str],
    timeout_s: float = 600.0,
    kernel: str = "python3",
    keep_widget_state: bool | None = None,
    expect: Mapping[str, Any] | None = None,
    name: str | None = None,
    expectations: Expectations | None = None,
    hash_seed: int | None = None,
    to_cell: int | None = None,
) -> NotebookResult:
    """Run a notebook in a fresh kernel, offline, with its own folder as working directory.

    `timeout_s`: seconds for all cells together; `expect`: results that must come out;
    `name`: stem of the three files written to `output_dir`, `<name>.executed.ipynb`,
    `<name>.html` (for readers, without scripts) and `<name>.results.json` (the notebook's own stem
    unless given: give it when several runs of one notebook share a folder). Widget state is
    scanned for errors, then removed; it stays when there is a problem, as evidence
    (`keep_widget_state`: always, or never).
    `expectations`: budgets and limits, a schema, a golden; `expect` is added to its values.
    `hash_seed`: PYTHONHASHSEED, a random one unless given; `to_cell`: the last cell to run.

    A notebook that fails gives a result with problems. Raises for misuse only: NotebookFileError,
    NotebookParameterError (unknown name, wrong type, not exactly one parameters cell),
    NotebookResultsError (`expect` holds what JSON cannot) and NotebookError (kernel, time limit,
    hash seed, cell).
    """
    source = Path(path).absolute()
    notebook = document.read_notebook(source)
    given = check_parameters(inspect_parameters(notebook), parameters or {})
    wanted = expectations or Expectations()
    wanted = replace(wanted, values={**wanted.values, **plain_values(expect or {})})
    _check_arguments(timeout_s, kernel, hash_seed)
    # random, so that set order is never relied on
    seed = secrets.randbelow(MOST_HASH_SEED + 1) if hash_seed is None else hash_seed
    selected = notebook if to_cell is None else document.first_cells(notebook, to_cell)
    folder = Path(output_dir).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    stem = name or source.stem
    with tempfile.TemporaryDirectory(prefix=RUN_FOLDER, dir=folder) as work:
        execution = execute(
            selected,
            given,
            cwd=source.parent,
            work=Path(work),
            kernel=kernel,
            timeout_s=timeout_s,
            limits=wanted.budgets.limits,
            hash_seed=seed,
        )
        executed = execution.executed or selected
        if "papermill" in executed["metadata"]:
            # not the folder of this run, which is gone afterwards
            executed["metadata"]["papermill"] |= {"input_path": source.name, "output_path": None}
        full = document.notebook_text(executed)
        stripped = document.notebook_text(document.without_widget_state(executed))
        evidence = Evidence(
            source=notebook,
            execution=execution,
            recorded=read_results(execution.results_path),
            expectations=wanted,
            timeout_s=timeout_s,
            size_bytes=len(stripped.encode()),
            has_gpu=has_gpu(),
            whole=to_cell is None,
        )
        problems = verdict.problems_of(evidence)
        keep = bool(problems) if keep_widget_state is None else keep_widget_state
        written = full if keep else stripped
        output_path = folder / f"{stem}.executed.ipynb"
        results_path = folder / f"{stem}.results.json"
        # Replaced in one step: a reader, or another run, never sees half a file.
        draft = Path(work) / "published"
        draft.write_text(written, encoding="utf-8")
        draft.replace(output_path)
        draft.write_text(notebook_page(document.without_widget_state(executed)), encoding="utf-8")
        draft.replace(folder / f"{stem}.html")
        if execution.results_path.exists():
            execution.results_path.replace(results_path)
        else:
            # Results of an earlier run must not pass for those of this one.
            results_path.unlink(missing_ok=True)
    return NotebookResult(
        path=source,
        output_path=output_path,
        results=evidence.recorded.results,
        skipped=evidence.recorded.skipped,
        duration_s=execution.duration_s,
        cells=evidence.cells,
        problems=problems,
        size_before_bytes=len(full.encode()),
        size_after_bytes=len(written.encode()),
        peak_bytes=evidence.record.get("peak_bytes", 0),
        parameters=given,
        hash_seed=seed,
        failed_starts=tuple(evidence.record.get("failed_starts", ())),
        unwatched=execution.outcome.unwatched,
    )


def has_gpu() -> bool:
    """Return whether this machine has a GPU that a notebook could use."""
    import pynvml

    try:
        pynvml.nvmlInit()
        return int(pynvml.nvmlDeviceGetCount()) > 0
    except pynvml.NVMLError:
        # AMD's kernel driver
        return Path("/dev/kfd").exists()


def _check_arguments(timeout_s: float, kernel: str, hash_seed: int | None) -> None:
    from jupyter_client.kernelspec import KernelSpecManager

    if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or not timeout_s > 0:
        message = f"Invalid timeout_s {timeout_s!r}. Expected seconds above 0, such as 60."
        raise NotebookError("timeout_s", message, field="timeout_s")
    installed = KernelSpecManager().find_kernel_specs()
    if kernel not in installed:
        message = unknown_name_message("Kernel", kernel, installed)
        raise NotebookError("unknown_kernel", message, field="kernel")
    if isinstance(hash_seed, bool) or not 0 <= (hash_seed or 0) <= MOST_HASH_SEED:
        message = f"Invalid hash_seed {hash_seed!r}. Expected 0 to {MOST_HASH_SEED}."
        raise NotebookError("hash_seed", message, field="hash_seed")
