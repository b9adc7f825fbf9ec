"""The command `workbench report`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.commands.options import fail, resolved
from workbench.core.errors import WorkbenchError

if TYPE_CHECKING:
    from workbench.core.plan import Plan

LARGE_BYTES = 10**6


def report(
    scenario: Annotated[
        str,
        typer.Argument(help="A design file (.json), or a model as for resolve."),
    ],
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", help="A scenario field, as for resolve."),
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write.")] = Path(
        "report.html"
    ),
    title: Annotated[str, typer.Option(help="Heading of the page.")] = "",
    notes: Annotated[str, typer.Option(help="A paragraph below the heading.")] = "",
    design: Annotated[
        Path | None, typer.Option(help="Also write the design file of this scenario.")
    ] = None,
    figures: Annotated[
        bool, typer.Option(help="Include figures: 5 MB, since plotly is embedded.")
    ] = True,
) -> None:
    """Write one HTML page about a scenario; the page needs neither a kernel nor a network.

    Exit status: 0 for a page, also about a scenario that would not start; 2 if there is none.
    """
    from workbench.exchange import report_of, save_design

    plan, page_title, page_notes, warnings = _subject(scenario, setting or [])
    title, notes = title or page_title, notes or page_notes
    text = report_of(plan, title, notes, warnings=warnings, figures=figures)
    try:
        output.write_text(text, encoding="utf-8")
        if design is not None:
            save_design(plan.scenario, design, title, notes)
    except OSError as error:
        fail(f"{error.filename} cannot be written: {error.strerror}.")
    size = len(text.encode())
    size_text = f"{size / 1e6:.1f} MB" if size >= LARGE_BYTES else f"{size / 1e3:.0f} kB"
    typer.echo(f"{output}: {size_text}, {plan!r}")
    for warning in warnings:
        typer.echo(f"warning: {warning}", err=True)


def _subject(given: str, settings: list[str]) -> tuple[Plan, str, str, tuple[str, ...]]:
    """Return plan, title, notes and warnings of a design file, or of a scenario's fields."""
    from workbench.exchange import load_design

    path = Path(given)
    try:
        is_design = path.suffix == ".json" and path.is_file() and _names_schema(path)
        if is_design and settings:
            fail("A design file holds every field. Omit --set.")
        found = load_design(path) if is_design else None
    except WorkbenchError as error:
        fail(f"error [{error.code}] {error.message}")
    if found is not None:
        return found.plan, found.design.title, found.design.notes, found.warnings
    plan = resolved(given, settings)
    return plan, "", "", ()


def _names_schema(path: Path) -> bool:
    """Return whether a file names the design schema; a config.json does not."""
    from workbench.access.files import read_bytes
    from workbench.exchange import DESIGN
    from workbench.interop.design import SCHEMA

    return SCHEMA.encode() in read_bytes(path, DESIGN)
