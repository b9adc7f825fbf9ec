"""config.json of a hub without huggingface_hub: one request over HTTP, and nothing else."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tests.models.configs import nemotron_h
from workbench.core.errors import ConfigError
from workbench.models import hub, load_model


class Hub(BaseHTTPRequestHandler):
    """Serves one repository, one that has moved there, and refuses the others."""

    def do_GET(self):
        self.server.requests.append((self.path, self.headers.get("Authorization")))
        name = self.path.removesuffix("/resolve/main/config.json").removeprefix("/")
        if name == "owner/moved":
            self.send_response(307)
            self.send_header("Location", "/owner/here/resolve/main/config.json")
            self.end_headers()
            return
        status = {"owner/here": 200, "owner/gated": 401, "owner/broken": 500}.get(name, 404)
        self.send_response(status)
        self.end_headers()
        if status == 200:
            self.wfile.write(json.dumps(nemotron_h()).encode())

    def log_message(self, *_arguments):
        """Print nothing."""


@pytest.fixture
def served(monkeypatch):
    server = HTTPServer(("127.0.0.1", 0), Hub)
    server.requests = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr("workbench.models.hub_file.has_library", lambda: False)
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}/")
    for name in ("HF_HUB_OFFLINE", "HF_TOKEN", "http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(hub, "_failures", {})
    monkeypatch.setattr(hub, "_configs", {})
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("name", ["owner/here", "owner/moved"])
def test_a_repository_is_read_once_without_the_library(served, name):
    model = load_model(name)
    assert (model.name, model.family) == (name, "nemotron_h")
    count = len(served.requests)
    load_model(name)
    assert len(served.requests) == count


def test_a_token_is_sent_and_not_to_where_the_hub_redirects(served, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "secret")
    load_model("owner/moved")
    assert [token for _, token in served.requests] == ["Bearer secret", None]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("owner/gated", "(status 401 (set HF_TOKEN) of 127.0.0.1)"),
        ("owner/none", "(status 404 of 127.0.0.1)"),
        ("owner/broken", "(status 500 of 127.0.0.1)"),
    ],
)
def test_a_refusal_names_status_and_host(served, name, words):
    with pytest.raises(ConfigError) as caught:
        load_model(name)
    assert caught.value.code == "hub_not_reachable"
    assert words in caught.value.message


def test_offline_sends_no_request(served, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ConfigError, match="HF_HUB_OFFLINE is set"):
        load_model("owner/here")
    assert served.requests == []


def test_an_endpoint_that_is_a_file_is_not_read(served, monkeypatch, tmp_path):
    folder = tmp_path / "owner" / "here" / "resolve" / "main"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(nemotron_h()), encoding="utf-8")
    monkeypatch.setenv("HF_ENDPOINT", f"file://{tmp_path}")
    with pytest.raises(ConfigError, match="Expected scheme://host or"):
        load_model("owner/here")
