"""The commands `workbench notebook run` and `workbench notebook check`."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from workbench.access.json_text import json_or_word
from workbench.commands.options import argument, ended_in_order, fail, flag, named_values, option
from workbench.core.errors import shown
from workbench.extras import require

if TYPE_CHECKING:
    from workbench.notebooks.matrix_run import CaseResult


def run(
    notebook: Path | None = argument("Notebook to execute."),
    parameter: list[str] | None = option(
        "A parameter as name=value, with a JSON value.", "--parameter", "-p"
    ),
    output: Path = option("Folder for the executed copies.", default=Path("test-output")),
    to_cell: int | None = option("Last cell to run, from 0: repeats the failure of one cell."),
    hash_seed: int | None = option("PYTHONHASHSEED of the kernel; random by default."),
    memory_limit_mib: float | None = option(
        "MiB at which the processes of the run are ended; 4096 by default.", min=1
    ),
    matrix: Path | None = option("Run the cases of this matrix file (TOML or JSON) instead."),
    only: list[str] | None = option("Run only the matching cases, such as '00_start::*'."),
    quick: bool = flag("--quick", "Run only the quick cases."),
    workers: int = option("With --matrix: number of simultaneous runs.", default=1, min=1),
    junit: Path | None = option("Write JUnit XML here."),
    update_goldens: bool = flag("--update-goldens", "Record the results as the new goldens."),
    time_scale: float = option(
        "With --matrix: factor for the time budgets on a slow machine.", default=1.0, min=0.01
    ),
) -> None:
    """Execute a notebook, or a matrix of them; exit 1 for any failure, hidden errors included.

    A notebook has 600 s for all its cells, in a matrix the timeout_s of the file. A matrix leaves
    executed notebooks, results and index.html in the output folder.
    """
    require("papermill", "jsonschema", "psutil")
    if (notebook is None) == (matrix is None):
        fail("Pass either a notebook, or --matrix with a matrix file.")
    of_one = (parameter or None, to_cell, hash_seed, memory_limit_mib)
    if matrix is not None and of_one != (None,) * len(of_one):
        names = "--parameter, --to-cell, --hash-seed and --memory-limit-mib"
        fail(f"{names} apply to one notebook, not to a matrix.")
    of_matrix = {"only": only, "quick": quick, "junit": junit, "update-goldens": update_goldens}
    of_matrix |= {"workers": workers != 1, "time-scale": time_scale != 1.0}
    wrong = [name for name, given in of_matrix.items() if given]
    if matrix is None and wrong:
        fail(f"--{wrong[0]} requires --matrix FILE. Omit it to run one notebook.")
    if notebook is not None:
        texts = named_values(parameter, "--parameter")
        for name, count in Counter(text.partition("=")[0] for text in parameter or ()).items():
            if count > 1:
                fail(f"--parameter {shown(name)} is given {count} times. Give it once.")
        given = {name: json_or_word(text) for name, text in texts.items()}
        ok = _run_one(
            notebook,
            given,
            memory_limit_mib,
            output_dir=output,
            hash_seed=hash_seed,
            to_cell=to_cell,
        )
    else:
        assert matrix is not None
        ok = _run_matrix(
            matrix,
            output,
            junit,
            {"patterns": only or [], "quick": quick},
            workers=workers,
            update_goldens=update_goldens,
            time_scale=time_scale,
        )
    raise typer.Exit(0 if ok else 1)


def _run_one(
    notebook: Path, parameters: dict[str, Any], memory_limit_mib: float | None, **options: Any
) -> bool:
    from workbench.notebooks import Budgets, Expectations, run_notebook
    from workbench.notebooks.problems import UNWATCHED

    budgets = Budgets() if memory_limit_mib is None else Budgets(memory_limit_mib=memory_limit_mib)
    with ended_in_order("Stopped."):
        result = run_notebook(
            notebook, parameters, expectations=Expectations(budgets=budgets), **options
        )
    typer.echo(f"{notebook}: {'ok' if result.ok else 'FAILED'} in {result.duration_s:.1f} s")
    for reason in result.skipped:
        typer.echo(f"skipped: {reason}")
    if result.unwatched:
        typer.echo(f"{UNWATCHED}: {result.unwatched}")
    if not result.ok:
        typer.echo(result.report())
    typer.echo(json.dumps(result.results, indent=2))
    return result.ok


def _run_matrix(
    path: Path, output: Path, junit: Path | None, chosen: dict[str, Any], **options: Any
) -> bool:
    from workbench.notebooks import read_matrix, run_matrix

    matrix = read_matrix(path)
    cases = matrix.select(**chosen)
    if not cases:
        fail("No case to run: --only does not match any quick case.")

    def say(result: CaseResult) -> None:
        typer.echo(result.report())

    with ended_in_order("Stopped."):
        report = run_matrix(matrix, cases, output_dir=output, done=say, **options)
    report.write("index.html", output / "index.html")
    if junit is not None:
        report.write("junit.xml", junit)
    typer.echo(report.summary())
    typer.echo(f"index: {output / 'index.html'}")
    return report.ok


def _is_copy(folder: Path, notebook: Path) -> bool:
    """Return whether JupyterLab or a run that was killed has left it in a folder of its own."""
    from workbench.notebooks.source_rules import RUN_FOLDER

    parts = notebook.relative_to(folder).parts[:-1]
    return any(part == ".ipynb_checkpoints" or part.startswith(RUN_FOLDER) for part in parts)


def check(
    paths: list[Path] = argument("Notebooks, or folders of them.", default=...),
    house_rules: bool = flag(
        "--house-rules", "Also check title, cell count, functions and installs."
    ),
) -> None:
    """Check notebooks without running them: no outputs, size, one parameters cell."""
    from workbench.notebooks import check_notebook_source
    from workbench.notebooks.source_rules import COMMON_RULES, RULES

    found = 0
    for path in paths:
        inside = sorted(path.rglob("*.ipynb")) if path.is_dir() else [path]
        for notebook in (each for each in inside if not _is_copy(path, each)):
            problems = check_notebook_source(notebook, RULES if house_rules else COMMON_RULES)
            found += len(problems)
            for problem in problems:
                typer.echo(f"{notebook}: {problem}")
    raise typer.Exit(1 if found else 0)
