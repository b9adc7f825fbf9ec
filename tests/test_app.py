"""`workbench app`: what a stranger gets, and what a browser that was let in cannot do."""

from __future__ import annotations

import asyncio
import re
import stat
import subprocess
import sys

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from tests.app_server import ROOT, Kernel, RunningApp

pytest.importorskip("voila", reason="Voila is not installed: pip install '.[app]'")
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import websocket_connect

from workbench.commands.app_server import FORM_1
from workbench.notebooks.page import HIDDEN_CELL

pytestmark = pytest.mark.slow
NO_KERNEL = "api/kernels/11111111-1111-1111-1111-111111111111"
PATHS = ("", "voila/files/x.png", "api/contents", "anything", NO_KERNEL, f"{NO_KERNEL}/channels")


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    running = RunningApp(tmp_path_factory.mktemp("app"), "--allow-host", "Kv.Example")
    yield running
    running.close()


@pytest.fixture(scope="module")
def kernel_id(app):
    status, _, page = app.ask(f"?token={app.token}")
    assert status == 200
    return re.search(r'kernelId": "([\w-]+)"', page)[1]


@pytest.mark.parametrize("path", PATHS)
def test_without_the_token_nothing_is_served(app, path):
    status, headers, text = app.ask(path)
    assert status in {302, 403}
    assert status != 302 or headers["Location"].startswith("/login")
    assert "kernelId" not in text


@pytest.mark.parametrize("given", ["", "wrong", "%00", "é"])
def test_another_token_is_none(app, given):
    from urllib.parse import quote

    assert app.ask(f"?token={quote(given)}")[0] == 302
    assert app.ask(NO_KERNEL, Authorization=f"token {quote(given)}")[0] == 403
    assert app.ask(f"?token={app.token[:-1]}")[0] == 302


@pytest.mark.parametrize("path", [*PATHS, "login", "voila/static/voila.js", "voila/api/shutdown/x"])
@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "192.0.2.7", "[::2]", "x"])
def test_another_host_is_refused_with_the_token_too(app, path, host):
    """DNS rebinding: the browser believes that it talks to evil.example."""
    named = {"Host": host.format(port=app.port)}
    status, _, text = app.ask(f"{path}?token={app.token}", **named)
    assert status == 403
    assert "--allow-host" in text
    assert app.ask(path, method="POST", data=b"", **named)[0] == 403


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:{port}", "127.0.0.1:{port}", "[::1]:{port}", "kv.example"]
)
def test_own_names_and_those_given_at_the_start_are_answered(app, host):
    assert app.ask("login", Host=host.format(port=app.port))[0] == 200


def test_a_cookie_is_enough_after_the_first_visit(app, kernel_id):
    status, headers, _ = app.ask(f"{NO_KERNEL}?token={app.token}")
    assert status == 404
    cookie = headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert app.token not in cookie
    path = f"api/kernels/{kernel_id}"
    named = {"Cookie": cookie.partition(";")[0], "Referer": app.url}
    assert app.ask(path, **named)[0] == 200
    # another site's page sends no cookie; were it sent, its origin would be refused
    assert app.ask(path, method="DELETE", **{**named, "Origin": "http://evil.example"})[0] != 204


def test_the_login_form_wants_the_token_and_changes_no_password(app):
    assert "new_password" not in app.ask("login")[2]
    assert app.ask("login", method="POST", data=b"password=x")[0] == 403  # no _xsrf


def test_no_token_is_written_into_the_log_of_requests(app):
    assert app.ask(f"anything?token={app.token}")[0] == 302
    assert app.ask(f"{NO_KERNEL}?token={app.token}")[0] == 404
    failing = app.ask(f"%00?token={app.token}", Referer=f"{app.url}?token={app.token}")
    assert failing[0] == 500
    log = app.log.read_text(encoding="utf-8").replace(app.address, "")
    assert app.token not in log


@pytest.mark.parametrize("path", ["a", "../static/x.js", "offline/static/", "base/static/%00"])
def test_other_paths_of_templates_are_not_found(app, path):
    assert app.ask(f"voila/templates/{path}")[0] == 404


async def connected(app, kernel_id, query="", forms=None, **headers):
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    address = f"ws://127.0.0.1:{app.port}/api/kernels/{kernel_id}/channels{query}"
    socket = await websocket_connect(HTTPRequest(address, headers=named), subprotocols=forms)
    return Kernel(socket, "test")


@pytest.mark.parametrize(
    ("query", "headers"),
    [
        ("", {}),
        ("?token=wrong", {}),
        ("", {"Origin": "http://evil.example"}),
        ("?token={token}", {"Host": "evil.example"}),
    ],
)
def test_the_kernel_of_another_page_cannot_be_reached(app, kernel_id, query, headers):
    with pytest.raises(HTTPClientError) as caught:
        asyncio.run(connected(app, kernel_id, query.format(token=app.token), **headers))
    assert caught.value.code == 403


def test_a_cookie_from_another_origin_opens_no_socket(app, kernel_id):
    cookie = app.ask(f"{NO_KERNEL}?token={app.token}")[1]["Set-Cookie"].partition(";")[0]
    with pytest.raises(HTTPClientError) as caught:
        asyncio.run(connected(app, kernel_id, Cookie=cookie, Origin="http://evil.example"))
    assert caught.value.code == 403
    asyncio.run(connected(app, kernel_id, Cookie=cookie, Origin=app.url.rstrip("/")))


