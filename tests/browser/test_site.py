"""The front door as a page: Python in the browser says what Python here says, and asks no host."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")

import workbench as wb
from tests.browser.axe import VIOLATIONS, axe_script
from tests.browser.lab import PATIENCE_MS, expect
from tests.browser.site import WITH_NPM, watched
from workbench.core.errors import WorkbenchError
from workbench.door.labs import LESSON_PAGE
from workbench.models import catalog_config
from workbench.scenario.links import link_of
from workbench.scenario.scenario import random_scenarios
from workbench.views.settings import in_labels

pytestmark = [pytest.mark.browser, pytest.mark.thorough, WITH_NPM]
ASK_ALL = """
async (messages) => {
  const worker = new Worker("worker.js?page", { type: "module" });
  const next = () => new Promise((done) => worker.addEventListener(
    "message", ({ data }) => done(data), { once: true }));
  await next();
  const found = [];
  for (const message of messages) {
    worker.postMessage(JSON.stringify(message));
    const { state, failed } = await next();
    if (failed) throw new Error(failed);
    const { plan, announced, regions } = JSON.parse(state);
    found.push([plan, announced, regions.error]);
  }
  worker.terminate();
  return found;
}
"""
"""Messages -> [fingerprint, announcement, internal error] after each, of a door of their own."""


@pytest.fixture(scope="module")
def page(browser_context, site):
    with watched(browser_context, site) as page:
        page.goto(site)
        page.locator(".wb-tile").first.wait_for()
        yield page


def submit(page, text):
    page.locator('[data-key="omnibox"]').fill(text)
    page.locator('[data-key="submit"]').click()


def expect_plan(page, plan):
    expect(page.locator(".wb-door")).to_have_attribute("data-plan", plan.fingerprint)
    expect(page.locator('[data-tile="why"]')).to_contain_text(f"{plan.block_size:,} tokens")


def said(scenario):
    """(fingerprint, None) of a plan; (empty, the error) of a scenario that is refused."""
    try:
        return wb.resolve(scenario).fingerprint, None
    except WorkbenchError as error:
        return "", str(error)


@pytest.mark.parametrize("rules", ["0.23", "0.33"])
def test_random_scenarios_have_the_same_plan_or_error(page, rules):
    scenarios = [*random_scenarios(250, 31, rules)]
    messages = [{"do": "use", "arg": one.to_json()} for one in scenarios]
    found = page.evaluate(ASK_ALL, messages)
    for scenario, (fingerprint, announced, fault) in zip(scenarios, found, strict=True):
        expected, error = said(scenario)
        assert (fingerprint, fault) == (expected, ""), scenario
        assert error is None or announced == in_labels(error)


def test_a_description_is_answered_and_each_view_opens(page):
    submit(page, "Qwen3-Next-80B, 4 x H100, fp8 KV, MTP 1, 32K")
    plan = wb.resolve(
        model="qwen3-next-80b-a3b",
        device="H100",
        tensor_parallel=4,
        kv_cache_dtype="fp8",
        num_speculative_tokens=1,
        speculative_method="mtp",
    )
    expect(page.locator('[data-tile="why"]')).to_contain_text(f"{plan.block_size:,} tokens")
    for tab in page.locator('[role="tab"]').all():
        tab.click()
        expect(tab).to_have_attribute("aria-selected", "true")
        expect(page.locator('[data-region="body"]')).not_to_be_empty()


def test_a_link_opens_its_scenario(page, site):
    plan = wb.resolve(model=dict(catalog_config("bamba-9b")), tensor_parallel=2)
    page.goto(site + "?other" + plan.link())
    expect_plan(page, plan)
    copied = page.locator('[data-key="copy-Copy link"]').get_attribute("data-copy")
    assert copied == link_of(plan.scenario)


def test_wrong_input_is_answered_in_place(page):
    said = page.locator('[data-region="understood"]')
    submit(page, json.dumps({"model_type": "qwen3_next", "num_hidden_layers": "many"}))
    expect(said).to_contain_text("num_hidden_layers")
    submit(page, "example/a-model-of-the-hub")
    expect(said).to_contain_text("config.json")


def test_labs_say_where_they_run(page):
    submit(page, "qwen3.5-4b")
    page.locator('[data-do="show_lab"]').first.click()
    expect(page.locator('[data-region="understood"]')).to_contain_text("JupyterLab")
    expect(page.locator(".wb-learn a")).to_have_attribute("href", LESSON_PAGE)


@pytest.mark.parametrize(("width", "scheme"), [(400, "dark"), (1280, "light"), (1920, "dark")])
def test_everybody_can_use_it_at_every_size(page, width, scheme):
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)
    page.evaluate(axe_script())
    submit(page, "Qwen3-Next-80B, 4 x H100, prefix caching")
    expect(page.locator('[data-region="understood"]')).to_contain_text("qwen3-next-80b-a3b")
    assert page.evaluate(VIOLATIONS, "body") == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_large_log_does_not_freeze_the_page(page):
    line = "INFO 11-20 10:00:02 [loggers.py:1] Avg prompt throughput: 0.0 tokens/s\n"
    start = (
        "INFO 11-20 10:00:01 [utils.py:302] vLLM API server version 0.23.0\n"
        "INFO 11-20 10:00:01 [utils.py:238] non-default args: {'model': 'Qwen/Qwen3.5-4B'}\n"
        "INFO 11-20 10:00:03 [interface.py:671] Setting attention block size to 528 tokens to "
        "ensure that attention page size is >= mamba page size.\n"
    )
    log = start + line * (5 * 2**20 // len(line))
    beats = page.evaluate(
        """async ([log, patience]) => {
          const box = document.querySelector('[data-key="omnibox"]');
          const shown = () => document.querySelector('[data-region="understood"]').textContent;
          const end = performance.now() + patience;
          box.value = log;
          document.querySelector('[data-key="submit"]').click();
          let beats = 0;
          for (; !shown().includes("528"); beats += 1) {
            if (performance.now() > end) throw new Error("no answer");
            await new Promise((done) => setTimeout(done, 20));
          }
          return beats;
        }""",
        [log, PATIENCE_MS],
    )
    # a page that ran Python itself would have the answer as soon as the button was pressed
    assert beats >= 1
