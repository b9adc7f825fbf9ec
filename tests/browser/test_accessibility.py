"""The front door for everybody: axe-core, the keyboard alone, small screens, announcements."""

import json
from pathlib import Path

import pytest

from tests.browser.axe import VIOLATIONS, axe_script
from tests.browser.lab import DARK, LIGHT, LabPage, expect
from tests.ui.panels import TORCHAO
from workbench.door.explanations import VIEWS
from workbench.door.labs import LABS

LOGS = Path(__file__).parents[1] / "data" / "logs"
DOOR = ".wb-door"
MOST_PRESSES, FEW_PRESSES = 150, 8
LEAST_PIXELS = 12
START = """
import workbench as wb
panel = wb.explore(model="qwen3-next-80b-a3b", device="H100", tensor_parallel=4)
panel
"""
SMALL = """least => [...document.querySelectorAll(".wb-door *")]
  .filter((one) => one.checkVisibility() && parseFloat(getComputedStyle(one).fontSize) < least)
  .filter((one) => [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim()))
  .map((one) => one.outerHTML)"""
WRAPPED = (
    "vllm serve bamba-9b -tp 2 --no-async-scheduling --enforce-eager "
    "--performance-mode throughput --block-size 64"
)
DRAWS_FOR_A_WHILE = """
import asyncio

async def draw():
    for turn in range(100):
        panel.view.regions = {**panel.view.regions, "turn": str(turn)}
        await asyncio.sleep(0.03)

drawing = asyncio.ensure_future(draw())
"""
OUTSIDE = """() => {
  const whole = document.querySelector(".wb-door");
  const door = whole.getBoundingClientRect();
  const shown = whole.closest(".jp-WindowedPanel-outer").getBoundingClientRect();
  if (door.right > shown.right) return [`${door.right} of ${shown.right} pixels`];
  const slides = (one) => one && one.scrollWidth > one.clientWidth;
  const parts = ".wb-door > div, .wb-door :is(button, input, textarea, svg)";
  return [...document.querySelectorAll(parts)]
    .filter((one) => one.getBoundingClientRect().right > door.right + 1)
    .filter((one) => !slides(one.closest(".wb-chips, .wb-actions, .wb-views, .wb-lab-links")))
    .map((one) => one.outerHTML);
}"""
CUT = """() => [...document.querySelectorAll(".wb-tile *")]
  .filter((one) => one.scrollWidth > one.clientWidth + 1 && one.clientWidth)
  .map((one) => one.outerHTML)"""


def opened(field: str):
    """Open what a button opens."""
    return lambda lab: lab.element(f'[data-key="open-{field}"]').click()


def viewed(name: str):
    """Open an explanation."""
    return lambda lab: lab.element(f'[data-key="view-{name}"]').click()


def submitted(log: str):
    """Paste a log."""
    return lambda lab: lab.submit((LOGS / log).read_text(encoding="utf-8"))


def entered(text: str):
    """Enter a text."""
    return lambda lab: lab.submit(text)


STATES = {
    **{name: (viewed(name), f'[data-key="view-{name}"][aria-selected=true]') for name in VIEWS},
    "all settings": (opened("all"), '[data-key="search"]'),
    "a chip": (opened("kv_cache_dtype"), '[data-key="chip-kv_cache_dtype"]'),
    "request length": (opened("length"), '[data-key="chip-length"]'),
    "history": (opened("history"), ".wb-history"),
    "pinned": (lambda lab: lab.element('[data-do="pin"]').click(), "[data-pinned]"),
    "a fatal log": (submitted("align_budget.log"), ".wb-understood .wb-problem"),
    "the models": (entered("which models are supported?"), '[data-do="apply"].wb-link'),
    "an invalid value": (
        entered("bamba-9b, tp 0"),
        '[data-do="open"][data-arg="tensor_parallel"].wb-link',
    ),
    "a mistake": (lambda lab: lab.submit("what is this"), ".wb-problem"),
}
"""What a person sees -> how it is reached, and what is there then."""


