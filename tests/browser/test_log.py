"""The tab "Log" in a real JupyterLab: paste a log, read what it means, take its scenario over."""

from pathlib import Path

import pytest

from tests.browser.lab import DARK, LIGHT, LabPage, expect

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "00_start.ipynb"
LOG = Path(__file__).parents[1] / "data" / "logs" / "whole_start_0_23.log"


@pytest.fixture(scope="module")
def panel(shared_lab: LabPage) -> LabPage:
    shared_lab.open_panel(NOTEBOOK.name)
    shared_lab.open_tab("Log")
    return shared_lab


def paste(lab: LabPage, text: str) -> None:
    """Fill the box of the open tab, and click Explain."""
    box = lab.element(".wb-tab textarea >> visible=true")
    box.fill(text)
    box.blur()
    lab.click("Explain")


def expect_text(lab: LabPage, words: str) -> None:
    """Expect these words in the open tab."""
    expect(lab.element(".wb-tab >> visible=true").filter(has_text=words).first).to_be_visible()


def test_a_log_is_explained(panel):
    paste(panel, LOG.read_text(encoding="utf-8"))
    expect_text(panel, "Setting attention block size to 1056 tokens")
    expect_text(panel, "agree with the rules, 0 not")
    assert panel.kernel_errors() == ()


@pytest.mark.parametrize("theme", [DARK, LIGHT])
def test_both_themes(panel, theme):
    panel.set_theme(theme)
    panel.screenshot(f"log-{theme.split()[-1].lower()}")


def test_its_scenario_is_taken_over(panel):
    panel.click("Use this scenario")
    expect(panel.control("Tensor parallel").locator("select, input").first).to_be_visible()
    shown = panel.element(".wb-panel").filter(has_text="1,056")
    expect(shown.first).to_be_visible()


def test_text_that_is_not_a_log_is_reported(panel):
    paste(panel, "a poem about the sea")
    expect(panel.element(".wb-tab .wb >> visible=true").first).to_be_visible()
    panel.click("Clear")
    expect(panel.element(".wb-tab textarea >> visible=true")).to_have_value("")
    assert panel.kernel_errors() == ()
