"""The command `workbench app`."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from workbench.access.app_mode import VARIABLE, AppMode
from workbench.commands.options import fail

TEMPLATES = Path(__file__).with_name("app_template")
SHORTEST_TOKEN = 16
Names = list[str] | None


def app(
    notebook: Annotated[Path, typer.Argument(help="Notebook to serve.")] = Path(
        "notebooks/00_start.ipynb"
    ),
    ip: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; another free one if taken.")] = 8866,
    browser: Annotated[bool, typer.Option(help="Open a browser window.")] = True,
    token: Annotated[
        str | None,
        typer.Option(help="Token of the address; random by default. JUPYTER_TOKEN is safer."),
    ] = None,
    allow_host: Annotated[
        Names, typer.Option(help="Additional host name under which this server is reached.")
    ] = None,
    output: Annotated[Path, typer.Option(help="The only folder that the app writes to.")] = Path(
        "app-output"
    ),
    python: Annotated[
        Names, typer.Option(help="A Python with vLLM that the *Verify* tab may start.")
    ] = None,
    dask: Annotated[Names, typer.Option(help="A Dask scheduler that may be measured on.")] = None,
    model: Annotated[
        Names, typer.Option(help="A path or hub id that may be read in addition to the catalog.")
    ] = None,
    show_tracebacks: Annotated[
        bool, typer.Option("--show-tracebacks", help="Show the traceback of every error.")
    ] = False,
) -> None:
    """Serve a notebook as an app, without its code, to anyone who has the printed address.

    The address holds a token. A browser cannot start programs or read files, and writes only into
    the output folder, except for what the options name.
    """
    if find_spec("voila") is None:
        fail("The app needs Voila. Install it: pip install 'hybrid-kv-workbench[app]'")
    if not notebook.is_file():
        fail(f"{notebook} does not exist here. Run this command in the project folder.")
    if token is not None and len(token) < SHORTEST_TOKEN:
        fail(f"Invalid --token. Expected at least {SHORTEST_TOKEN} characters, or no --token.")
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
    serve(notebook, settings, hosts=hosts, quiet=not show_tracebacks)
