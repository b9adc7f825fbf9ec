"""The first notebook as an app: what `make app` serves, opened in a browser."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.app_server import RunningApp
from tests.browser.lab import PATIENCE_MS, expect
from workbench.scenario import Scenario
from workbench.scenario.links import link_of, read_link

BACKGROUND = "one => getComputedStyle(one).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)"
MIDDLE = 128
"""Between black and white."""
FINGER = 24
"""Pixels that WCAG 2.2 wants of a target (2.5.8)."""
LEGIBLE = 150
"""Pixels of a text box that has room for a path's end."""
DESK = {"width": 1280, "height": 900}
WHOLE_OR_HIGH = """lab => [...document.querySelectorAll(lab)].some((one) => {
    const { top, bottom, height } = one.getBoundingClientRect();
    return height && (top < innerHeight / 3 || bottom <= innerHeight);
})"""
SLID = 100
"""Pixels that a row of chips has been slid at least."""
UNZOOMED = 16
"""Pixels of letters below which phones zoom in on a control that has the focus."""


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
    assert "panel_block_size" not in text
    expect(page.locator('a[href$=".ipynb"] >> visible=true')).to_have_count(0)
    expect(page.locator(".wb-door .wb-page svg").first).to_be_visible()
    # the panel answers: on XPU the block is a multiple of 64 tokens, and grows
    page.locator('[data-chip="all"] > button').click()
    page.locator('[data-key="all-platform"]').select_option(label="xpu")
    expect(page.locator("body")).to_contain_text("2,112 tokens")
    page.screenshot(path=Path(os.environ.get("WORKBENCH_SCREENSHOTS") or tmp_path) / "app.png")
    page.close()
    requests = {url for url in outside if urlsplit(url).hostname not in {None, "127.0.0.1"}}
    assert requests == set()


@pytest.mark.thorough
def test_the_colours_are_those_that_the_browser_prefers(browser_context, app):
    page = browser_context.browser.new_context(color_scheme="dark").new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(app.address, wait_until="commit")
    expect(page.locator(".wb-door .wb-tile").first).to_be_visible()
    for scheme, is_light in (("dark", "false"), ("light", "true")):
        page.emulate_media(color_scheme=scheme)
        expect(page.locator("body")).to_have_attribute("data-jp-theme-light", is_light)
        brightness = sum(page.locator(".wb-door .wb-tile").first.evaluate(BACKGROUND)) / 3
        assert (brightness > MIDDLE) == (scheme == "light"), brightness
    page.context.close()


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("link", "title"),
    [
        ('[data-tile="hits"] [data-do="show_lab"]', "Prefix hits"),
        ('.wb-lab-links [data-arg="Block tables"]', "Block tables"),
    ],
)
def test_a_lab_that_is_opened_comes_into_view(browser_context, app, link, title):
    page = browser_context.browser.new_context(viewport=DESK).new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(app.address, wait_until="commit")
    page.locator(link).first.click()
    row = page.locator(f'.wb-lab-links [data-arg="{title}"]')
    expect(row).to_have_attribute("aria-expanded", "true")
    expect(page.locator(".wb-tab:visible")).to_be_visible()
    page.wait_for_function(WHOLE_OR_HIGH, arg=".wb-tab:not(.wb-tab .wb-tab)")
    page.context.close()


@pytest.mark.thorough
def test_the_next_steps_stay_in_view_below_a_long_explanation(browser_context, app):
    page = browser_context.browser.new_context(viewport=DESK).new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(app.address, wait_until="commit")
    page.locator('[data-do="view"][data-arg="what_if"]').click()
    expect(page.locator('[data-region="body"] table').first).to_be_visible()
    expect(page.locator('[data-region="next"]')).to_be_in_viewport(ratio=0.95)
    page.context.close()


def test_a_reload_keeps_what_is_shown(browser_context, app):
    page = browser_context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(app.address, wait_until="commit")
    expect(page.locator('[data-tile="start"]')).to_be_visible()
    assert "#" not in page.url
    box = page.locator('[data-key="omnibox"]')
    box.fill("gpt-oss-20b h100 128k")
    box.press("Enter")
    expect(page.locator('[data-tile="fits"]')).to_contain_text("requests of 128,000 tokens")
    page.reload(wait_until="commit")
    expect(page.locator('[data-chip="model"] > button')).to_have_text("gpt-oss-20b")
    expect(page.locator('[data-tile="fits"]')).to_contain_text("requests of 128,000 tokens")
    page.close()