@pytest.mark.parametrize("forms", [None, [FORM_1]])
@pytest.mark.parametrize("damage", ["offsets for ever", "no offset", "nothing"])
def test_a_damaged_message_ends_its_connection_alone(app, kernel_id, forms, damage):
    data = {"offsets for ever": b"\x7f" * 64, "no offset": bytes(64), "nothing": b""}[damage]

    async def play():
        kernel = await connected(app, kernel_id, f"?token={app.token}", forms)
        await kernel.socket.write_message(data, binary=True)
        async with asyncio.timeout(20):
            while await kernel.socket.read_message() is not None:
                pass

    asyncio.run(play())
    assert app.ask("login")[0] == 200


def as_browser(app, kernel_id, play):
    """What `play` does with a kernel that it was let in to."""

    async def run():
        kernel = await connected(app, kernel_id, f"?token={app.token}")
        await kernel.load()
        await play(kernel)
        return kernel

    return asyncio.run(run())


def test_code_is_not_run(app, kernel_id, tmp_path):
    mark = tmp_path / "ran"

    async def play(kernel):
        content = {"code": f"open({str(mark)!r}, 'w')", "silent": False}
        for channel in ("shell", "control"):
            await kernel.send("execute_request", content, channel)
        await kernel.listen(3)

    as_browser(app, kernel_id, play)
    assert not mark.exists()


def test_another_program_is_not_started(app, kernel_id, tmp_path):
    mark, program = tmp_path / "ran", tmp_path / "python"
    program.write_text(f"#!/bin/sh\ntouch {mark}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)

    async def play(kernel):
        await kernel.open_lab("Live check")
        await kernel.set("Python", str(program))
        await kernel.click("Run vLLM")
        assert await kernel.listen(
            30, lambda: "uses only what it was started with" in kernel.text()
        )

    as_browser(app, kernel_id, play)
    assert not mark.exists()


@pytest.mark.parametrize(
    "name", ["../evil", "/{folder}/evil", "a/b", "..", ".hidden", "a\0b", "CON"]
)
def test_nothing_is_written_outside_the_output_folder(app, kernel_id, tmp_path, name):
    given = name.format(folder=str(tmp_path).lstrip("/"))
    before = set(ROOT.rglob("evil*"))

    async def play(kernel):
        await kernel.open_lab("Export")
        await kernel.set("Save as", given)
        await kernel.click("Save design and report")
        assert await kernel.listen(20, lambda: "without a folder" in kernel.text())

    as_browser(app, kernel_id, play)
    assert list(tmp_path.iterdir()) == []
    assert set(ROOT.rglob("evil*")) == before
    assert not list(app.output.parent.glob("evil*"))


def test_a_name_is_written_into_the_output_folder(app, kernel_id):
    async def play(kernel):
        await kernel.open_lab("Export")
        await kernel.set("Save as", "ours-1")
        await kernel.click("Save design and report")
        assert await kernel.listen(20, lambda: "Written" in kernel.text())

    as_browser(app, kernel_id, play)
    assert {path.name for path in app.output.iterdir()} >= {"ours-1.json", "ours-1.html"}


@pytest.mark.parametrize("model", ["/etc/passwd", "/dev/zero", "./x.json", "owner/name"])
def test_no_path_is_read_and_nothing_is_fetched(app, kernel_id, model):
    async def play(kernel):
        await kernel.act("submit", model)
        words = "Expected a model of the catalog"
        assert await kernel.listen(20, lambda: words in kernel.text())

    as_browser(app, kernel_id, play)


def test_results_and_cluster_are_those_of_the_start(app, kernel_id, tmp_path):
    file = tmp_path / "results.db"

    async def play(kernel):
        await kernel.open_lab("Kernel sweeps")
        await kernel.set("Results in", str(file))
        await kernel.click("Measure kernel")
        assert await kernel.listen(20, lambda: "without a folder" in kernel.text())
        await kernel.set("Results in", "results.db")
        await kernel.set("Machine", "tcp://127.0.0.1:1")
        await kernel.click("Measure kernel")
        words = "Expected an empty box for this machine"
        assert await kernel.listen(20, lambda: words in kernel.text())

    as_browser(app, kernel_id, play)
    assert not file.exists()


def test_no_traceback_leaves_the_server(app, kernel_id):
    async def play(kernel):
        # a value that the widget cannot have: ipywidgets itself raises
        await kernel.open_lab("Export")
        await kernel.set("Save as", {"no": "text"})
        await kernel.send("comm_msg", {"comm_id": "none", "data": {"method": "update"}})
        await kernel.listen(5)

    kernel = as_browser(app, kernel_id, play)
    kinds = {message["msg_type"] for message in kernel.received}
    assert "error" not in kinds
    assert not any("Traceback" in str(message) for message in kernel.received)


def test_a_notebook_that_fails_says_where_the_reason_is(tmp_path):
    notebook = new_notebook(
        cells=[new_code_cell("1 / 0", metadata={"tags": [HIDDEN_CELL]})],
        metadata={"kernelspec": {"name": "python3", "display_name": "", "language": "python"}},
    )
    path = tmp_path / "fails.ipynb"
    path.write_text(nbformat.writes(notebook), encoding="utf-8")
    running = RunningApp(tmp_path, str(path))
    page = running.ask(f"?token={running.token}")[2]
    running.close()
    assert "The reason is in the terminal that runs the app." in page
    assert "ZeroDivisionError" not in page
    assert "ZeroDivisionError" in running.log.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--token", "short"), "at least 16 characters"),
        (("--token", ""), "at least 16 characters"),
        (("nowhere.ipynb",), "does not exist"),
    ],
)
def test_a_start_that_cannot_be_is_refused(options, words):
    command = [sys.executable, "-m", "workbench", "app", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 2
    assert words in done.stderr


def test_the_makefile_starts_this_command():
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "\n\t$(BIN)/workbench app $(APP_ARGS)\n" in text
