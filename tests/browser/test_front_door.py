"""The front door in a real JupyterLab: paste or pick, and the right answers are on screen."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import workbench
from tests.browser.lab import DARK, LIGHT, LabPage, expect
from workbench.core.what_if.answers import answers
from workbench.door.explanations import VIEWS
from workbench.views.door.tiles import TILES

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "notebooks" / "00_start.ipynb"
LOGS = ROOT / "tests" / "data" / "logs"
DOOR = ".wb-door"
ERROR = ".wb-door .wb-error[data-workbench-error]"
COMMAND = (
    "vllm serve Qwen/Qwen3-Next-80B-A3B-Instruct -tp 4 --kv-cache-dtype fp8 "
    "--enable-prefix-caching --max-model-len 32768"
)
SCENARIO = workbench.Scenario(model="nemotron-3-nano-30b-a3b")
FIELDS = {"device": "H100", "model": "qwen3-next-80b-a3b", "kv_cache_dtype": "fp8"}
# The body of the function that every plan comes from is replaced, for every holder of the function.
PLANT = """
from workbench.core.resolve import resolve as _resolve
_kept = _resolve.__code__
def _planted(*args, **kwargs):
    raise RuntimeError("planted by a test")
_resolve.__code__ = _planted.__code__
"""
PULL_OUT = "_resolve.__code__ = _kept"
# The scenario is held by another thread until a file is there.
HELD = """
import os, threading, time
def _hold():
    while not os.path.exists({!r}):
        time.sleep(0.05)
    panel.session._lock.release()
panel.session._lock.acquire()
threading.Thread(target=_hold).start()
"""


def expect_answers(lab: LabPage, scenario: workbench.Scenario) -> None:
    """Expect the browser to show the library's four answers, and the picture of the same plan."""
    plan = workbench.resolve(scenario)
    found = answers(plan)
    expect(lab.element(DOOR)).to_have_attribute("data-plan", plan.fingerprint)
    for tile in TILES:
        shown = lab.element(f'{DOOR} [data-tile="{tile.view}"] .wb-tile-value')
        expect(shown).to_have_text(tile.value(found))
    picture = lab.element(f"{DOOR} .wb-page")
    if picture.count():
        expect(picture).to_have_attribute("data-plan", plan.fingerprint)
    expect(lab.element(f"{DOOR} .wb-page.wb-stale")).to_have_count(0)
    expect(lab.element(ERROR)).to_have_count(0)


def start_with(lab: LabPage, model: str) -> None:
    """Show a model with nothing else set, and wait for its answers."""
    lab.element('[data-do="reset"]').click()
    expect_answers(lab, workbench.Scenario())
    lab.submit(model)
    expect_answers(lab, workbench.Scenario(model=model))


@pytest.fixture(scope="module")
def door(shared_lab: LabPage) -> LabPage:
    """Return the notebook, run once, next to JupyterLab's file browser."""
    shared_lab.set_viewport(1280, 900)
    shared_lab.open(NOTEBOOK.name)
    shared_lab.run_all()
    expect(shared_lab.element(DOOR)).to_have_count(1)
    return shared_lab


def test_a_reader_sees_one_output_the_front_door(door):
    shown = door.page.locator(".jp-OutputArea-output >> visible=true")
    expect(shown).to_have_count(1)


def test_run_all_ends_with_answers_picture_and_next_steps_in_view(door):
    assert door.page.locator("#jp-left-stack").bounding_box()["width"] > 200
    door.page.wait_for_function(
        """() => {
          const at = (css) => document.querySelector(css).getBoundingClientRect();
          const screen = at(".jp-NotebookPanel-notebook"), last = at(".wb-door [data-region=next]");
          const steps = at(".wb-door .wb-steps"), room = at(".wb-door [data-region=body]");
          return screen.top <= at(".wb-door [data-key=omnibox]").top
            && steps.bottom <= room.bottom && last.height && last.bottom <= screen.bottom;
        }"""
    )


def test_the_first_answers_are_right(door):
    expect_answers(door, SCENARIO)


