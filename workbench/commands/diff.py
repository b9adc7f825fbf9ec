"""The command `workbench diff`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from workbench.commands.options import fail, scenario_of


def diff(
    model: Annotated[
        str | None, typer.Argument(help="Catalog name, path, or hub id; omit with --catalog.")
    ] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", "-s", help="A scenario field, as for resolve.")
    ] = None,
    old: Annotated[
        str | None,
        typer.Option("--from", help="The rule set that you run; default: the last but one."),
    ] = None,
    new: Annotated[
        str | None, typer.Option("--to", help="The rule set to upgrade to; default: the newest.")
    ] = None,
    catalog: Annotated[
        bool, typer.Option("--catalog", help="Every model of the catalog, one line each.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Show what an upgrade changes: every number, its rule, and what it means.

    Exit status: 0 if nothing changes, 1 if something does, 2 for an error.
    """
    from workbench.core.errors import WorkbenchError
    from workbench.core.what_if.differences import compare
    from workbench.models import catalog_names, load_model
    from workbench.views.versions.differences import differences_dict, differences_text, matrix_text

    if catalog == (model is not None):
        fail("Pass one model, or --catalog without a model.")
    names = catalog_names() if catalog else (model,)
    try:
        scenarios = [scenario_of(name, setting or []) for name in names]
        found = [compare(load_model(scenario.model), scenario, old, new) for scenario in scenarios]
    except WorkbenchError as error:
        fail(f"error [{error.code}] {error.message}")
    if as_json:
        rows = [differences_dict(comparison) for comparison in found]
        typer.echo(json.dumps(rows if catalog else rows[0], indent=2))
    else:
        typer.echo(matrix_text(found) if catalog else differences_text(found[0]))
    if any(comparison.changes for comparison in found):
        raise typer.Exit(1)
