"""The `workbench` command."""

from typing import Any

import typer

from workbench.commands.chunks import chunks
from workbench.commands.diff import backends, coverage, diff, verify
from workbench.commands.inspect import inspect
from workbench.commands.lab import app as serve_app
from workbench.commands.lab import info, lab
from workbench.commands.layout import layout
from workbench.commands.notebook import check, run
from workbench.commands.offload import offload, transfer
from workbench.commands.options import ShortErrors, guarded
from workbench.commands.report import explain_log, report
from workbench.commands.resolve import models, resolve
from workbench.commands.results import compare_results, export_results, list_results
from workbench.commands.sweep import sweep

# Plain text: programs read it as well, and drawing boxes would take longer than all the rest.
PLAIN: Any = {"no_args_is_help": True, "rich_markup_mode": None}

app = typer.Typer(
    cls=ShortErrors,
    help="Show which KV-cache block size vLLM chooses for a hybrid model, and why.",
    **PLAIN,
)
for command in (
    *(lab, models, coverage, backends, resolve, layout, offload, transfer, chunks, inspect, info),
    *(diff, report, explain_log, sweep, verify),
):
    app.command()(guarded(command))
app.command("app")(guarded(serve_app))

notebook_app = typer.Typer(help="Run notebooks headless.", **PLAIN)
notebook_app.command("run")(guarded(run))
notebook_app.command("check")(guarded(check))
app.add_typer(notebook_app, name="notebook")

results_app = typer.Typer(help="Show, compare and export a results file.", **PLAIN)
results_app.command("list")(guarded(list_results))
results_app.command("compare")(guarded(compare_results))
results_app.command("export")(guarded(export_results))
app.add_typer(results_app, name="results")


if __name__ == "__main__":
    app()
