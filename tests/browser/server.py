"""A JupyterLab server that belongs to one test run: private settings, private folder, offline."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

import nbformat
import psutil

REPOSITORY = Path(__file__).parents[2]
NOWHERE = "http://127.0.0.1:9"  # the discard port: a request through this proxy goes nowhere
LONGEST_SOCKET_BYTES = 103  # on macOS; 107 on Linux
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "@jupyterlab/apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    # Never saved: the next test opens the notebook as it was written, without outputs.
    "@jupyterlab/docmanager-extension/plugin": {"autosave": False},
}


class LabServer:
    """A running JupyterLab on 127.0.0.1, with a copy of `notebooks` as its root folder.

    Everything it writes stays below `folder`. `close` ends the server and all its kernels.
    Errors: RuntimeError with the end of the server's log when it does not start in time.
    """

    def __init__(self, folder: Path, notebooks: Path | None, start_seconds: float = 300) -> None:
        self.token = secrets.token_hex(16)
        self.root = folder / "notebooks"
        if notebooks is not None and notebooks.is_dir():
            unwanted = shutil.ignore_patterns(".*", "__pycache__")
            shutil.copytree(notebooks, self.root, ignore=unwanted)
        self.root.mkdir(exist_ok=True)
        # Short: the path of a kernel's socket in it has at most 103 bytes on macOS.
        self._runtime = Path(tempfile.mkdtemp(prefix="wb-lab-"))
        self._log = folder / "server.log"
        _write_settings(folder / "settings")
        with self._log.open("wb") as log:
            self._process = psutil.Popen(
                _command(self.root, self._runtime),
                cwd=self.root,
                env=_environment(folder, self.token, self._runtime),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            self.url = self._wait_until_up(time.monotonic() + start_seconds)
        except BaseException:
            self.close()
            raise

    def write_notebook(self, name: str, cells: Sequence[str]) -> str:
        """Put a notebook with these code cells into the root folder; return its name."""
        notebook = nbformat.v4.new_notebook(
            cells=[nbformat.v4.new_code_cell(source) for source in cells],
            metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}},
        )
        nbformat.write(notebook, self.root / name)
        return name

    def close(self) -> None:
        """Ask the server to stop, which stops its kernels too; then make sure of both."""
        family = self._family()
        if self._process.poll() is None and hasattr(self, "url"):
            try:
                self._request("api/shutdown", method="POST")
                self._process.wait(60)
            except (OSError, psutil.TimeoutExpired):
                family = self._family() or family
        for process in family:
            with suppress(psutil.NoSuchProcess):
                process.terminate()
        for process in psutil.wait_procs(family, timeout=30)[1]:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        shutil.rmtree(self._runtime, ignore_errors=True)

    def _family(self) -> list[psutil.Process]:
        if not self._process.is_running():
            return []
        return [*self._process.children(recursive=True), self._process]

    def _wait_until_up(self, deadline: float) -> str:
        # The server takes a free port, and says which.
        information = self._runtime / f"jpserver-{self._process.pid}.json"
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                self.url = json.loads(information.read_text(encoding="utf-8"))["url"]
                self._request("api/status")
            except (OSError, ValueError):
                time.sleep(0.1)
            else:
                return self.url
        log = self._log.read_text(encoding="utf-8", errors="replace")
        raise RuntimeError(f"JupyterLab did not start. The end of its log:\n{log[-2000:]}")

    def _request(self, path: str, method: str = "GET") -> None:
        headers = {"Authorization": f"token {self.token}"}
        with urlopen(Request(self.url + path, headers=headers, method=method), timeout=60) as reply:
            if reply.status >= 300:
                raise URLError(f"{path}: status {reply.status}")


def _command(root: Path, runtime: Path) -> list[str]:
    as_root = ["--allow-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    return [
        sys.executable,
        *("-m", "jupyterlab", "--no-browser", *as_root),
        *("--ServerApp.ip=127.0.0.1", "--ServerApp.port=0", f"--ServerApp.root_dir={root}"),
        *_kernel_transport(runtime),
        "--LabApp.expose_app_in_browser=True",
        "--LabApp.extension_manager=readonly",
        # Ends by itself when the test run that started it was killed.
        "--MappingKernelManager.cull_idle_timeout=600",
        "--ServerApp.shutdown_no_activity_timeout=900",
    ]


def _kernel_transport(runtime: Path) -> list[str]:
    """Return options for Unix sockets where possible: another process could take a TCP port."""
    longest = os.fsencode(runtime / f"kernel-{uuid.uuid4()}-ipc-5")
    fits = hasattr(socket, "AF_UNIX") and len(longest) <= LONGEST_SOCKET_BYTES
    return ["--KernelManager.transport=ipc"] if fits else []


def _environment(folder: Path, token: str, runtime: Path) -> dict[str, str]:
    """Return the user's environment without what would change JupyterLab or let it go online."""
    dropped = ("JUPYTER", "IPYTHON", "XDG_", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
    kept = {name: text for name, text in os.environ.items() if not name.upper().startswith(dropped)}
    places = {
        "HOME": "home",
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTERLAB_SETTINGS_DIR": "settings",
        "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
    }
    for place in places.values():
        (folder / place).mkdir(parents=True, exist_ok=True)
    return {
        **kept,
        **{name: str(folder / place) for name, place in places.items()},
        "JUPYTER_RUNTIME_DIR": str(runtime),
        "JUPYTER_TOKEN": token,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(REPOSITORY), kept.get("PYTHONPATH")])),
        "HTTP_PROXY": NOWHERE,
        "HTTPS_PROXY": NOWHERE,
        "NO_PROXY": "127.0.0.1,localhost",
        "HF_HUB_OFFLINE": "1",
    }


def _write_settings(folder: Path) -> None:
    for plugin, settings in SETTINGS.items():
        path = folder / f"{plugin}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(settings), encoding="utf-8")
