"""Labs in a cell of their own, in a real JupyterLab: they follow, stay, answer, and close."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

import workbench
from tests.browser.lab import DARK, LIGHT, LabPage, expect
from tests.browser.test_figures import HELPERS, expect_present_figures
from workbench.door.labs import LESSON

START = {
    "model": "qwen3-next-80b-a3b",
    "kv_cache_memory_bytes": 33_000_000_000,
    "enable_prefix_caching": True,
}
CELLS = [
    f"import workbench as wb\npanel = wb.explore(**{START!r})\npanel",
    "labs = [wb.lab.bytes(panel), wb.lab.hits(panel), wb.lab.capacity(panel.plan)]",
    "display(*labs)",
]
OVERLAPS = """() => [...document.querySelectorAll(".wb-tab .js-plotly-plot")].flatMap((plot) => {
  const texts = [...plot.querySelectorAll(".heatmap-label text")];
  const boxes = texts.map((one) => [one.textContent, one.getBoundingClientRect()]);
  const across = (a, b) => a.left < b.right && b.left < a.right;
  const meet = (a, b) => across(a, b) && a.top < b.bottom && b.top < a.bottom;
  return boxes.flatMap(([text, box], at) =>
    boxes.slice(at + 1).filter(([, one]) => meet(box, one)).map(([other]) => `${text} ${other}`));
})"""
CUT = """() => [...document.querySelectorAll(".wb-tab .js-plotly-plot")].flatMap((plot) => {
  const whole = plot.querySelector(".main-svg").getBoundingClientRect();
  const texts = [...plot.querySelectorAll(".gtitle, .xtitle, .ytitle, .legendtext")];
  const isCut = ({ left, right }) => left < whole.left || right > whole.right;
  return texts.filter((one) => isCut(one.getBoundingClientRect())).map((one) => one.textContent);
})"""
LAB, ROOTS = ".wb-panel.wb-tab", "*[one.widget for one in labs]"
CHANGES = 20


@pytest.fixture(scope="module")
def page(shared_lab: LabPage) -> LabPage:
    shared_lab.set_viewport(1280, 1100)
    shared_lab.open(shared_lab.server.write_notebook("labs.ipynb", CELLS))
    shared_lab.run_all()
    shared_lab.hide_sidebar()
    shared_lab.execute(HELPERS)
    shared_lab.element(LAB).first.evaluate("one => one.scrollIntoView({block: 'start'})")
    return shared_lab


@pytest.mark.thorough
def test_labs_follow_the_front_door_or_are_pinned(page):
    heads = page.element(LAB)
    for number, words in enumerate(("follows the front door", "follows the front door", "pinned")):
        expect(heads.nth(number)).to_contain_text(words)
    for number in range(CHANGES):
        fields = {"tensor_parallel": 2 + 2 * (number % 2), "max_model_len": 65_536 + 16 * number}
        page.execute(f"panel.session.replace(**{fields!r})")
        if number % 5 == 4:
            assert expect_present_figures(page, ROOTS, LAB) == 4
            expect(heads.nth(0)).to_contain_text(f"TP {fields['tensor_parallel']}, ")
    assert "max model len" in heads.nth(0).inner_text()
    assert "max model len" not in heads.nth(2).inner_text()
    assert page.execute("print([one.session.errors for one in labs])").strip() == "[[], [], []]"
    assert page.kernel_errors() == ()


@pytest.mark.thorough
def test_on_a_phone_no_text_of_a_figure_is_cut_or_covers_another(page):
    page.set_viewport(400, 800)
    page.execute("panel.session.replace(tensor_parallel=2, max_model_len=None)")
    assert expect_present_figures(page, ROOTS, LAB) == 4
    assert page.page.evaluate(OVERLAPS) == []
    assert page.page.evaluate(CUT) == []
    page.choose("Level", "head")  # the longest title
    assert expect_present_figures(page, ROOTS, LAB) == 4
    assert page.page.evaluate(CUT) == []
    page.choose("Level", "block")
    page.set_viewport(1280, 1100)


def test_what_a_byte_is_takes_one_number_and_the_picture_goes_there(page):
    page.execute("panel.session.replace(tensor_parallel=1, max_model_len=None)")
    page.set_value("Look up byte", "123,456")
    pool = workbench.resolve(**START).byte_map()
    found = pool.at(0, 123_456)
    meanings = {str(meaning.token) for meaning in found.meanings if meaning.token is not None}
    facts = page.element(f"{LAB} td")
    expect(page.element(LAB).first).to_contain_text("Byte 123,456 of tensor 0")
    assert meanings <= {*facts.all_inner_texts()}
    assert expect_present_figures(page, ROOTS, LAB) == 4
    expect(page.element(f"{LAB} .shapelayer path")).to_have_count(1)


def test_the_byte_under_the_cursor_is_read_and_a_click_opens_it(page):
    page.choose("Level", "block")
    assert expect_present_figures(page, ROOTS, LAB) == 4
    area = page.element(f"{LAB} .nsewdrag").first.bounding_box()
    x, y = area["x"] + 0.7 * area["width"], area["y"] + 0.4 * area["height"]
    page.page.mouse.move(x - 3, y)
    page.page.mouse.move(x, y)
    expect(page.element(LAB).first).to_contain_text("Under the cursor:")
    page.page.mouse.click(x, y)
    expect(page.element(LAB).first.locator(".jupyter-button.mod-active")).to_have_text("token")
    assert expect_present_figures(page, ROOTS, LAB) == 4
    shown = page.execute("print(labs[0].panel._clicked_byte)")
    expect(page.element(LAB).first).to_contain_text(f"Byte {int(shown):,} of tensor 0")
    assert page.kernel_errors() == ()


def test_the_tables_of_a_lab_are_saved_and_no_cell_of_them_runs(page):
    lab = page.element(LAB).nth(2)
    shown = lab.locator("table").first
    heads = shown.locator("th").all_text_contents()
    first = shown.locator("td").first
    first.evaluate("(one) => { one.textContent = '=1+1'; }")
    save = lab.locator(".wb-save-tables button")
    with page.page.expect_download() as saved:
        save.click()
    assert saved.value.suggested_filename == "capacity.csv"
    with Path(saved.value.path()).open(encoding="utf-8-sig", newline="") as file:
        rows = [row for row in csv.reader(file) if row]
    assert rows[0][: len(heads)] == heads
    assert rows[1][0] == "'=1+1"
    assert rows[1][1:] == shown.locator("tr").nth(1).locator("td").all_text_contents()[1:]
    assert len(rows) == lab.locator("table tr").count()
    assert all(map(any, rows))
    show = "(all, shown) => all.forEach((one) => { one.hidden = !shown; })"
    lab.locator("table").evaluate_all(show, False)
    save.click()
    expect(save).to_have_text("No table is shown")
    lab.locator("table").evaluate_all(show, True)
    expect(save).to_have_text("Save tables as CSV")


@pytest.mark.parametrize("theme", [DARK, LIGHT])
def test_both_themes(page, theme):
    page.set_theme(theme)
    name = theme.split()[-1].lower()
    for number, title in enumerate(("bytes", "hits", "capacity")):
        page.element(LAB).nth(number).evaluate("one => one.scrollIntoView({block: 'start'})")
        page.screenshot(f"lab-{title}-{name}")


def test_a_closed_lab_leaves_nothing(page):
    widgets = int(page.execute("print(len(every_widget._instances))"))
    page.element(LAB).first.get_by_role("button", name="Close", exact=True).click()
    expect(page.element(LAB)).to_have_count(2)
    assert int(page.execute("print(len(every_widget._instances))")) < widgets - 50
    page.execute("labs.pop(0)\npanel.session.replace(tensor_parallel=2)")
    assert expect_present_figures(page, ROOTS, LAB) == 2
    assert page.kernel_errors() == ()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("start", ["door = wb.explore()\ndoor", "wb.explore()"])
def test_a_lab_opens_in_a_cell_below_and_follows(lab, start):
    """A front door without a name is followed as well: by its output."""
    cells = [f"import workbench as wb\n{start}", "print('last')"]
    lab.open(lab.server.write_notebook("opens.ipynb", cells))
    lab.run_all()
    lab.open_lab("Groups and capacity")
    lab.element("button").filter(has_text="Open in a cell of its own").click()
    opened = lab.element(LAB).filter(has_text="follows the front door")
    expect(opened).to_have_count(1)
    expect(lab.element('.wb-lab-links [aria-expanded="true"]')).to_have_count(0)
    sources = "inPage.sources()"
    assert lab.page.evaluate(sources)[1].startswith("wb.lab.capacity(")
    assert lab.page.evaluate(sources)[2] == "print('last')"
    lab.submit("bamba-9b")
    expect(opened).to_contain_text("bamba-9b")
    assert lab.kernel_errors() == ()


@pytest.mark.thorough
def test_the_row_of_labs_ends_with_the_first_lesson(lab):
    lab.open("00_start.ipynb")
    lab.run_all()
    windows = len(lab.page.context.pages)
    lab.element(".wb-door .wb-learn a").click()
    expect(lab.page.locator(".jp-NotebookPanel:visible h1")).to_contain_text("order of init")
    expect(lab.page).to_have_url(re.compile(re.escape(LESSON)))
    assert len(lab.page.context.pages) == windows
