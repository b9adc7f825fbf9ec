"""The first notebook as an app: what `make app` serves, opened in a browser."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.app_server import RunningApp
from tests.browser.lab import PATIENCE_MS, expect


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningApp]:
    pytest.importorskip("voila", reason="Voila is not installed: pip install '.[app]'")
    running = RunningApp(tmp_path_factory.mktemp("app"))
    yield running
    running.close()


def test_the_app_shows_the_answer_and_a_panel_that_answers(browser_context, app, tmp_path):
    page = browser_context.new_page()
    outside = []
    page.on("request", lambda request: outside.append(request.url))
    page.set_default_timeout(PATIENCE_MS)
    page.goto(app.address, wait_until="commit")
    expect(page.locator("h1").first).to_contain_text("?")
    # no cell is shown with its source, and none failed
    expect(page.locator(".wb-door .wb-tile").first).to_be_visible()
    text = page.locator("body").inner_text()
    assert "Traceback" not in text
    assert "write_results" not in text
    # best effort for figures: one is drawn, whichever renderer Voila found
    figure = page.locator(".js-plotly-plot .main-svg").first
    expect(figure).to_be_attached()
    # the panel answers: on XPU the kernel block is 64 tokens, and the block grows
    page.locator('[data-chip="all"] > button').click()
    page.locator('[data-key="all-platform"]').select_option(label="xpu")
    expect(page.locator("body")).to_contain_text("1,088 tokens")
    page.screenshot(path=Path(os.environ.get("WORKBENCH_SCREENSHOTS") or tmp_path) / "app.png")
    page.close()
    requests = {url for url in outside if urlsplit(url).hostname not in {None, "127.0.0.1"}}
    assert requests == set()
