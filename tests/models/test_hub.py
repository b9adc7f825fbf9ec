"""A hub that does not answer costs seconds once, not a minute per model."""

import json
import os
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from workbench.models.json_file import MAX_BYTES


@pytest.fixture
def silent_host():
    """Serve a host that accepts connections and never answers; return its address and a counter."""
    taken = []
    server = socket.create_server(("127.0.0.1", 0))

    def accept():
        while True:
            try:
                taken.append(server.accept()[0])
            except OSError:
                return

    threading.Thread(target=accept, daemon=True).start()
    yield f"http://127.0.0.1:{server.getsockname()[1]}", taken
    server.close()
    for connection in taken:
        connection.close()


def batch(*models, timeout=40, **environment):
    """Resolve a line per model in a process of its own; return the answers."""
    lines = "".join(json.dumps({"model": model}) + "\n" for model in models)
    done = subprocess.run(
        [sys.executable, "-m", "workbench.cli", "resolve", "--batch", "-"],
        input=lines,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env={**os.environ, "HF_HUB_OFFLINE": "0", **environment},
    )
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


@pytest.mark.slow
def test_a_host_that_never_answers_gets_one_request_a_minute(silent_host, tmp_path):
    address, connections = silent_host
    hub_ids = [f"owner/model-{number}" for number in range(4)]
    answers, errors = batch(*hub_ids, HF_ENDPOINT=address, HF_HOME=str(tmp_path))
    assert [line["error"]["code"] for line in answers] == ["hub_not_reachable"] * 4, errors
    first, *others = (line["error"]["message"] for line in answers)
    assert "within 5 seconds" in first
    assert all("no request is sent again" in message for message in others)
    assert all("catalog" in message for message in (first, *others))
    # A model would cost two at least: is the host there, and its file.
    assert len(connections) < 2 * len(hub_ids)


NOT_THERE = "http://127.0.0.1:1"


@pytest.fixture(params=[None, b"", b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"])
def refusing_proxy(request):
    """Serve a proxy that takes no connection, ends each one, or forbids each one."""
    server = socket.create_server(("127.0.0.1", 0))

    def refuse():
        while True:
            try:
                connection = server.accept()[0]
            except OSError:
                return
            with connection, suppress(OSError):
                connection.recv(4096)
                connection.sendall(request.param)

    if request.param is None:
        server.close()
        yield NOT_THERE
        return
    threading.Thread(target=refuse, daemon=True).start()
    yield f"http://127.0.0.1:{server.getsockname()[1]}"
    server.close()


@pytest.mark.slow
def test_a_proxy_that_refuses_gets_one_request_a_minute(refusing_proxy, tmp_path):
    answers, errors = batch(
        *(f"owner/model-{number}" for number in range(4)),
        HF_ENDPOINT="https://hub.invalid",
        HF_HOME=str(tmp_path),
        **dict.fromkeys(("HTTPS_PROXY", "https_proxy"), refusing_proxy),
    )
    assert [line["error"]["code"] for line in answers] == ["hub_not_reachable"] * 4, errors
    messages = [line["error"]["message"] for line in answers]
    assert sum("no request is sent again" in message for message in messages) == 3
    assert all("hub.invalid through the proxy 127.0.0.1" in message for message in messages)
    if refusing_proxy == NOT_THERE:  # seen at once: the hub's client would try for seconds
        assert "no connection to" in messages[0]


CONFIG = "/owner/model/resolve/main/config.json"


class Endless(BaseHTTPRequestHandler):
    """Sends bytes for as long as they are read, from one address; answers others as a hub does."""

    protocol_version = "HTTP/1.1"

    def do_HEAD(self):
        self.send_response(200)
        self.send_header("X-Repo-Commit", "c" * 40)
        self.send_header("ETag", '"e"')
        self.send_header("Content-Length", "100")
        self.end_headers()

    def do_GET(self):
        if self.path != self.server.endless:
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        if self.server.is_packed:
            self.send_header("Content-Encoding", "gzip")
        self.end_headers()
        part = b"10000\r\n" + b" " * 2**16 + b"\r\n"
        with suppress(OSError):
            while True:
                self.wfile.write(part)
                self.server.sent += 2**16

    def log_message(self, *_arguments):
        """Print nothing."""


@pytest.mark.slow
@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize("endless", [CONFIG, "/api/agent-harnesses"])
def test_a_body_without_an_end_is_not_read(endless, is_packed, tmp_path):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endless)
    server.endless, server.is_packed, server.sent = endless, is_packed, 0
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    answers, errors = batch("owner/model", HF_ENDPOINT=address, HF_HOME=str(tmp_path))
    server.shutdown()
    server.server_close()
    assert [line["error"]["code"] for line in answers] == ["hub_not_reachable"], errors
    assert server.sent < 2 * MAX_BYTES + 2**24  # what sockets hold
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) <= MAX_BYTES
