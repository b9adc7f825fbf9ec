"""The commands `workbench lab` and `workbench info`."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from urllib.parse import quote

import typer

from workbench.commands.options import argument, fail, option

PACKAGES = (
    *("hybrid-kv-workbench", "torch", "triton", "numpy", "pydantic", "plotly", "anywidget"),
    *("ipywidgets", "jupyterlab", "ipykernel", "papermill", "vllm"),
)


def lab(
    notebook: Path = argument("Notebook to open.", default=Path("notebooks/00_start.ipynb")),
    ip: str = option("Address to listen on.", default="127.0.0.1"),
    port: int = option("Port; the next free one if taken.", default=8888),
    browser: bool = option("Open a browser window.", default=True),
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
    """Print versions, device and Triton mode as Markdown, ready to paste into an issue."""
    import psutil

    memory = psutil.virtual_memory().total / 2**30
    rows = {
        "Python": f"{platform.python_version()} on {platform.system()} {platform.machine()}",
        "CPU": f"{psutil.cpu_count()} cores, {memory:.0f} GiB memory",
        **_kernel_rows(),
        **{name: _installed_version(name) for name in PACKAGES},
    }
    lines = (f"| {name} | {value} |" for name, value in rows.items())
    typer.echo("\n".join(["| what | value |", "|---|---|", *lines]))


def _installed_version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _kernel_rows() -> dict[str, str]:
    """Return device, mode and self-test; a conflict with an earlier mode is reported."""
    from workbench.kernels.mode import TritonModeError, triton_mode
    from workbench.kernels.selftest import run_selftest

    try:
        mode = triton_mode()
    except TritonModeError as error:
        return {"Triton mode": f"undecided: {error}"}
    test = run_selftest()
    return {
        "device": mode.device or "no GPU: everything but GPU timings works",
        "Triton mode": f"{mode.mode}: {mode.reason}",
        "Triton self-test": f"{'passed' if test.ok else 'FAILED'}: {test.detail}",
    }