def test_a_pasted_command_gives_all_four_answers(door):
    door.set_field("device", "H100")
    door.submit(COMMAND)
    machine = {"device": "H100"}
    expected = workbench.from_vllm_command(COMMAND, **machine).scenario
    expect_answers(door, expected)
    expect(door.element('[data-tile="fits"]')).to_contain_text("requests of 32,768 tokens")


def test_what_is_pasted_into_an_empty_box_is_shown_without_a_click(door):
    box = door.element('[data-key="omnibox"]')
    box.click()
    paste = """(box) => {
      const data = new DataTransfer();
      data.setData("text/plain", "bamba-9b");
      box.dispatchEvent(new ClipboardEvent("paste", {clipboardData: data, bubbles: true}));
      box.value = "bamba-9b";
    }"""
    box.evaluate(paste)
    expect(door.element('[data-chip="model"] > button')).to_have_text("bamba-9b")


def test_the_omnibox_completes_a_model_by_keyboard(door):
    box = door.element('[data-key="omnibox"]')
    box.fill("")
    box.press_sequentially("qwen3")
    # hybrids first: many other models have these letters, too
    expect(door.element("[role=listbox] [role=option]").first).to_have_text("qwen3-next-80b-a3b")
    box.press_sequentially("next80")
    expect(door.element("[role=listbox] [role=option]").first).to_have_text("qwen3-next-80b-a3b")
    box.press("ArrowDown")
    box.press("Enter")
    expect(door.element('[data-chip="model"] > button')).to_have_text("qwen3-next-80b-a3b")


def test_fields_are_picked_and_undone(door):
    base = workbench.Scenario()
    door.element('[data-do="reset"]').click()
    for field, value in FIELDS.items():
        base = base.replace(**{field: value})
        door.set_field(field, value)
        expect_answers(door, base)
    for field in reversed(FIELDS):
        base = base.replace(**{field: getattr(workbench.Scenario(), field)})
        door.element('[data-do="undo"]').click()
        expect_answers(door, base)


def test_a_card_is_one_click_and_undo_takes_it_back(door):
    start_with(door, "qwen3-next-80b-a3b")
    before = door.element(DOOR).get_attribute("data-plan")
    door.element('[data-do="next"]').first.click()
    expect(door.element(DOOR)).not_to_have_attribute("data-plan", before)
    door.element('[data-do="undo"]').click()
    expect(door.element(DOOR)).to_have_attribute("data-plan", before)


def test_every_view_left_and_entered_again_is_of_the_present_scenario(door):
    door.submit(COMMAND)
    names = [
        one.get_attribute("data-arg") for one in door.element('[role="tab"][data-do="view"]').all()
    ]
    base = workbench.from_vllm_command(COMMAND, device="H100").scenario
    door.set_field("device", "H100")
    for number, name in enumerate(names * 2):
        door.element(f'[role="tab"][data-arg="{name}"]').click()
        expect(door.element(f'[role="tab"][data-arg="{name}"]')).to_have_attribute(
            "aria-selected", "true"
        )
        size = (1, 2, 4, 8)[number % 4]
        door.set_field("tensor_parallel", size)
        expect_answers(door, base.replace(tensor_parallel=size))
    door.element('[role="tab"][data-arg="why"]').click()


def test_the_inspector_says_where_a_part_comes_from(door):
    start_with(door, "qwen3.5-4b")
    door.element('[role="tab"][data-arg="why"]').click()
    door.element('.wb-door li[data-part="recurrent"]').hover()
    shown = door.element('[data-about="part-recurrent"]')
    expect(shown).to_be_visible()
    expect(shown).to_contain_text("MambaSpec")
    expect(shown).to_contain_text("32 x 128 x 128 x 4 bytes of float32")
    expect(shown).to_contain_text("linear_num_value_heads")
    door.element(".wb-door li[data-step]").first.focus()
    expect(shown).to_be_hidden()
    expect(door.element(".wb-inspector section:not([hidden])")).to_contain_text("bytes")


