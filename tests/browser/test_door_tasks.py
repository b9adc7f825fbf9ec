"""What people come for, counted: a paste, a click, or the choice of a value is one action."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import workbench
from tests.browser.lab import LabPage, expect
from workbench.core.what_if.answers import answers
from workbench.door.explanations import VIEWS
from workbench.door.regions import View, body
from workbench.views.door.tiles import TILES

LOGS = Path(__file__).parents[1] / "data" / "logs"
START = "import workbench as wb\npanel = wb.explore()\npanel"
COMMAND = (
    "vllm serve Qwen/Qwen3-Next-80B-A3B-Instruct -tp 4 --kv-cache-dtype fp8 "
    """--speculative-config '{"method": "mtp", "num_speculative_tokens": 1}' # 4 x H100, 32K"""
)
WANTED = {
    "model": "qwen3-next-80b-a3b",
    "device": "H100",
    "tensor_parallel": 4,
    "kv_cache_dtype": "fp8",
    "num_speculative_tokens": 1,
}
LENGTH = 32_768
CHANGES, RETURNS = 1000, 20
MODELS = ("qwen3-next-80b-a3b", "bamba-9b", "qwen3.5-4b")
WORDS = """html => {
  const page = document.createElement("div");
  page.innerHTML = html;
  for (const one of page.querySelectorAll("[data-region=tried]")) one.remove();
  return page.textContent.replace(/\\s+/g, " ").trim();
}"""
NEXT_IS_IN_VIEW = """() => {
    const end = (css) => document.querySelector(css).getBoundingClientRect().bottom;
    return end('[data-region="next"]') <= end(".jp-NotebookPanel-notebook");
}"""
KEPT_MS = 1_600
"""After a change; see KEPT_MS of front_door.js."""
MOST_GROWTH_BYTES = 50 * 2**20
HEAP = """async () => {
  for (let i = 0; i < 3; i++) { gc(); await new Promise((done) => setTimeout(done, 100)); }
  return performance.memory.usedJSHeapSize;
}"""
CHANGE_MANY = """async ([count, views]) => {
  const door = document.querySelector(".wb-door");
  const redrawn = (act) => new Promise((done) => {
    const before = door.dataset.plan;
    const watched = new MutationObserver(() => {
      if (door.dataset.plan === before) return;
      watched.disconnect();
      done();
    });
    watched.observe(door, { attributes: true, attributeFilter: ["data-plan"] });
    act();
  });
  for (let i = 0; i < count; i++) {
    door.querySelector(`[data-key="${views[i % views.length]}"]`).click();
    await new Promise((done) => setTimeout(done));
    await redrawn(() => {
      const box = door.querySelector('[data-key="omnibox"]');
      box.value = `tp ${2 ** (i % 4)}, ${i % 8 < 4 ? "kv fp8" : "kv auto"}, H100, qwen3.5-4b`;
      door.querySelector('[data-key="submit"]').click();
    });
  }
}"""
RESIDENT = (
    "import os, gc, psutil; gc.collect(); print(psutil.Process(os.getpid()).memory_info().rss)"
)


class Person:
    """Counts what a person does on the page."""

    def __init__(self, lab: LabPage) -> None:
        self.lab = lab
        self.actions = 0

    def paste(self, text: str) -> None:
        """Paste a text into the omnibox, from the clipboard, and press nothing else."""
        self.actions += 1
        self.lab.page.evaluate("text => navigator.clipboard.writeText(text)", text)
        box = self.lab.element('[data-key="omnibox"]')
        box.fill("")
        box.press("Control+v")

    def choose(self, chip: str, value: object) -> None:
        """Open a chip, and choose or write a value."""
        self.actions += 1
        self.lab.element(f'[data-key="open-{chip}"]').click()
        control = self.lab.element(f'[data-key="chip-{chip}"]')
        control.focus()
        if control.evaluate("one => one.tagName") == "SELECT":
            control.select_option(value=json.dumps(value))
        else:
            control.fill(str(value))
            control.press("Enter")
        expect(control).to_have_count(0)

    def click(self, css: str) -> None:
        """Click."""
        self.actions += 1
        self.lab.element(css).first.click()


@pytest.fixture(scope="module")
def lab(shared_lab: LabPage) -> LabPage:
    """Return a notebook with an empty front door."""
    shared_lab.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    shared_lab.set_viewport(1280, 900)
    shared_lab.open(shared_lab.server.write_notebook("tasks.ipynb", [START]))
    shared_lab.run_all()
    shared_lab.hide_sidebar()
    return shared_lab


