"""The commands `workbench notebook run` and `workbench notebook check`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from workbench.access.json_text import json_or_word
from workbench.commands.options import fail


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
    from workbench.notebooks import NotebookError

    if (notebook is None) == (matrix is None):
        fail("Pass either a notebook, or --matrix with a matrix file.")
    if matrix is not None and (parameter or to_cell is not None or hash_seed is not None):
        fail("--parameter, --to-cell and --hash-seed apply to one notebook, not to a matrix.")
    of_matrix = {"only": only, "quick": quick, "junit": junit, "update-goldens": update_goldens}
    wrong = [name for name, given in of_matrix.items() if given]
    if matrix is None and wrong:
        fail(f"--{wrong[0]} requires --matrix FILE. Omit it to run one notebook.")
    try:
        if notebook is not None:
            given = _parameters(parameter or [])
            ok = _run_one(notebook, given, output_dir=output, hash_seed=hash_seed, to_cell=to_cell)
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
    except NotebookError as error:
        fail(error.message)
    raise typer.Exit(0 if ok else 1)


def _parameters(given: list[str]) -> dict[str, Any]:
    parameters = {}
    for item in given:
        name, equals, value = item.partition("=")
        if not equals:
            fail(f"Invalid --parameter {item!r}. Expected name=value.")
        parameters[name] = json_or_word(value)
    return parameters


def _run_one(notebook: Path, parameters: dict[str, Any], **options: Any) -> bool:
    from workbench.notebooks import run_notebook

    result = run_notebook(notebook, parameters, **options)
    typer.echo(f"{notebook}: {'ok' if result.ok else 'FAILED'} in {result.duration_s:.1f} s")
    for reason in result.skipped:
        typer.echo(f"skipped: {reason}")
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
    report = run_matrix(
        matrix,
        cases,
        output_dir=output,
        done=lambda result: typer.echo(result.report()),
        **options,
    )
    report.write("index.html", output / "index.html")
    if junit is not None:
        report.write("junit.xml", junit)
    typer.echo(report.summary())
    typer.echo(f"index: {output / 'index.html'}")
    return report.ok


def check(
    paths: Annotated[list[Path], typer.Argument(help="Notebooks, or folders of them.")],
    house_rules: Annotated[
        bool,
        typer.Option("--house-rules", help="Also check title, cell count, functions and installs."),
    ] = False,
) -> None:
    """Check notebooks without running them: no outputs, size, one parameters cell."""
    from workbench.notebooks import NotebookError, check_notebook_source
    from workbench.notebooks.source_rules import COMMON_RULES, RULES

    found = 0
    for path in paths:
        inside = sorted(path.rglob("*.ipynb")) if path.is_dir() else [path]
        for notebook in (each for each in inside if ".ipynb_checkpoints" not in each.parts):
            try:
                problems = check_notebook_source(notebook, RULES if house_rules else COMMON_RULES)
            except NotebookError as error:
                fail(error.message)
            found += len(problems)
            for problem in problems:
                typer.echo(f"{notebook}: {problem}")
    raise typer.Exit(1 if found else 0)
