"""The command `workbench coverage`: which architectures of a release are read."""

import json

import typer

from workbench.commands.options import AsJson, option


def coverage(
    rules: str | None = option("The release; default: that of a scenario.", "--rules"),
    status: str | None = option("Only those that are exact, read, or refused."),
    as_json: AsJson = False,
) -> None:
    """List every architecture of a release: exact, read, or refused, and how it was checked."""
    from workbench.core.versions import DEFAULT
    from workbench.models.coverage import coverage as of_release

    found = of_release(rules or DEFAULT).only(status)
    typer.echo(json.dumps(found.to_dict(), indent=2) if as_json else str(found))