@pytest.fixture
def person(lab) -> Person:
    """Return a user of an empty front door."""
    lab.element('[data-do="reset"]').click()
    expect_answers(lab, workbench.Scenario())
    lab.element('[data-key="view-why"]').click()
    return Person(lab)


def expect_answers(lab: LabPage, scenario: workbench.Scenario, length: int | None = None) -> None:
    """Expect the four answers of a scenario on the page, of this very plan."""
    plan = workbench.resolve(scenario)
    expect(lab.element(".wb-door")).to_have_attribute("data-plan", plan.fingerprint)
    for tile in TILES:
        shown = lab.element(f'[data-tile="{tile.view}"] .wb-tile-value')
        expect(shown).to_have_text(tile.value(answers(plan, length)))


def test_a_pasted_command_answers_everything(person):
    person.paste(COMMAND)
    scenario = workbench.Scenario(**WANTED, speculative_method="mtp")
    expect_answers(person.lab, scenario, LENGTH)
    assert "?" not in person.lab.text('[data-tile="fits"]')
    assert person.actions == 1


def test_by_hand_six_actions_answer_everything(person):
    for chip, value in WANTED.items():
        person.choose(chip, value)
    person.choose("length", "32K")
    expect_answers(person.lab, workbench.Scenario(**WANTED), LENGTH)
    assert person.actions <= 6


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["align_budget", "pipeline_command", "models_max_seq_0_11"])
def test_after_a_log_the_next_steps_are_in_view_next_to_a_sidebar(person, name):
    person.lab.page.evaluate("window.jupyterapp.shell.expandLeft()")
    person.paste((LOGS / f"{name}.log").read_text(encoding="utf-8"))
    expect(person.lab.element(".wb-understood .wb-problem")).to_be_visible()
    person.lab.scroll_to(".wb-door")
    person.lab.page.wait_for_function(NEXT_IS_IN_VIEW)
    cause = person.lab.element(".wb-understood .wb-problem").first
    assert cause.evaluate("one => one.closest('[data-region]').scrollTop") == 0
    person.lab.hide_sidebar()


def test_a_fatal_log_is_mended_and_its_command_copied(person):
    person.paste((LOGS / "align_budget.log").read_text(encoding="utf-8"))
    expect(person.lab.element(".wb-understood")).to_contain_text("fatal error")
    person.click('.wb-understood [data-do="apply"]')
    expect(person.lab.element('[data-tile="start"]')).not_to_contain_text("would not start")
    person.click('[data-key="copy-corrected"]')
    expect(person.lab.element('[data-key="copy-corrected"]')).to_have_text("Copied")
    copied = person.lab.page.evaluate("navigator.clipboard.readText()")
    assert workbench.resolve(workbench.from_vllm_command(copied).scenario).errors == ()
    assert person.actions == 3
    person.click('[data-do="reset"]')
    expect(person.lab.element('[data-key="omnibox"]')).to_have_value("")
    expect(person.lab.element('[data-region="understood"]')).to_be_empty()


def test_the_keyboard_goes_on_where_a_fix_is(person):
    person.paste("Qwen3-Next-80B, 4 x H100")
    fix = person.lab.element('[data-key="hits-fix"]')
    fix.focus()
    person.lab.press("Enter")
    card = person.lab.element('[data-key="next-0"]')
    expect(card).to_be_focused()
    expect(card).to_contain_text("Prefix caching on")
    person.lab.press("Enter")
    expect(person.lab.element('[data-tile="hits"]')).to_contain_text("shortest prompt that can hit")


def test_what_another_version_makes_of_my_model(person):
    person.paste("bamba-9b")
    person.click('[data-key="view-versions"]')
    expect(person.lab.element('[data-region="body"]')).to_contain_text("0.23")
    expect(person.lab.element('[data-region="body"]')).to_contain_text("0.33")
    assert person.actions <= 3


def test_more_gpus_or_fewer_bits(person):
    person.paste("Qwen3-Next-80B, 4 x H100")
    fp8 = person.lab.element(".wb-card").filter(has_text="KV-cache dtype fp8")
    expect(fp8).to_contain_text("requests per GPU instead of")
    person.click('[data-do="pin"]')
    person.choose("tensor_parallel", 8)
    scenario = workbench.Scenario(model="qwen3-next-80b-a3b", device="H100", tensor_parallel=4)
    before = answers(workbench.resolve(scenario))
    for tile in TILES:
        expect(person.lab.element(f'[data-pinned="{tile.view}"]')).to_contain_text(
            f"A: {tile.value(before)}"
        )
    expect(person.lab.element(".wb-other")).to_contain_text("A: Tensor parallel 4")
    assert person.actions <= 3
    person.lab.element('[data-do="unpin"]').click()


