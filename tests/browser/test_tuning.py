"""The tab "Tuning" in a real JupyterLab: sweep, compare, take a point; measure, stop, go on."""

from pathlib import Path

import pytest

from tests.browser.lab import DARK, LIGHT, LabPage, expect

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "00_start.ipynb"
AXES = "tensor_parallel = 1, 2\nkv_cache_dtype = auto, fp8\nkv_cache_memory_bytes = 20 GiB"

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


def show(lab: LabPage, words: str) -> None:
    """Bring what holds these words in the open tab to the top."""
    shown = lab.element(".wb-tab .wb >> visible=true").filter(has_text=words).first
    shown.evaluate("element => element.scrollIntoView({block: 'start'})")


def expect_text(lab: LabPage, words: str) -> None:
    """These words stand in the open tab."""
    shown = lab.element(".wb-tab >> visible=true").filter(has_text=words).first
    expect(shown).to_be_visible()


@pytest.fixture(scope="module")
def panel(shared_lab: LabPage) -> LabPage:
    shared_lab.open_panel(NOTEBOOK.name)
    shared_lab.open_lab("Tuning")
    return shared_lab


def test_a_sweep_is_counted_drawn_and_explained(panel):
    lines = panel.control("Vary").locator("textarea")
    lines.fill(AXES)
    lines.blur()
    panel.click("Sweep")
    expect_text(panel, "4 points")
    expect_text(panel, "What is set differently")
    for picture in ("concurrency and waste", "parallel coordinates"):
        panel.choose("Trade-off", picture)
        drawn = panel.element(".wb-tab .js-plotly-plot >> visible=true").filter(has_text="points")
        expect(drawn.first).to_be_visible()
    panel.choose("Trade-off", "concurrency and waste")
    assert panel.kernel_errors() == ()


def test_a_wrong_line_is_said_and_put_right(panel):
    lines = panel.control("Vary").locator("textarea")
    lines.fill("tensor_paralel = 1, 2")
    lines.blur()
    panel.click("Sweep")
    problem = panel.element(".wb-tab .wb-problem >> visible=true")
    expect(problem.filter(has_text="tensor_parallel").first).to_be_visible()
    lines.fill(AXES)
    lines.blur()
    panel.click("Sweep")
    expect(problem).to_have_count(0)


def test_a_kernel_sweep_is_stopped_and_goes_on(panel, tmp_path):
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
    panel.choose("Swept kernel", "block tables, fast path")
    panel.click("Measure kernel")
    expect_text(panel, "Done: 4 of 4")
    expect_text(panel, "W2 reduced")
    assert panel.kernel_errors() == ()


@pytest.mark.parametrize("theme", [LIGHT, DARK])
def test_both_themes(panel, theme):
    panel.set_theme(theme)
    name = theme.split()[-1].lower()
    for words in ("4 points", "What it comes to", "Measure a kernel"):
        show(panel, words)
        panel.screenshot(f"tuning-{words.split()[-1]}-{name}")
    assert panel.kernel_errors() == ()


def test_a_point_becomes_the_scenario(panel):
    panel.click("Use this point")
    expect(panel.element(".wb-tab .wb-stale >> visible=true").first).to_be_visible()
    chosen = panel.element('[data-chip="kv_cache_dtype"] > button')
    expect(chosen).to_have_text("KV fp8")