@pytest.fixture(scope="module")
def door(shared_lab: LabPage) -> LabPage:
    """Return a notebook with the front door alone, run once, with axe-core in its page."""
    axe = axe_script()
    shared_lab.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    shared_lab.set_viewport(1280, 900)
    shared_lab.open(shared_lab.server.write_notebook("access.ipynb", [START]))
    shared_lab.run_all()
    shared_lab.hide_sidebar()
    shared_lab.page.evaluate(axe)
    return shared_lab


def in_one_theme(names):
    """Every name with one of the themes in turn; `make thorough` has it with the other one."""
    other = pytest.mark.thorough
    return [
        pytest.param(name, theme, marks=[] if number % 2 == is_dark else other)
        for is_dark, theme in enumerate((LIGHT, DARK))
        for number, name in enumerate(names)
    ]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("state", "theme"), in_one_theme(STATES))
def test_axe_finds_nothing(door, state, theme):
    door.set_theme(theme)
    reach, there = STATES[state]
    reach(door)
    expect(door.element(f"{DOOR} {there}").first).to_be_visible()
    assert door.page.evaluate(VIOLATIONS, DOOR) == []
    assert door.page.evaluate(SMALL, LEAST_PIXELS) == []
    if door.element(f"{DOOR} .wb-pop").count():
        door.press("Escape")
        expect(door.element(f"{DOOR} .wb-pop")).to_have_count(0)
    if door.element('[data-do="unpin"]').count():
        door.element('[data-do="unpin"]').click()


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("title", "theme"), in_one_theme(LABS))
def test_axe_finds_nothing_in_a_lab(door, title, theme):
    door.set_theme(theme)
    door.open_lab(title)
    expect(door.element(".wb-tab >> visible=true").first).to_be_visible()
    assert door.page.evaluate(VIOLATIONS, ".wb-labs") == []
    door.close_lab(title)


SHORT, LONG = "bamba-9b", "nemotron-3-ultra-550b-a55b"


@pytest.mark.sampled(1)
# 640 x 450 is a window of 1280 x 900 at a zoom of 200 %.
@pytest.mark.parametrize(
    ("size", "model"),
    [
        ((400, 800), LONG),
        ((640, 450), LONG),
        ((1920, 1080), SHORT),
        pytest.param((1280, 900), SHORT, marks=pytest.mark.thorough),
        pytest.param((1280, 900), LONG, marks=pytest.mark.thorough),
        pytest.param((400, 800), SHORT, marks=pytest.mark.thorough),
        pytest.param((640, 450), SHORT, marks=pytest.mark.thorough),
        pytest.param((1920, 1080), LONG, marks=pytest.mark.thorough),
    ],
)
def test_everything_is_inside_at_every_size(door, size, model):
    door.set_viewport(*size)
    door.submit(model)
    expect(door.element('[data-chip="model"] > button')).to_have_text(model)
    for name in VIEWS:
        door.element(f'[data-key="view-{name}"]').click()
        expect(door.element(f'[data-key="view-{name}"]')).to_have_attribute("aria-selected", "true")
        assert door.page.evaluate(OUTSIDE) == []
    door.element('[data-key="view-why"]').click()
    door.scroll_to(DOOR)
    door.screenshot(f"{model}-{size[0]}")
    door.set_viewport(1280, 900)


def test_what_is_said_of_a_log_is_inside_on_a_phone(door):
    door.set_viewport(400, 800)
    submitted("align_budget.log")(door)
    expect(door.element(".wb-understood .wb-problem")).to_be_visible()
    assert door.page.evaluate(OUTSIDE) == []
    door.set_viewport(1280, 900)