def test_the_smallest_prompt_that_hits(person):
    person.paste("Qwen3-Next-80B, 4 x H100, prefix caching")
    plan = workbench.resolve(
        model="qwen3-next-80b-a3b", device="H100", tensor_parallel=4, enable_prefix_caching=True
    )
    expected = f"{answers(plan).hit_tokens:,} tokens"
    expect(person.lab.element('[data-tile="hits"] .wb-tile-value')).to_have_text(expected)
    assert person.actions == 1


def test_which_backends_a_gpu_has_and_why_not_the_others(person):
    person.paste("which backends for Qwen3-Next-80B on 4 x B200 and why not the others?")
    person.click('.wb-understood [data-do="show_lab"]')
    shown = person.lab.element(".wb-tab >> visible=true").first
    plan = workbench.resolve(model="qwen3-next-80b-a3b", device="B200", tensor_parallel=4)
    expect(shown).to_contain_text(f"▸ {plan.block_size:,} / {plan.kernel_block_size}")
    (why,) = workbench.resolve(plan.scenario.replace(backend="FLEX_ATTENTION")).errors
    expect(shown).to_contain_text(f"FLEX_ATTENTION: {why.message.split('. ')[0]}")
    assert person.actions <= 3
    person.lab.close_lab("Backends by TP")


def test_what_byte_123456_is(person):
    person.paste("Qwen3-Next-80B, 4 x H100")
    person.click('[data-tile="why"] [data-do="show_lab"]')
    person.actions += 1
    person.lab.set_value("Look up byte", 123456)
    expect(person.lab.element(".wb-tab >> visible=true").first).to_contain_text("123,456")
    assert person.actions <= 3
    person.lab.close_lab("Page bytes")


def test_a_number_leads_to_its_step_and_to_the_part_of_the_picture(person):
    person.paste("Qwen3-Next-80B, 4 x H100, prefix caching")
    person.click('[data-key="hits"]')
    person.click('[data-region="body"] [data-do="step"]:has-text("Block size")')
    step = person.lab.element('[data-region="body"] details li:focus')
    expect(step).to_contain_text("Block size")
    shown = person.lab.element(".wb-inspector section:not([hidden])")
    expect(shown).to_contain_text("Block size")
    shown.locator('[data-do="step"]').first.click()
    expect(shown).not_to_contain_text("Block size: ")
    person.lab.element('[data-region="body"] rect[data-part="recurrent"]').first.hover()
    expect(person.lab.element('li[data-part="recurrent"].wb-lit')).to_have_count(1)
    expect(person.lab.element("li[data-step].wb-lit").first).to_be_visible()


def test_a_dragged_block_is_tried_and_the_scenario_stays(person):
    person.paste("Qwen3-Next-80B, 4 x H100")
    present = {"model": "qwen3-next-80b-a3b", "device": "H100", "tensor_parallel": 4}
    expect_answers(person.lab, workbench.Scenario(**present))
    slider = person.lab.element('[data-key="try"]')
    before = person.lab.element(".wb-door").get_attribute("data-plan")
    box = slider.bounding_box()
    middle = box["y"] + box["height"] / 2
    mouse = person.lab.page.mouse
    mouse.move(box["x"] + box["width"] / 2, middle)
    mouse.down()
    mouse.move(box["x"] + box["width"] * 0.9, middle, steps=10)
    expect(person.lab.element('[data-region="tried"] .wb-page')).to_be_visible()
    mouse.up()
    tried = int(slider.input_value())
    expect(person.lab.element('[data-region="tried"]')).to_contain_text(f"--block-size {tried}:")
    expect(person.lab.element(".wb-door")).to_have_attribute("data-plan", before)
    person.click('[data-region="tried"] [data-do="apply"]')
    expect_answers(person.lab, workbench.Scenario(**present, block_size=tried))


def test_a_link_restores_the_scenario(person):
    person.paste("bamba-9b, 2 x H100")
    expect(person.lab.element('[data-tile="fits"]')).to_contain_text("2 GPUs")
    person.click('[data-key="copy-Copy link"]')
    expect(person.lab.element('[data-key="copy-Copy link"]')).to_have_text("Copied")
    link = person.lab.page.evaluate("navigator.clipboard.readText()")
    assert "token" not in link
    person.click('[data-do="reset"]')
    expect_answers(person.lab, workbench.Scenario())
    person.paste(link)
    scenario = workbench.Scenario(model="bamba-9b", device="H100", tensor_parallel=2)
    expect_answers(person.lab, scenario)


