"""The commands `workbench notebook run` and `workbench notebook check`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.commands.options import fail
from workbench.commands.options import value as read_value

if TYPE_CHECKING:
    from workbench.run.notebooks.matrix_run import CaseResult


def run(
    notebook: Annotated[Path | None, typer.Argument(help="Notebook to execute.")] = None,
    parameter: Annotated[
        list[str] | None,
        typer.Option("--parameter", "-p", help="A parameter as name=value, with a JSON value."),
    ] = None,
    output: Annotated[Path, typer.Option(help="Folder for the executed copies.")] = Path(
        "test-output"
    ),
    to_cell: Annotated[
        int | None, typer.Option(help="Last cell to run, from 0: repeats the failure of one cell.")
    ] = None,
    hash_seed: Annotated[
        int | None, typer.Option(help="PYTHONHASHSEED of the kernel; random by default.")
    ] = None,
    matrix: Annotated[
        Path | None, typer.Option(help="Run the cases of this matrix file (TOML or JSON) instead.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Run only the matching cases, such as '00_start::*'.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Run only the quick cases.")] = False,
    workers: Annotated[int, typer.Option(min=1, help="Number of simultaneous runs.")] = 1,
    junit: Annotated[Path | None, typer.Option(help="Write JUnit XML here.")] = None,
    update_goldens: Annotated[
        bool, typer.Option("--update-goldens", help="Record the results as the new goldens.")
    ] = False,
    time_scale: Annotated[
        float, typer.Option(min=0.01, help="Factor for the time budgets on a slow machine.")
    ] = 1.0,
) -> None:
    """Execute a notebook, or a matrix of them; exit 1 for any failure, hidden errors included.

    A matrix leaves executed notebooks, results and index.html in the output folder.
    """
    if (notebook is None) == (matrix is None):
        fail("Pass either a notebook, or --matrix with a matrix file.")
    if notebook is not None:
        of_matrix = {"only": only, "quick": quick, "junit": junit, "update-goldens": update_goldens}
        wrong = [name for name, given in of_matrix.items() if given]
        if wrong:
            fail(f"--{wrong[0]} requires --matrix FILE. Omit it to run one notebook.")
        _run_one(notebook, parameter or [], output, hash_seed, to_cell)
        return
    if parameter or to_cell is not None or hash_seed is not None:
        fail("--parameter, --to-cell and --hash-seed apply to one notebook, not to a matrix.")
    assert matrix is not None
    _run_matrix(
        matrix,
        only or [],
        output,
        junit,
        quick=quick,
        workers=workers,
        update_goldens=update_goldens,
        time_scale=time_scale,
    )


def _run_one(
    notebook: Path, given: list[str], output: Path, hash_seed: int | None, to_cell: int | None
) -> None:
    from workbench.run.notebooks import NotebookError, run_notebook

    parameters = {}
    for item in given:
        name, equals, value = item.partition("=")
        if not equals:
            fail(f"Invalid --parameter {item!r}. Expected name=value.")
        parameters[name] = read_value(value)
    try:
        result = run_notebook(
            notebook, parameters, output_dir=output, hash_seed=hash_seed, to_cell=to_cell
        )
    except NotebookError as error:
        fail(error.message)
    typer.echo(f"{notebook}: {'ok' if result.ok else 'FAILED'} in {result.duration_s:.1f} s")
    for reason in result.skipped:
        typer.echo(f"skipped: {reason}")
    if not result.ok:
        typer.echo(result.report())
    typer.echo(json.dumps(result.results, indent=2))
    raise typer.Exit(0 if result.ok else 1)


def _run_matrix(
    path: Path,
    only: list[str],
    output: Path,
    junit: Path | None,
    *,
    quick: bool,
    workers: int,
    update_goldens: bool,
    time_scale: float,
) -> None:
    from workbench.run.notebooks import NotebookError, read_matrix, run_matrix
    from workbench.run.notebooks.index_page import write_index
    from workbench.run.notebooks.junit import write_junit

    try:
        matrix = read_matrix(path)
        cases = matrix.select(only, quick=quick)
        if not cases:
            fail("No case to run: --only does not match any quick case.")
        report = run_matrix(
            matrix,
            cases,
            output_dir=output,
            workers=workers,
            update_goldens=update_goldens,
            time_scale=time_scale,
            done=_print_result,
        )
    except NotebookError as error:
        fail(error.message)
    write_index(report, output / "index.html")
    if junit is not None:
        write_junit(report, junit)
    typer.echo(report.summary())
    typer.echo(f"index: {output / 'index.html'}")
    raise typer.Exit(0 if report.ok else 1)


def _print_result(result: CaseResult) -> None:
    typer.echo(result.report())


def check(
    paths: Annotated[list[Path], typer.Argument(help="Notebooks, or folders of them.")],
    house_rules: Annotated[
        bool,
        typer.Option("--house-rules", help="Also check title, cell count, functions and installs."),
    ] = False,
) -> None:
    """Check notebooks without running them: no outputs, size, one parameters cell."""
    from workbench.run.notebooks import NotebookError
    from workbench.run.notebooks.document import read_notebook
    from workbench.run.notebooks.source_rules import COMMON_RULES, RULES

    rules = RULES if house_rules else COMMON_RULES
    found = 0
    for path in paths:
        inside = sorted(path.rglob("*.ipynb")) if path.is_dir() else [path]
        for notebook in (each for each in inside if ".ipynb_checkpoints" not in each.parts):
            try:
                document = read_notebook(notebook)
            except NotebookError as error:
                fail(error.message)
            for problem in (problem for rule in rules for problem in rule(document)):
                found += 1
                typer.echo(f"{notebook}: {problem}")
    raise typer.Exit(1 if found else 0)
