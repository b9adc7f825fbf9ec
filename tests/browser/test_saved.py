"""A saved notebook: every answer reads without its kernel, and nothing runs until a person does."""

import json

import workbench
from tests.browser.lab import expect
from workbench.ui.saved import HOW_TO_CHANGE

CELLS = [
    "import workbench as wb\npanel = wb.explore(model='qwen3-next-80b-a3b', device='H100')\npanel",
    "wb.lab.capacity(panel)",
    "wb.lab.export(panel)",
]
BARS_AND_FIGURES = 3
KEPT = ".wb-saved >> visible=true"
AFTER = "TP 2"
NOT_FOUND = "widget model not found"
"""In the console for every widget of a kernel that is gone."""


def expect_pictures(lab, block_size: int) -> None:
    """Expect the answers in words and pictures, and no output with an error in place of them."""
    shown = lab.page.locator(".jp-OutputArea-output:visible:has(.wb)")
    expect(shown).to_have_count(len(CELLS))
    expect(shown.first).to_contain_text(f"{block_size:,} tokens per KV-cache block")
    expect(shown.first).to_contain_text(HOW_TO_CHANGE)
    expect(shown.first.locator(".wb-learn")).to_contain_text("lesson 1")
    expect(shown.last).to_contain_text("vllm serve")
    pictures = shown.locator("img[alt]")
    expect(pictures).to_have_count(BARS_AND_FIGURES)
    for number in range(BARS_AND_FIGURES):
        picture = pictures.nth(number)
        assert picture.evaluate("one => one.decode().then(() => one.naturalWidth)") >= 900
        assert picture.evaluate("one => one.alt.length") > 40
    assert "Error displaying widget" not in lab.page.locator("body").inner_text()


def test_a_saved_notebook_shows_pictures_trusted_or_not_and_can_be_run(lab):
    """What was changed after the cells were run is in the pictures, too."""
    plan = workbench.resolve(model="qwen3-next-80b-a3b", device="H100", tensor_parallel=2)
    place = lab.server.root / lab.server.write_notebook("saved.ipynb", CELLS)
    lab.open(place.name)
    lab.run_all()
    expect(lab.element(".wb-door")).to_be_visible()
    expect(lab.element(KEPT)).to_have_count(0)
    lab.submit("TP 2")
    lab.element('[data-key="omnibox"]').focus()
    for kept in lab.element(".wb-saved").all():
        expect(kept).to_contain_text(AFTER)
    expect(lab.element('[data-key="omnibox"]')).to_be_focused()
    expect(lab.element(KEPT)).to_have_count(0)
    lab.page.evaluate("inPage.save()")
    lab.page.evaluate("inPage.stopKernel()")
    saved = json.loads(place.read_text(encoding="utf-8"))
    saved["cells"][0]["source"] += "\n"  # from another machine: no signature fits
    other = place.with_name("from_elsewhere.ipynb")
    other.write_text(json.dumps(saved), encoding="utf-8")

    for name in (other.name, place.name):
        lab.open(name)
        expect_pictures(lab, plan.block_size)
        lab.screenshot(f"saved-{name}")
    lab.run_all()
    first = workbench.resolve(model=plan.scenario.model, device="H100")
    expect(lab.element(".wb-door")).to_have_attribute("data-plan", first.fingerprint)
    expect(lab.element(KEPT)).to_have_count(0)
    lab.console_errors[:] = [line for line in lab.console_errors if NOT_FOUND not in line]
