"""The commands `workbench report` and `workbench explain-log`."""

import json
import sys
from pathlib import Path

import typer

from workbench.access.files import write_file
from workbench.commands.options import AsJson, Settings, argument, fail, option, progress_line
from workbench.commands.scenarios import resolved

LARGE_BYTES = 10**6


def report(
    scenario: str = argument("A design file (.json), or a model as for resolve.", default=...),
    setting: Settings = None,
    output: Path = option("File to write.", "--output", "-o", default=Path("report.html")),
    title: str = option("Heading of the page.", default=""),
    notes: str = option("A paragraph below the heading.", default=""),
    design: Path | None = option("Also write the design file of this scenario."),
    figures: bool = option("Add figures: 5 MB, since plotly is embedded.", default=False),
) -> None:
    """Write one HTML page about a scenario; the page needs neither a kernel nor a network.

    Exit status: 0 for a page, also about a scenario that would not start; 2 if there is none.
    """
    from workbench.interop.exchange import load_design, report_of, save_design

    warnings: tuple[str, ...] = ()
    path = Path(scenario)
    if path.suffix == ".json" and path.is_file() and _names_schema(path):
        if setting:
            fail("A design file holds every field. Omit --set.")
        found = load_design(path)
        plan, warnings = found.plan, found.warnings
        title, notes = title or found.design.title, notes or found.design.notes
    else:
        plan = resolved(scenario, setting)
    text = report_of(plan, title, notes, warnings=warnings, figures=figures)
    write_file(output, text)
    if design is not None:
        save_design(plan.scenario, design, title, notes)
    size = len(text)
    size_text = f"{size / 1e6:.1f} MB" if size >= LARGE_BYTES else f"{size / 1e3:.0f} kB"
    typer.echo(f"{output}: {size_text}, {plan!r}")
    for warning in warnings:
        typer.echo(f"warning: {warning}", err=True)


def _names_schema(path: Path) -> bool:
    """Return whether a file names the design schema; a config.json does not."""
    from workbench.access.files import read_bytes
    from workbench.interop.design import SCHEMA
    from workbench.interop.exchange import DESIGN

    return SCHEMA.encode() in read_bytes(path, DESIGN)


def explain_log(
    log: str = argument("A vLLM start-up log; - for stdin.", default=...),
    model: str | None = option("Catalog name, path, or hub id, instead of the log's."),
    as_json: AsJson = False,
) -> None:
    """Explain a vLLM start-up log: every known line, its rule, and what to change.

    Exit status: 0 for an explanation, also of a failed start; 2 if there is nothing to explain.
    """
    from workbench.interop.exchange import explain_log as explain
    from workbench.interop.logs.text import MAX_LOG_BYTES
    from workbench.views.logs.table import log_text

    given = sys.stdin.buffer.read(MAX_LOG_BYTES + 1) if log == "-" else Path(log)
    found = explain(given, model, progress=progress_line("MB searched")).to_dict()
    typer.echo(json.dumps(found, indent=2) if as_json else log_text(found))
