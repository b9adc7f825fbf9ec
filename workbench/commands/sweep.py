"""The command `workbench sweep`."""

from __future__ import annotations

import csv
import json
import sys
from typing import Annotated, Any

import typer

from workbench.commands.options import fail

SHOWN = 20


def sweep(
    model: Annotated[str | None, typer.Argument(help="Catalog name, path, or hub id.")] = None,
    axis: Annotated[
        list[str] | None,
        typer.Option("--axis", "-a", help="A field that varies: tensor_parallel=1,2,4."),
    ] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", "-s", help="A field that stays: field=value.")
    ] = None,
    prompt_tokens: Annotated[
        int, typer.Option(min=1, help="The request whose waste is told.")
    ] = 4096,
    front: Annotated[bool, typer.Option("--front", help="Only points that none beats.")] = False,
    output: Annotated[
        str, typer.Option("--format", help="text, jsonl (a point a line), or csv.")
    ] = "text",
    why: Annotated[
        int | None, typer.Option(help="Number of a point: what differs from the scenario, and why.")
    ] = None,
) -> None:
    """Resolve every combination of some fields; illegal and identical points are counted.

    Exit status: 0 for a table, 2 for a field or a value that no scenario has.
    """
    from workbench.commands.options import resolved
    from workbench.core.errors import WorkbenchError
    from workbench.sweeping import parse_axes
    from workbench.sweeping import sweep as sweep_scenario

    if output not in {"text", "jsonl", "csv"}:
        fail(f"--format is text, jsonl or csv; got {output!r}.")
    start = resolved(model, setting or []).scenario
    try:
        found = sweep_scenario(
            start, parse_axes("\n".join(axis or [])), prompt_tokens=prompt_tokens
        )
        if why is not None:
            from workbench.views.sweep_why import why_text

            typer.echo(why_text(resolved(model, setting or []), found.plan_of(why)))
            return
    except (WorkbenchError, IndexError) as error:
        code = getattr(error, "code", "out_of_range")
        fail(f"error [{code}] {error}")
    rows = found.rows(found.front if front else None)
    if output == "jsonl":
        for row in rows:
            typer.echo(json.dumps(row))
    elif output == "csv":
        _write_csv(rows)
    else:
        from workbench.views.sweep_rows import counts_text, sweep_text

        typer.echo(counts_text(found.table.counts, found.table.reasons))
        typer.echo(sweep_text(rows[:SHOWN], found.front))
        if len(rows) > SHOWN:
            typer.echo(f"... and {len(rows) - SHOWN:,} more: --format jsonl prints them")


def _write_csv(rows: tuple[dict[str, Any], ...]) -> None:
    from workbench.views.sweep_rows import MEASURES

    if not rows:
        return
    fields = list(rows[0]["sets"])
    writer = csv.writer(sys.stdout)
    writer.writerow(["point", *(f"set_{name}" for name in fields), "backend_used", *MEASURES])
    for row in rows:
        results = [row["backend_used"], *(row[name] for name in MEASURES)]
        writer.writerow([row["point"], *(row["sets"][name] for name in fields), *results])
