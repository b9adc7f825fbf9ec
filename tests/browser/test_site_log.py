"""The log doctor's page: what Python says of a log, and a link that has no line of it."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")

import workbench as wb
from tests.browser.axe import VIOLATIONS, axe_script
from tests.browser.lab import expect
from tests.browser.site import WITH_NPM, watched
from workbench.scenario import Scenario
from workbench.scenario.links import link_of
from workbench.views.logs.table import headline

pytestmark = [pytest.mark.browser, pytest.mark.thorough, WITH_NPM]
LOGS = Path(__file__).parents[1] / "data" / "logs"
LOG = (LOGS / "align_budget.log").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(browser_context, site):
    with watched(browser_context, site) as page:
        page.goto(site + "log.html")
        page.locator("[role=status]").wait_for(state="hidden")
        yield page


def explain(page, log, model=""):
    page.get_by_label("Start-up log of vLLM").fill(log)
    page.get_by_label("Model, if the log does not name it").fill(model)
    page.get_by_role("button", name="Explain").click()
    return page.locator("#report")


def test_a_log_is_explained_and_shared_without_its_text(page, site):
    report = wb.explain_log(LOG).to_dict()
    shown = explain(page, LOG)
    expect(shown).to_contain_text(headline(report))
    expect(shown).to_contain_text(report["lines"][0]["means"])
    expect(shown).to_contain_text("Max batched tokens 2,096 (block size 2,096)")
    link = page.locator("#copy").get_attribute("value")
    scenario = page.locator("#scenario").get_attribute("href")
    assert scenario == "./" + link_of(Scenario.from_dict(report["scenario"]))
    page.goto(link)
    page.reload()
    expect(page.locator("#report")).to_contain_text(headline(report))
    first = report["lines"][0]
    assert first["text"] not in page.content()
    expect(page.locator("#report")).to_contain_text(first["verdict_text"])


def test_what_is_wrong_is_said_in_place(page, site):
    expect(explain(page, "nothing that vLLM says")).to_contain_text("matches one of the")
    expect(explain(page, LOG, "no-such-model")).to_contain_text("no-such-model")
    page.goto(site + "log.html#report=abc")
    expect(page.locator("#report")).to_contain_text("The link is damaged")


def test_everybody_can_use_it(page):
    expect(explain(page, LOG)).to_contain_text("known in")
    page.evaluate(axe_script())
    for width in (400, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.evaluate(VIOLATIONS, "body") == []
