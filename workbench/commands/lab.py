"""The commands `workbench lab`, `workbench app` and `workbench info`."""

import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from urllib.parse import quote

import typer

from workbench.access.app_mode import VARIABLE, AppMode
from workbench.access.files import read_start
from workbench.commands.options import argument, fail, flag, option
from workbench.core.errors import ScenarioError, cut_path
from workbench.extras import require
from workbench.notebooks.document import NOTEBOOK, read_notebook

TEMPLATES = Path(__file__).with_name("app_template")
SETTINGS = Path(__file__).with_name("lab_settings")
"""Defaults of JupyterLab that a user's own settings replace: no question about Jupyter's news."""
SETTINGS_PATH = "JUPYTER_CONFIG_PATH"
SHORTEST_TOKEN = 16
PACKAGES = (
    *("hybrid-kv-workbench", "torch", "triton", "numpy", "pydantic", "plotly", "anywidget"),
    *("ipywidgets", "jupyterlab", "ipykernel", "papermill", "vllm"),
)


def lab(
    notebook: Path = argument("Notebook to open.", default=Path("notebooks/00_start.ipynb")),
    ip: str = option("Address to listen on.", default="127.0.0.1"),
    port: int = option("Port; the next free one if taken.", default=8888),
    browser: bool = option("Open a browser window.", default=True),
    link: str | None = option("A copied link: the first notebook opens with its scenario."),
) -> None:
    """Open JupyterLab on the first notebook."""
    require("jupyterlab")
    configured = (os.environ.get(SETTINGS_PATH), str(SETTINGS))
    environment = {
        **os.environ,
        SETTINGS_PATH: os.pathsep.join(filter(None, configured)),
        **({} if link is None else _for_notebooks(link)),
    }
    _check_exists(notebook)
    if not notebook.is_dir():
        read_start(notebook, 1, NOTEBOOK)
    inside = notebook.resolve().is_relative_to(Path.cwd())
    root = Path.cwd() if inside else notebook.resolve().parent
    page = quote(os.fsencode(notebook.resolve().relative_to(root).as_posix()))
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
    raise typer.Exit(subprocess.call(command, env=environment))


def _for_notebooks(link: str) -> dict[str, str]:
    """Return the environment in which notebooks find a link; exit with 2 for a damaged one."""
    from workbench.scenario import Scenario
    from workbench.scenario.links import VARIABLE, read_link

    try:
        Scenario.from_dict(read_link(link))
    except ScenarioError as error:
        fail(str(error))
    return {VARIABLE: link}


def info() -> None:
    """Print versions, device and Triton mode as Markdown, ready to paste into an issue."""
    rows = {
        "Python": f"{platform.python_version()} on {platform.system()} {platform.machine()}",
        "CPU": f"{os.cpu_count()} cores, {_memory()}",
        **_kernel_rows(),
        **{name: _installed_version(name) for name in PACKAGES},
    }
    lines = (f"| {name} | {value} |" for name, value in rows.items())
    typer.echo("\n".join(["| what | value |", "|---|---|", *lines]))


def _memory() -> str:
    """Return the machine's memory as the operating system reports it."""
    try:
        pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # Windows has no sysconf
        return "unknown memory"
    return f"{pages * size / 2**30:.0f} GiB memory"


def _check_exists(notebook: Path) -> None:
    if not notebook.exists():
        fail(f"{cut_path(notebook)} does not exist here. Run this command in the project folder.")


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


def app(
    notebook: Path = argument("Notebook to serve.", default=Path("notebooks/00_start.ipynb")),
    ip: str = option("Address to listen on.", default="127.0.0.1"),
    port: int = option("Port; another free one if taken.", default=8866),
    browser: bool = option("Open a browser window.", default=True),
    token: str | None = option("Token of the address; random by default. JUPYTER_TOKEN is safer."),
    allow_host: list[str] | None = option(
        "Additional host name under which this server is reached."
    ),
    output: Path = option("The only folder that the app writes to.", default=Path("app-output")),
    python: list[str] | None = option("A Python with vLLM that the lab *Live check* may start."),
    dask: list[str] | None = option("A Dask scheduler that may be measured on."),
    model: list[str] | None = option(
        "A path or hub id that may be read in addition to the catalog."
    ),
    dark: bool = flag("--dark", "Dark colours, whatever the browser prefers."),
    show_tracebacks: bool = flag("--show-tracebacks", "Show the traceback of every error."),
) -> None:
    """Serve a notebook as an app, without its code, to anyone who has the printed address.

    The address contains a token. The page cannot start programs, read files, or write outside of
    the output folder, unless an option below allows it.
    """
    require("voila")
    _check_exists(notebook)
    read_notebook(notebook)
    if token is not None and len(token) < SHORTEST_TOKEN:
        fail(f"Invalid --token. Expected at least {SHORTEST_TOKEN} characters, or no --token.")
    if output.exists() and not output.is_dir():
        fail(f"Invalid --output {cut_path(output)}. Expected a folder, or the name of a new one.")
    mode = AppMode(
        output=str(output.absolute()),
        pythons=tuple(python or ()),
        schedulers=tuple(dask or ()),
        models=tuple(model or ()),
        show_tracebacks=show_tracebacks,
    )
    os.environ[VARIABLE] = mode.to_text()
    paths = [str(TEMPLATES), os.environ.get("JUPYTER_PATH", "")]
    os.environ["JUPYTER_PATH"] = os.pathsep.join(filter(None, paths))

    from workbench.commands.app_server import hosts_of, serve

    given = {"auto_token": True} if token is None else {"token": token}
    settings = {"ip": ip, "port": port, "open_browser": browser, **given}
    hosts = hosts_of(ip, tuple(allow_host or ()))
    theme = "dark" if dark else "light"
    serve(notebook, settings, hosts=hosts, quiet=not show_tracebacks, theme=theme)
