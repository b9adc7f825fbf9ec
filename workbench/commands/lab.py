"""The commands `workbench lab` and `workbench info`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer

from workbench.commands.options import fail


def lab(
    notebook: Annotated[Path, typer.Argument(help="Notebook to open.")] = Path(
        "notebooks/00_start.ipynb"
    ),
    ip: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; the next free one if taken.")] = 8888,
    browser: Annotated[bool, typer.Option(help="Open a browser window.")] = True,
) -> None:
    """Open JupyterLab on the first notebook."""
    if not notebook.exists():
        fail(f"{notebook} does not exist here. Run this command in the project folder.")
    inside = notebook.resolve().is_relative_to(Path.cwd())
    root = Path.cwd() if inside else notebook.resolve().parent
    page = quote(notebook.resolve().relative_to(root).as_posix())
    command = [
        *(sys.executable, "-m", "jupyterlab", f"--ip={ip}", f"--port={port}"),
        f"--ServerApp.root_dir={root}",
        # the printed address also opens the notebook, on machines without a browser
        f"--LabApp.default_url=/lab/tree/{page}",
    ]
    if not browser:
        command.append("--no-browser")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")
    raise typer.Exit(subprocess.call(command))


def info() -> None:
    """Print versions, device and Triton mode, ready to paste into an issue."""
    from workbench.commands.environment import environment_report

    typer.echo(environment_report())