def test_a_cell_between_two_sidebars_is_laid_out_as_on_a_phone(door):
    door.submit(LONG)
    expect(door.element('[data-chip="model"] > button')).to_have_text(LONG)
    shell = "window.jupyterapp.shell"
    door.page.set_viewport_size({"width": 1000, "height": 800})
    door.page.evaluate(f"{shell}.expandLeft(); {shell}.expandRight()")
    expect(door.element(f"{DOOR}.wb-narrow")).to_have_count(1)
    assert door.page.evaluate(OUTSIDE) == []
    assert door.page.evaluate(CUT) == []
    door.open_lab("Groups and capacity")
    slides = door.element(".wb-figure-note >> visible=true").filter(has_text="slide it sideways")
    expect(slides.first).to_be_visible()
    door.close_lab("Groups and capacity")
    door.page.evaluate(f"{shell}.collapseLeft(); {shell}.collapseRight()")
    door.set_viewport(1280, 900)
    expect(door.element(f"{DOOR}.wb-narrow")).to_have_count(0)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("chips", [8, 3])
def test_what_a_chip_opens_is_inside_wherever_the_chip_is(door, chips):
    """The last chips wrap to the left of the next line, or stand at the right."""
    door.element('[data-do="reset"]').click()
    door.submit("bamba-9b, 2 x H100, prefix caching" if chips == 3 else WRAPPED)
    expect(door.element('[data-chip="model"] > button')).to_have_text("bamba-9b")
    expect(door.element('[data-chip="async_scheduling"]')).to_have_count(int(chips != 3))
    for chip in ("all", "rules"):
        opener = door.element(f'[data-chip="{chip}"] > button')
        opener.click()
        expect(door.element(".wb-pop")).to_be_visible()
        box, pop = door.element(DOOR).bounding_box(), door.element(".wb-pop").bounding_box()
        assert box["x"] <= pop["x"]
        assert pop["x"] + pop["width"] <= box["x"] + box["width"]
        opener.press("Escape")
        expect(door.element(".wb-pop")).to_have_count(0)


NEXT_KEY = """key => {
  const row = document.activeElement.closest("[role=toolbar], [role=tablist]");
  const wanted = row?.querySelector(`[data-key="${key}"]`);
  if (!wanted) return "Tab";
  const position = document.activeElement.compareDocumentPosition(wanted);
  return position & Node.DOCUMENT_POSITION_FOLLOWING ? "ArrowRight" : "ArrowLeft";
}"""


def go_to(lab: LabPage, key: str) -> int:
    """Press Tab to the element with this key or to its row, there arrow keys; return how often."""
    for presses in range(MOST_PRESSES):
        if lab.page.evaluate("document.activeElement.dataset?.key") == key:
            return presses
        lab.press(lab.page.evaluate(NEXT_KEY, key))
    raise AssertionError(f"the keyboard does not reach {key}")


def type_in(lab: LabPage, text: str) -> None:
    """Put the keyboard into the omnibox, replace what is there, and press Enter."""
    lab.element('[data-key="omnibox"]').focus()
    lab.press("Control+a")
    lab.page.keyboard.insert_text(text)
    lab.press("Enter")


def test_the_keyboard_alone_gets_the_four_answers(door):
    type_in(door, "Qwen3-Next-80B, 4 x H100, fp8 KV, MTP 1, 32K")
    expect(door.element('[data-tile="why"]')).to_contain_text("tokens")
    expect(door.element('[data-tile="fits"]')).to_contain_text("32,768 tokens fit on 4 GPUs")
    go_to(door, "hits")
    door.press("Enter")
    expect(door.element('[data-key="view-hits"]')).to_have_attribute("aria-selected", "true")


def test_a_row_of_buttons_is_one_stop_of_the_tab_key(door):
    type_in(door, "Qwen3-Next-80B, 4 x H100")
    chips = door.element(".wb-chips > .wb-chip > button")
    expect(chips.nth(1)).to_have_text("H100")  # what is drawn later would take the focus
    assert go_to(door, "hits-fix") <= FEW_PRESSES
    chips.first.focus()
    for key, at in [("End", -1), ("Home", 0), ("ArrowLeft", 0), ("ArrowRight", 1)]:
        door.press(key)
        expect(chips.nth(at)).to_be_focused()
    door.press("Shift+Tab")
    door.press("Tab")
    expect(chips.nth(1)).to_be_focused()


