"""The first notebook as an app: what `make app` serves, opened in a browser."""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

import psutil
import pytest

from tests.browser.lab import PATIENCE_MS, expect

REPOSITORY = Path(__file__).parents[2]
READY_S = 300
ADDRESS = re.compile(r"is running at:\s+(http://127\.0\.0\.1:\d+/)")


def made_by(target: str) -> list[str]:
    """The command of a target of the Makefile."""
    text = (REPOSITORY / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
    line = re.search(rf"^{target}:.*\n\t(.*)$", text, re.MULTILINE)[1]
    return shlex.split(line.replace("$(APP_ARGS)", ""))


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pytest.importorskip("voila", reason="Voila is not installed: pip install '.[app]'")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    folder = tmp_path_factory.mktemp("app")
    setting, program, *arguments = made_by("app")
    assert program == "$(BIN)/python"
    running = psutil.Popen(
        [sys.executable, *arguments, "--no-browser", f"--port={port}", "--Voila.ip=127.0.0.1"],
        cwd=REPOSITORY,
        env={**os.environ, "JUPYTER_DATA_DIR": str(folder), "HF_HUB_OFFLINE": "1"}
        | dict([setting.split("=")]),
        stdout=(folder / "log").open("wb"),
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        yield _address_when_up(running, folder / "log")
    finally:
        family = [*running.children(recursive=True), running]
        for process in family:
            with suppress(psutil.NoSuchProcess):
                process.terminate()
        for process in psutil.wait_procs(family, timeout=30)[1]:
            with suppress(psutil.NoSuchProcess):
                process.kill()


def _address_when_up(running: psutil.Popen, log: Path) -> str:
    """Where Voila says that it listens: it takes another port if ours was taken meanwhile."""
    end = time.monotonic() + READY_S
    while time.monotonic() < end and running.poll() is None:
        found = ADDRESS.search(log.read_text(encoding="utf-8"))
        try:
            if found:
                with urlopen(found[1] + "voila/static/voila.js", timeout=60):
                    return found[1]
        except HTTPError:
            return found[1]
        except OSError:  # refused, reset, too slow
            pass
        time.sleep(0.2)
    raise AssertionError(f"Voila did not start: {log.read_text(encoding='utf-8')[-2000:]}")


def test_the_app_shows_the_answer_and_a_panel_that_answers(browser_context, app, tmp_path):
    page = browser_context.new_page()
    outside = []
    page.on("request", lambda request: outside.append(request.url))
    page.set_default_timeout(PATIENCE_MS)
    page.goto(app, wait_until="commit")
    expect(page.locator("h1").first).to_contain_text("?")
    # no cell is shown with its source, and none failed
    expect(page.locator(".widget-dropdown").first).to_be_visible()
    text = page.locator("body").inner_text()
    assert "Traceback" not in text
    assert "write_results" not in text
    # best effort for figures: one is drawn, whichever renderer Voila found
    figure = page.locator(".js-plotly-plot .main-svg").first
    expect(figure).to_be_attached()
    # the panel answers: on XPU the kernel block is 64 tokens, and the block grows
    platform = page.locator(".widget-dropdown:has(> .widget-label:text-is('Platform')) select")
    platform.first.select_option(label="xpu")
    expect(page.locator("body")).to_contain_text("1,088 tokens")
    page.screenshot(path=Path(os.environ.get("WORKBENCH_SCREENSHOTS") or tmp_path) / "app.png")
    page.close()
    asked = {url for url in outside if urlsplit(url).hostname not in {None, "127.0.0.1"}}
    assert asked == set()
