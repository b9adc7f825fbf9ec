"""The command `workbench coverage`: which architectures of a release are read."""

import json

import typer

from workbench.commands.options import AsJson, option
from workbench.core.versions import DEFAULT


def coverage(
    rules: str = option("The release.", "--rules", default=DEFAULT),
    status: str | None = option("Only those that are exact, read, or refused."),
    as_json: AsJson = False,
) -> None:
    """List every architecture of a release: exact, read, or refused, and how it was checked."""
    from workbench.models.coverage import coverage as of_release

    found = of_release(rules).only(status)
    typer.echo(json.dumps(found.to_dict(), indent=2) if as_json else str(found))