def test_a_second_view_shows_the_same_and_follows(lab):
    command = "notebook:create-output-view"
    lab.page.evaluate("window.jupyterapp.shell.currentWidget.content.activeCellIndex = 0")
    lab.page.evaluate(f"window.jupyterapp.commands.execute('{command}')")
    doors = lab.page.locator(".wb-door")
    expect(doors).to_have_count(2)
    doors.nth(1).locator('[data-key="omnibox"]').fill("bamba-9b")
    doors.nth(1).locator('[data-key="submit"]').click()
    for number in range(2):
        chip = doors.nth(number).locator('[data-chip="model"] > button')
        expect(chip).to_have_text("bamba-9b")
    named = ".wb-door [id]:not(pattern)"
    ids = lab.page.eval_on_selector_all(named, "all => all.map((one) => one.id)")
    assert len(ids) == len(set(ids))
    lab.page.evaluate("window.jupyterapp.shell.currentWidget.close()")
    lab.page.evaluate("window.jupyterapp.commands.execute('application:activate-next-tab')")


def measured(lab: LabPage) -> tuple[int, int]:
    """Return the bytes of the page's heap, and those that the kernel's process holds."""
    return lab.page.evaluate(HEAP), int(lab.execute(RESIDENT))


@pytest.mark.soak
def test_every_view_left_and_entered_again_draws_the_numbers_of_its_scenario(lab):
    lab.element('[data-do="reset"]').click()
    plan, names = workbench.resolve(), tuple(VIEWS)
    for number in range(RETURNS):
        for view in names:
            tab = lab.element(f'[data-key="view-{view}"]')
            tab.click()
            if view == names[number % len(names)]:  # the scenario changes in every view
                name, size = MODELS[number % len(MODELS)], 2 ** (number % 4)
                lab.submit(f"{name}, H100, tp {size}")
                plan = workbench.resolve(model=name, device="H100", tensor_parallel=size)
            expect(tab).to_have_attribute("aria-selected", "true")
            expect(lab.element(".wb-door")).to_have_attribute("data-plan", plan.fingerprint)
            expected = lab.page.evaluate(WORDS, str(body(View(view=view), plan)))
            shown = lab.element('[data-region="body"]').evaluate("one => one.innerHTML")
            assert lab.page.evaluate(WORDS, shown) == expected, f"{plan.scenario}: {view}"


@pytest.mark.soak
def test_a_thousand_changes_leave_nothing_in_the_browser_or_in_the_kernel(lab):
    views = [one.get_attribute("data-key") for one in lab.element("[role=tab]").all()]
    lab.page.evaluate(CHANGE_MANY, [len(views) * 4, views])
    before = measured(lab)
    lab.page.evaluate(CHANGE_MANY, [CHANGES, views])
    after = measured(lab)
    growth = [new - old for new, old in zip(after, before, strict=True)]
    assert max(growth) < MOST_GROWTH_BYTES, f"heap and kernel grew by {growth} bytes"


def test_without_scripts_and_styles_the_saved_output_reads_well(browser_context):
    plan = workbench.resolve(model="qwen3-next-80b-a3b", device="H100", tensor_parallel=4)
    saved = workbench.explore(plan)._repr_mimebundle_()["text/html"]
    page = browser_context.browser.new_context(java_script_enabled=False).new_page()
    page.set_content(re.sub(r"<style>.*?</style>", "", saved, flags=re.DOTALL))
    text = " ".join(page.locator("body").inner_text().split())
    assert f"{plan.block_size:,} tokens per KV-cache block of qwen3-next-80b-a3b" in text
    assert not re.search(r"\d (?:B|tokens)[A-Za-z]", text)
    assert page.locator("img[alt]").count() >= 2
    page.context.close()


def test_after_a_restart_one_sentence_says_what_to_do(lab):
    lost = lab.element(".wb-door .wb-lost")
    expect(lost).to_be_hidden()
    answers = lab.element(".wb-door [data-region=answers]")
    before = answers.inner_text()
    lab.element('[data-key="next-0"]').click()
    expect(answers).not_to_have_text(before, use_inner_text=True)
    lab.page.evaluate(
        "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()"
    )
    expect(lost).to_be_visible()
    expect(lost).to_have_text("The kernel has restarted. Run this cell again.")
    icon = "getComputedStyle(document.querySelector('.jupyter-widgets-disconnected'), '::before')"
    assert lab.page.evaluate(f"{icon}.display") == "none"
    lab.page.wait_for_timeout(KEPT_MS)  # when a page asks for the picture of what has changed
    lab.page.evaluate("inPage.ready()")
    lab.run_all()
    expect(lab.element(".wb-door .wb-lost")).to_be_hidden()
    expect_answers(lab, workbench.Scenario())