def test_after_an_error_what_is_shown_is_dimmed(browser_context, app):
    page = browser_context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(app.address, wait_until="commit")
    expect(page.locator('[data-region="answers"]')).to_have_css("opacity", "1")
    box = page.locator('[data-key="omnibox"]')
    box.fill("banana phone rocket")
    box.press("Enter")
    expect(page.locator(".wb-still")).to_contain_text("Below is still")
    expect(page.locator('[data-region="answers"]')).to_have_css("opacity", "0.5")
    page.close()


@pytest.mark.thorough
def test_on_a_phone_a_comparison_is_not_cut(browser_context, app):
    page = browser_context.browser.new_context(viewport={"width": 390, "height": 844}).new_page()
    page.set_default_timeout(PATIENCE_MS)
    pinned = Scenario(model="gpt-oss-20b", device="L40S")
    link = link_of(pinned.replace(model="qwen3.5-9b"), pinned=pinned)
    page.goto(app.address + link, wait_until="commit")
    table = page.locator('[data-region="body"] table')
    expect(table.locator("tbody tr").first).to_be_visible()
    # what a text or a link opens is in view in its row, too
    expect(page.locator('[role="tab"][aria-selected="true"]')).to_be_in_viewport(ratio=0.95)
    assert table.evaluate("one => one.scrollWidth") <= 390
    page.context.close()


def test_on_a_phone_a_link_opens_its_scenario_and_nothing_is_wider_than_the_screen(
    browser_context, app
):
    scenario = Scenario(model="bamba-9b", device="H100", tensor_parallel=2)
    phone = browser_context.browser.new_context(
        viewport={"width": 400, "height": 800}, is_mobile=True, has_touch=True
    )
    page = phone.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(app.address + link_of(scenario), wait_until="commit")
    expect(page.locator('[data-chip="model"] > button')).to_have_text("bamba-9b")
    expect(page.locator('[data-tile="fits"]')).to_contain_text("fit on 2 GPUs")
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    assert Scenario(**read_link(page.url)) == scenario
    # a finger can hit everything, and no control is so small that a phone zooms in on it
    sizes = "all => all.map((one) => Math.round(one.getBoundingClientRect().height))"
    controls = page.locator(".wb-door :is(button, select, input, textarea, summary):visible")
    assert min(controls.evaluate_all(sizes)) >= FINGER
    letters = "all => all.map((one) => parseFloat(getComputedStyle(one).fontSize))"
    entries = page.locator(".wb-door :is(select, textarea, input:not([type=range])):visible")
    assert min(entries.evaluate_all(letters)) >= UNZOOMED
    # a row that was slid to its end stays there when it is drawn again
    page.locator('[data-chip="all"] > button').tap()
    expect(page.locator(".wb-pop")).to_be_visible()
    assert page.locator(".wb-chips").evaluate("one => one.scrollLeft") > SLID
    page.locator("h1").last.tap()
    expect(page.locator(".wb-pop")).to_have_count(0)
    # what explains a part that was touched is in view
    part = page.locator('[data-region="body"] li[data-part]:visible').first
    part.tap()
    about = page.locator("[data-about]:visible")
    expect(about).to_contain_text(part.inner_text().split(":")[0].strip("■ "))
    expect(about).to_be_in_viewport(ratio=0.5)
    drawn = page.locator('[data-region="body"] rect[data-part="recurrent"]').first
    drawn.tap()
    expect(page.locator('.wb-door li[data-part="recurrent"]')).to_be_focused()
    page.locator('.wb-lab-links [data-arg="Groups and capacity"]').click()
    expect(page.locator(".wb-tab p").first).to_be_visible()
    ends = "all => all.map((one) => Math.round(one.getBoundingClientRect().right))"
    assert max(page.locator(".wb-tab p").evaluate_all(ends)) <= 400
    # a text box is as wide as what it says in place of a text
    page.locator('.wb-lab-links [data-arg="Live check"]').click()
    python = page.locator(".wb-tab input[placeholder*=vLLM]")
    expect(python).to_be_visible()
    assert python.evaluate("one => one.clientWidth") > LEGIBLE
    phone.close()
