"""The command `workbench backends`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from workbench.commands.options import fail
from workbench.core.versions import DEFAULT


def backends(
    name: Annotated[
        str | None, typer.Argument(help="A backend, to show its whole record; omit for all.")
    ] = None,
    rules: Annotated[str, typer.Option("--rules", help="The rule set.")] = DEFAULT,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Show what a vLLM version says about its attention backends, or about one of them."""
    from workbench.core.errors import WorkbenchError
    from workbench.core.versions import RULE_SETS
    from workbench.views.backends import backend_record, backend_text, backends_text

    try:
        table = RULE_SETS[rules]
        names = list(table.backends) if name is None else [name]
        records = [backend_record(table, each) for each in names]
    except WorkbenchError as error:
        fail(f"error [{error.code}] {error.message}")
    if as_json:
        typer.echo(json.dumps(records if name is None else records[0], indent=2))
    else:
        typer.echo(backends_text(table) if name is None else backend_text(table, name))