def test_a_fatal_log_shows_cause_and_fix_and_the_fix_is_one_click(door):
    door.submit((LOGS / "align_budget.log").read_text(encoding="utf-8"))
    expect(door.element(".wb-understood")).to_contain_text("fatal error")
    expect(door.element('[data-tile="start"]')).to_contain_text("would not start")
    door.element('.wb-understood [data-do="apply"]').first.click()
    expect(door.element('[data-tile="start"]')).not_to_contain_text("would not start")


def test_a_start_up_log_is_read(door):
    door.submit((LOGS / "whole_start_0_23.log").read_text(encoding="utf-8"))
    expect(door.element(".wb-understood")).to_contain_text("agree with the rules, 0 not")
    expect(door.element('[data-tile="why"]')).to_contain_text("1,056 tokens")


def test_a_mistake_is_answered_and_changes_nothing(door):
    before = door.element(DOOR).get_attribute("data-plan")
    door.submit("a poem about the sea")
    expect(door.element('[data-region="understood"] .wb-problem')).to_be_visible()
    assert door.element(DOOR).get_attribute("data-plan") == before


@contextmanager
def planted_error(lab: LabPage) -> Iterator[None]:
    """Let every resolution in the notebook's kernel raise meanwhile."""
    lab.execute(PLANT)
    try:
        yield
    finally:
        lab.execute(PULL_OUT)


def test_an_unhandled_error_is_shown_and_the_answers_are_marked_stale(door):
    with planted_error(door):
        door.submit("llama-3.1-8b")
        expect(door.element(ERROR)).to_contain_text("RuntimeError: planted by a test")
        expect(door.element('[data-region="answers"].wb-stale')).to_have_count(1)
    door.submit("bamba-9b")
    expect(door.element(ERROR)).to_have_count(0)
    expect(door.element(".wb-door .wb-stale")).to_have_count(0)


PACE_MS = 150
"""Between the keys of a person: an answer to the first one may come before the second."""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("end", ["Enter", "Tab"])
def test_what_keys_leave_in_a_list_or_a_text_is_taken(door, end):
    start_with(door, "qwen3.5-4b")
    for field, keys, text in (
        ("tensor_parallel", ["ArrowDown", "ArrowDown"], "TP 4"),
        ("length", "64k", "64k-token requests"),
        ("device", "h200", "H200"),
        ("model", "bamba", "bamba-9b"),
    ):
        chip = door.element(f'[data-chip="{field}"] > button')
        chip.focus()
        door.press("Enter")
        control = door.element(f'[data-key="chip-{field}"]')
        expect(control).to_be_focused()
        before = chip.text_content()
        for key in keys:
            door.page.keyboard.press(key, delay=PACE_MS)
        expect(chip).to_have_text(before)
        door.press(end)
        expect(chip).to_have_text(text)
        expect(chip).to_be_focused()


def test_what_keys_leave_in_a_list_is_dropped_with_escape(door):
    start_with(door, "qwen3.5-4b")
    chip = door.element('[data-chip="tensor_parallel"] > button')
    chip.focus()
    door.press("Enter")
    control = door.element('[data-key="chip-tensor_parallel"]')
    expect(control).to_be_focused()
    door.press("ArrowDown")
    door.press("Escape")
    expect(control).to_have_count(0)
    expect(chip).to_be_focused()
    expect(chip).to_have_text("TP 1")


@pytest.mark.parametrize("theme", [DARK, LIGHT])
def test_both_themes(door, theme):
    door.submit(COMMAND)
    door.element('[role="tab"][data-arg="why"]').click()
    name = theme.split()[-1].lower()
    door.set_theme(theme)
    door.scroll_to(DOOR)
    door.screenshot(f"front-door-{name}")
    for css in (".wb-tile-value", ".wb-tile-words", ".wb-card b", ".wb-page .wb-faint"):
        assert door.element(f"{DOOR} {css} >> nth=0").evaluate("inPage.contrast") >= 4.5


