"""The command `workbench notebook run`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from workbench.commands.options import fail
from workbench.commands.options import value as read_value


def run(
    notebook: Annotated[Path, typer.Argument(help="Notebook to execute.")],
    parameter: Annotated[
        list[str] | None, typer.Option("--parameter", "-p", help="name=value, JSON values.")
    ] = None,
    output: Annotated[Path, typer.Option(help="Folder for the executed copy.")] = Path(
        "test-output"
    ),
) -> None:
    """Execute a notebook; exit 1 if anything in it failed, hidden errors included."""
    from workbench.run.notebooks import NotebookError, run_notebook

    parameters = {}
    for item in parameter or []:
        name, equals, value = item.partition("=")
        if not equals:
            fail(f"--parameter takes name=value; got {item!r}.")
        parameters[name] = read_value(value)
    try:
        result = run_notebook(notebook, parameters, output_dir=output)
    except NotebookError as error:
        fail(error.message)
    typer.echo(f"{notebook}: {'ok' if result.ok else 'FAILED'} in {result.duration_s:.1f} s")
    for reason in result.skipped:
        typer.echo(f"skipped: {reason}")
    for problem in result.problems:
        typer.echo(f"{problem.kind} in cell {problem.cell_index}: {problem.message}")
    typer.echo(json.dumps(result.results, indent=2))
    raise typer.Exit(0 if result.ok else 1)
