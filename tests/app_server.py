"""`workbench app` as a test runs it, and a client that speaks to a kernel without a browser."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import time
import uuid
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

import psutil
from jupyter_server.services.kernels.connection.base import (
    deserialize_binary_message as deserialize,
)

ROOT = Path(__file__).parents[1]
ADDRESS = re.compile(r"http://[\w.]+:(?P<port>\d+)/\?token=(?P<token>\w+)")
START_S = 300


class NoRedirect(HTTPRedirectHandler):
    """A redirection is an answer of its own."""

    def redirect_request(self, *_arguments):
        return None


class RunningApp:
    """The app in a process of its own; `address` is what it printed."""

    def __init__(self, folder: Path, *options: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            free = probe.getsockname()[1]  # taken meanwhile, Voila listens on another one
        self.log = folder / "log"
        self.output = folder / "written"
        command = [sys.executable, "-m", "workbench", "app", "--no-browser", f"--port={free}"]
        environment = {
            **{key: text for key, text in os.environ.items() if not key.startswith("JUPYTER_")},
            "JUPYTER_DATA_DIR": str(folder / "data"),
            "JUPYTER_CONFIG_DIR": str(folder / "config"),
            "HF_HUB_OFFLINE": "1",
            "PYTHONPATH": str(ROOT),
        }
        self.process = psutil.Popen(
            [*command, f"--output={self.output}", *options],
            cwd=ROOT,
            env=environment,
            stdout=self.log.open("wb"),
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.address = self._address()
        said = ADDRESS.search(self.address)
        self.port, self.token = int(said["port"]), said["token"]
        self.url = f"http://127.0.0.1:{self.port}/"

    def _address(self) -> str:
        end = time.monotonic() + START_S
        while time.monotonic() < end and self.process.poll() is None:
            if found := ADDRESS.search(self.log.read_text(encoding="utf-8")):
                return found[0]
            time.sleep(0.1)
        raise AssertionError(self.log.read_text(encoding="utf-8")[-2000:])

    def ask(self, path="", *, method="GET", data=None, **headers):
        """(status, headers, text) of a request; "Host" of the network is always 127.0.0.1."""
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        request = Request(self.url + path, data=data, headers=named, method=method)
        try:
            with build_opener(NoRedirect).open(request, timeout=120) as answer:
                return answer.status, answer.headers, answer.read().decode()
        except HTTPError as error:
            return error.code, error.headers, error.read().decode()

    def close(self) -> None:
        family = [*self.process.children(recursive=True), self.process]
        for process in family:
            process.terminate()
        for process in psutil.wait_procs(family, timeout=10)[1]:
            process.kill()


class Kernel:
    """The websocket of a kernel, as a page has it: messages of widgets in, states out."""

    def __init__(self, socket_, session) -> None:
        self.socket, self.session = socket_, session
        self.received: list[dict] = []
        self.states: dict[str, dict] = {}
        self.is_loaded = False

    async def send(self, kind, content, channel="shell"):
        header = {
            "msg_id": uuid.uuid4().hex,
            "msg_type": kind,
            "username": "",
            "session": self.session,
            "date": "2026-01-01T00:00:00Z",
            "version": "5.3",
        }
        message = {"header": header, "parent_header": {}, "content": content}
        message |= {"channel": channel, "buffers": [], "metadata": {"version": "1.0.0"}}
        await self.socket.write_message(json.dumps(message))

    async def listen(self, seconds, until=lambda: False):
        """Take messages until something is so, or the time is over; whether it became so."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not until():
            try:
                text = await asyncio.wait_for(self.socket.read_message(), 0.5)
            except TimeoutError:
                continue
            if text is not None:
                whole = json.loads(text) if isinstance(text, str) else deserialize(text)
                self._take(whole)
        return until()

    def _take(self, message):
        self.received.append(message)
        content = message["content"]
        if message["msg_type"] != "comm_msg":
            return
        data = content["data"]
        if data.get("method") == "update_states":
            self.states.update({key: one["state"] for key, one in data["states"].items()})
            self.is_loaded = True
        elif data.get("method") in {"update", "echo_update"}:
            self.states.setdefault(content["comm_id"], {}).update(data["state"])

    async def load(self):
        """Every widget with its state."""
        control = uuid.uuid4().hex
        opening = {"comm_id": control, "target_name": "jupyter.widget.control", "data": {}}
        await self.send("comm_open", opening)
        await self.send("comm_msg", {"comm_id": control, "data": {"method": "request_states"}})
        # A widget that changes meanwhile sends its update before the answer with all states.
        assert await self.listen(20, lambda: self.is_loaded), self.received

    def widgets(self, **traits):
        """The ids of all widgets with these values: one in each panel of the page."""
        found = [
            key
            for key, state in self.states.items()
            if all(state.get(name) == value for name, value in traits.items())
        ]
        assert found, traits
        return found

    async def act(self, do, arg="", text=""):
        """Send what a click into every front door of the page sends."""
        data = {"method": "custom", "content": {"do": do, "arg": arg, "text": text}}
        doors = [key for key, state in self.states.items() if "regions" in state]
        assert doors
        for key in doors:
            await self.send("comm_msg", {"comm_id": key, "data": data})

    async def open_lab(self, title):
        """Open a lab below every front door, and wait until its widgets are there."""
        await self.act("lab", title)
        self.is_loaded = False
        assert await self.listen(20, lambda: self._shows_lab(title))
        await self.load()

    def _shows_lab(self, title):
        mark = rf'<button[^>]* data-arg="{re.escape(title)}"[^>]* aria-expanded="true"'
        shown = [state["regions"] for state in self.states.values() if "regions" in state]
        return all(re.search(mark, regions.get("labs", "")) for regions in shown)

    async def set(self, description, value):
        """Set the value of the controls with this description."""
        for key in self.widgets(description=description):
            await self._update(key, value=value)

    async def click(self, description):
        """Press the buttons with this text."""
        data = {"method": "custom", "content": {"event": "click"}}
        for key in self.widgets(description=description):
            await self.send("comm_msg", {"comm_id": key, "data": data})

    async def _update(self, widget, **state):
        data = {"method": "update", "state": state, "buffer_paths": []}
        await self.send("comm_msg", {"comm_id": widget, "data": data})

    def text(self):
        """Everything that the panels show as HTML."""
        shown = (
            [state.get("value", ""), *state.get("regions", {}).values()]
            for state in self.states.values()
        )
        return " ".join(str(part) for parts in shown for part in parts)