@pytest.mark.parametrize(
    "text",
    [
        "why 1056?",
        *(pytest.param(text, marks=pytest.mark.thorough) for text in (COMMAND, "TP or fp8?")),
    ],
)
def test_answers_explanation_and_next_steps_are_on_one_screen_in_every_view(door, text):
    door.set_viewport(1280, 900)
    door.submit(COMMAND)
    expect(door.element('[data-chip="num_speculative_tokens"] > button')).to_have_text(
        "no speculation"
    )
    door.submit(text)
    said = "A command: qwen3-next-80b-a3b, Tensor parallel 4" if text == COMMAND else "A question"
    expect(door.element(".wb-understood")).to_contain_text(said)
    screen = door.page.locator(".jp-NotebookPanel-notebook >> visible=true").bounding_box()
    for name in VIEWS:
        door.element(f'[data-key="view-{name}"]').click()
        expect(door.element(f'[data-key="view-{name}"]')).to_have_attribute("aria-selected", "true")
        door.scroll_to(DOOR)
        last = door.element('[data-region="next"]').bounding_box()
        assert last["y"] + last["height"] <= screen["y"] + screen["height"], name
    door.element('[data-key="view-why"]').click()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("chip", ["all", "device"])
def test_on_a_phone_what_a_chip_opens_is_a_sheet_inside_the_screen(door, chip):
    door.hide_sidebar()
    door.set_viewport(400, 800)
    opened = door.element(f'[data-chip="{chip}"] > button')
    opened.click()
    sheet = door.element(".wb-pop")
    expect(sheet).to_be_visible()
    screen = door.page.locator(".jp-NotebookPanel-notebook >> visible=true").bounding_box()
    box = sheet.bounding_box()
    for start, size in (("x", "width"), ("y", "height")):
        assert screen[start] <= box[start]
        assert box[start] + box[size] <= screen[start] + screen[size]
    door.press("Escape")
    expect(opened).to_have_attribute("aria-expanded", "false")
    door.set_viewport(1280, 900)


def test_the_first_word_of_the_kernel_is_answered_so_that_the_next_is_not_held(door):
    door.execute("heard = []; panel.view.on_msg(lambda _view, sent, _: heard.append(sent['do']))")
    start_with(door, "bamba-9b")
    # the cell that listens is answered, too, if its own first word comes late
    from_reset = door.execute("print(heard[heard.index('reset'):])").strip()
    assert from_reset == "['reset', 'heard', 'submit', 'heard']"


def test_what_takes_long_has_a_sign_until_it_is_answered(door, tmp_path):
    start_with(door, "bamba-9b")
    sign, working = f"{DOOR}.wb-busy", "(one) => getComputedStyle(one, '::after').content"
    opened = tmp_path / "opened"
    door.execute(HELD.format(str(opened)))
    door.element('[data-key="submit"]').click()
    expect(door.element(sign)).to_have_attribute("aria-busy", "true")
    assert door.element(f"{sign} .wb-omnibox").evaluate(working) == '"Working ..."'
    opened.touch()
    expect(door.element(sign)).to_have_count(0)
    expect_answers(door, workbench.Scenario(model="bamba-9b"))


def test_no_callback_failed_unnoticed(door):
    errors = json.loads(door.execute("import json; print(json.dumps(len(panel.session.errors)))"))
    assert errors == 1  # the planted one
    assert door.kernel_errors() == ()


def test_a_drawing_between_press_and_release_loses_no_click(door):
    """The button under the pointer is replaced by a new one while it is pressed."""
    start_with(door, "qwen3.5-4b")
    before = door.element(DOOR).get_attribute("data-plan")
    door.element('[data-chip="all"] > button').hover()
    door.page.mouse.down()
    door.page.evaluate(
        """() => document.querySelector('.jp-OutputArea-output [data-key="omnibox"]').focus()"""
    )
    door.element('[data-key="omnibox"]').fill("bamba-9b")
    door.element('[data-key="omnibox"]').press("Enter")
    door.page.wait_for_timeout(1500)
    assert door.element(DOOR).get_attribute("data-plan") == before
    door.page.mouse.up()
    expect(door.element(DOOR)).not_to_have_attribute("data-plan", before)
    expect(door.element('[data-chip="all"] > button')).to_have_attribute("aria-expanded", "true")
    door.press("Escape")
