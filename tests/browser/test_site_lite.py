"""JupyterLite: the first lesson runs in the browser alone, and no host is used."""

from __future__ import annotations

import pytest

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")

import workbench as wb
from tests.browser.lab import expect
from tests.browser.site import WITH_NPM, watched

pytestmark = [pytest.mark.browser, pytest.mark.thorough, WITH_NPM]
CELLS = 9
"""Of lesson 1, up to its first picture."""
MOST_CELLS = 60


def test_the_first_lesson_starts_from_its_page(browser_context, site):
    with watched(browser_context, site) as page:
        # a browser requests it before JupyterLite names its own
        page.route("**/favicon.ico", lambda route: route.fulfill(status=204))
        page.goto(site + "docs/notebooks/lessons/01_order_of_initialisation.html")
        page.get_by_role("link", name="run it in this browser").click()
        page.locator(".jp-Notebook h1").click()
        # what is drawn meanwhile may move another cell below the pointer
        page.keyboard.press("Escape")
        for _cell in range(MOST_CELLS):
            page.keyboard.press("k")
        expect(page.locator(".jp-Cell.jp-mod-active h1")).to_be_visible()
        for _cell in range(CELLS):
            page.keyboard.press("Shift+Enter")
        plan = wb.resolve(model="nemotron-3-nano-30b-a3b", platform="xpu", tensor_parallel=4)
        outputs = page.locator(".jp-OutputArea-output")
        expect(outputs.first).to_contain_text(f"after:  block {plan.block_size}")
        expect(outputs.locator("svg, img").first).to_be_visible()