def test_the_keyboard_alone_mends_a_log_and_copies_the_command(door):
    type_in(door, (LOGS / "align_budget.log").read_text(encoding="utf-8"))
    fix = door.element('.wb-understood [data-do="apply"]').first
    expect(fix).to_be_visible()
    go_to(door, fix.get_attribute("data-key"))
    door.press("Enter")
    expect(door.element('[data-tile="start"]')).not_to_contain_text("would not start")
    go_to(door, "copy-Copy vllm serve")
    door.press("Enter")
    expect(door.element('[data-key="copy-Copy vllm serve"]')).to_have_text("Copied")
    assert door.page.evaluate("navigator.clipboard.readText()").startswith("vllm serve")


def test_the_keyboard_alone_compares_versions_and_tries_a_block(door):
    type_in(door, "bamba-9b")
    go_to(door, "view-versions")
    door.press("Enter")
    expect(door.element('[data-region="body"]')).to_contain_text("0.33")
    door.element('[data-key="view-why"]').focus()
    door.press("Enter")
    go_to(door, "try")
    door.press("ArrowRight")
    expect(door.element('[data-region="tried"]')).to_contain_text("--block-size")
    expect(door.element('[data-key="try"]')).to_be_focused()


def test_what_a_key_takes_away_leaves_the_focus_to_what_is_in_its_place(door):
    type_in(door, "how many H200 for kimi-k2?")
    steps = [
        ('.wb-understood [data-do="apply"]', '[data-key="omnibox"]'),
        ('[data-key="pin-Pin as A"]', '[data-key="unpin-Unpin A"]'),
        ('[data-key="unpin-Unpin A"]', '[data-key="pin-Pin as A"]'),
        ('[data-do="undo"]:not([disabled])', '[data-do="undo"]'),
    ]
    for pressed, focused in steps:
        door.element(pressed).first.focus()
        door.press("Enter")
        expect(door.element(focused)).to_be_focused()
    door.element('[data-do="reset"]').click()


def test_the_keyboard_goes_to_the_control_that_an_answer_needs_and_back(door):
    door.submit(json.dumps(TORCHAO))
    door.submit("on B200")
    link = door.element('[data-key="fits-set Weights per rank"]')
    link.focus()
    door.press("Enter")
    expect(door.element('[data-key="chip-weights_bytes"]')).to_be_focused()
    door.press("Escape")
    expect(door.element('[data-chip="weights_bytes"]')).to_have_count(0)
    expect(link).to_be_focused()
    door.element('[data-do="reset"]').click()
    expect(link).to_have_count(0)


def test_what_is_drawn_meanwhile_does_not_keep_the_keyboard_from_what_was_opened(door):
    """An answer that comes late is drawn between a press and what it opens."""
    door.execute(DRAWS_FOR_A_WHILE)
    button = door.element('[data-key="open-device"]')
    for _turn in range(5):
        button.focus()
        door.press("Enter")
        expect(door.element('[data-key="chip-device"]')).to_be_focused()
        door.press("Escape")
        expect(door.element('[data-key="chip-device"]')).to_have_count(0)


def test_new_answers_and_matches_are_announced(door):
    live = door.element(f'{DOOR} [role="status"]')
    type_in(door, "bamba-9b")
    expect(live).to_contain_text("KV block:")
    before = live.text_content()
    type_in(door, "qwen3.5-4b")
    expect(live).not_to_have_text(before)
    # matches are announced while one types; the answer comes after them
    expect(live).to_contain_text("KV block:")
    box = door.element('[data-key="omnibox"]')
    box.fill("")
    box.press_sequentially("qwen3")
    expect(live).to_contain_text("models match")
    box.press("ArrowDown")
    chosen = box.get_attribute("aria-activedescendant")
    expect(door.page.locator(f"#{chosen}")).to_have_attribute("aria-selected", "true")
    box.press("Escape")
