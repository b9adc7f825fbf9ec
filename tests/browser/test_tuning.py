"""The labs of sweeps in a real JupyterLab: sweep, click a point, use it; measure, stop, resume."""

from pathlib import Path

import pytest

from tests.browser.lab import DARK, LIGHT, LabPage, expect

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "00_start.ipynb"
AXES = "tensor_parallel 1 2, kv_cache_dtype auto fp8, kv_cache_memory_bytes 20 GiB"

# A sweep waits after each row until it is stopped: it would be done before a slow browser clicks.
HOLD_AFTER_A_ROW = """
from workbench.sweeps.kernels.execute import Sweep as _Sweep
_kept_store = _Sweep._store
def _store_and_wait(self, row):
    _kept_store(self, row)
    self._stopping.wait(600)
_Sweep._store = _store_and_wait
"""
HOLD_NO_MORE = "_Sweep._store = _kept_store"


def expect_text(lab: LabPage, words: str) -> None:
    """These words stand in the open tab."""
    shown = lab.element(".wb-tab >> visible=true").filter(has_text=words).first
    expect(shown).to_be_visible()


@pytest.fixture(scope="module")
def panel(shared_lab: LabPage) -> LabPage:
    shared_lab.open_panel(NOTEBOOK.name)
    shared_lab.open_lab("Sweeps")
    return shared_lab


def axes(lab: LabPage):
    return lab.element(".wb-tab .wb-completing textarea >> visible=true")


def enter(lab: LabPage, text: str) -> None:
    """Replace the axes, and wait until the kernel has counted their points."""
    axes(lab).fill(text)
    axes(lab).blur()


def test_axes_are_completed_by_keyboard(panel):
    axes(panel).fill("")
    for keys, option in (("tensor_p", "Tensor parallel"), ("2, KV-cache d", "KV-cache dtype")):
        axes(panel).press_sequentially(keys)
        offered = panel.element(".wb-tab [role=option] >> visible=true").first
        expect(offered).to_contain_text(option)
        axes(panel).press("Enter")
    axes(panel).press_sequentially("fp")
    expect(panel.element(".wb-tab [role=option] >> visible=true").first).to_contain_text("fp8")
    axes(panel).press("ArrowDown")
    axes(panel).press("Escape")
    expect(panel.element(".wb-tab [role=option] >> visible=true")).to_have_count(0)
    assert axes(panel).input_value() == "Tensor parallel 2, KV-cache dtype fp"
    assert panel.kernel_errors() == ()


def test_a_word_is_taken_before_its_answer_came(panel):
    axes(panel).fill("")
    offered = panel.element(".wb-tab [role=option] >> visible=true").first
    expect(offered).to_contain_text("Tensor parallel")
    axes(panel).evaluate("""box => {
        box.setRangeText("TENSOR_p", 0, 0, "end");
        box.dispatchEvent(new InputEvent("input"));
        box.dispatchEvent(new KeyboardEvent("keydown", {key: "Enter"}));
    }""")
    assert axes(panel).input_value() == "Tensor parallel "


def test_a_sweep_is_counted_drawn_and_explained(panel):
    enter(panel, AXES)
    expect_text(panel, "2 x 2 x 1 = 4 points")
    panel.click("Sweep")
    expect_text(panel, "4 points: ")
    expect_text(panel, "What is set differently")
    for picture in ("parallel coordinates", "trade-off"):
        panel.choose("Picture", picture)
        drawn = panel.element(".wb-tab .js-plotly-plot >> visible=true").filter(has_text="points")
        expect(drawn.first).to_be_visible()
    assert panel.kernel_errors() == ()


def test_a_wrong_word_is_said_while_typing_and_put_right(panel):
    enter(panel, "tensor_paralel 1 2")
    expect_text(panel, "Nearest: Tensor parallel")
    panel.click("Sweep")
    problem = panel.element(".wb-tab .wb-problem >> visible=true")
    expect(problem.filter(has_text="tensor_parallel").first).to_be_visible()
    enter(panel, AXES)
    panel.click("Sweep")
    expect(problem).to_have_count(0)


def test_a_clicked_point_is_chosen_and_becomes_the_scenario(panel):
    marks = panel.element(".wb-tab .js-plotly-plot .trace.scatter .point >> visible=true")
    marks.first.wait_for()
    panel.execute("lab = panel.open('Sweeps'); before = lab.point.value")
    other = panel.execute(
        "print(next(number for number, one in enumerate(lab._figure.figure.data[0].customdata)"
        " if one != before))"
    )
    panel.element(".wb-tab .js-plotly-plot .trace.scatter").first.locator(".point").nth(
        int(other)
    ).click(force=True)
    while panel.execute("print(lab.point.value == before)").strip() == "True":
        panel.page.wait_for_timeout(20)
    chosen = panel.execute("print(lab.found.name_of(lab.point.value))").strip()
    assert chosen in panel.selected("Point")
    panel.click("Use this point")
    wanted = "print(panel.scenario == lab.found.scenario_of(lab.point.value))"
    while panel.execute(wanted).strip() != "True":
        panel.page.wait_for_timeout(20)
    expect(panel.element(".wb-tab .wb-stale >> visible=true")).to_have_count(0)
    assert panel.kernel_errors() == ()


@pytest.mark.thorough
def test_a_kernel_sweep_is_stopped_and_goes_on(panel, tmp_path):
    panel.open_lab("Kernel sweeps")
    panel.set_value("Results in", tmp_path / "results.db")
    panel.execute(HOLD_AFTER_A_ROW)
    panel.click("Measure kernel")
    expect_text(panel, "of 16")
    rows = panel.element(".wb-tab td >> visible=true").filter(has_text="no time")
    expect(rows.first).to_be_visible()
    panel.click("Stop measuring")
    expect_text(panel, "Stopped at ")
    panel.execute(HOLD_NO_MORE)
    panel.click("Measure kernel")
    expect_text(panel, "Done: 16 of 16")
    panel.choose("Kernel", "block tables, fast path")
    panel.click("Measure kernel")
    expect_text(panel, "Done: 4 of 4")
    expect_text(panel, "W2 reduced")
    assert panel.kernel_errors() == ()


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_both_themes(panel, theme):
    panel.set_theme(theme)
    name = theme.split()[-1].lower()
    for title in ("Sweeps", "Kernel sweeps"):
        panel.open_lab(title)
        panel.screenshot(f"{title.replace(' ', '-').lower()}-{name}")
    assert panel.kernel_errors() == ()
