"""The `workbench` command."""

from __future__ import annotations

import typer

from workbench.commands.inspect import inspect
from workbench.commands.lab import info, lab
from workbench.commands.layout import layout
from workbench.commands.notebook import run
from workbench.commands.offload import offload, transfer
from workbench.commands.resolve import models, resolve

app = typer.Typer(
    help="Which KV-cache block size vLLM chooses for a hybrid model, and why.",
    no_args_is_help=True,
    add_completion=False,
)
for command in (lab, models, resolve, layout, offload, transfer, inspect, info):
    app.command()(command)

notebook_app = typer.Typer(help="Run notebooks headless.", no_args_is_help=True)
notebook_app.command("run")(run)
app.add_typer(notebook_app, name="notebook")


if __name__ == "__main__":
    app()
