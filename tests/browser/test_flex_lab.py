"""The parts of the flex lab in a real JupyterLab: launch, stop, bits, orders, failures."""

from pathlib import Path

import pytest

from tests.browser.lab import DARK, LIGHT, LabPage, expect

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "00_start.ipynb"
PARTS = (
    "Sizes",
    "Mask",
    "Launch",
    "Batch invariance",
    "Reduction order",
    "Against torch",
    "Build cost",
    "Failure demos",
)


def open_part(lab: LabPage, name: str) -> None:
    """Press the part's toggle."""
    lab.element(".wb-tab .widget-toggle-buttons").get_by_role(
        "button", name=name, exact=True
    ).click()


def expect_text(lab: LabPage, words: str) -> None:
    """Expect these words in the open part."""
    shown = lab.element(".wb-tab .wb >> visible=true").filter(has_text=words).first
    expect(shown).to_be_visible()


def expect_wide_picture(lab: LabPage, title: str) -> None:
    """Expect a drawn figure whose title contains this text, as wide as the panel."""
    drawn = lab.element(".wb-tab .js-plotly-plot").filter(has_text=title).first
    expect(drawn).to_be_visible()
    wide = "figure => figure.querySelector('.main-svg').clientWidth > 0.9 * figure.clientWidth"
    lab.page.wait_for_function(wide, arg=drawn.element_handle())


@pytest.fixture(scope="module")
def panel(shared_lab: LabPage) -> LabPage:
    shared_lab.open_panel(NOTEBOOK.name)
    shared_lab.open_lab("Flex attention")
    return shared_lab


def test_every_part_opens(panel):
    for name in PARTS:
        open_part(panel, name)
    open_part(panel, "Sizes")
    expect_text(panel, "cache block")
    assert panel.kernel_errors() == ()


def test_a_launch_is_checked_and_a_bad_tile_is_refused(panel):
    open_part(panel, "Launch")
    panel.set_value("Flex batch", "q9_q3s70")
    panel.click("Launch batch")
    expect_text(panel, "within the tolerance")
    panel.set_value("Tile", "64 x 48")
    panel.click("Launch batch")
    expect_text(panel, "value: 32")
    panel.set_value("Tile", "")
    panel.click("Launch batch")
    expect(panel.element(".wb-tab .wb-stale >> visible=true")).to_have_count(0)


def test_a_long_launch_can_be_stopped(panel):
    open_part(panel, "Launch")
    panel.set_value("Flex batch", "2q16s4000")
    panel.click("Launch batch")
    stop = panel.element(".wb-tab button:text-is('Stop') >> visible=true")
    expect(stop).to_be_enabled()
    stop.click()
    expect_text(panel, "Stopped.")
    expect(stop).to_be_disabled()
    panel.set_value("Flex batch", "q9_q3s70")


def test_bits_are_compared_with_a_control(panel):
    open_part(panel, "Batch invariance")
    panel.set_value("Batches", 1)
    panel.click("Compare bits")
    expect_text(panel, "negative control")
    expect_text(panel, "0 bits differ in all")
    expect_wide_picture(panel, "which bits differ")


def test_orders_are_predicted_then_compared(panel):
    open_part(panel, "Reduction order")
    expect_text(panel, "Predicted, before anything runs")
    panel.click("Compare orders")
    expect_text(panel, "exactly where another order was predicted")


def test_a_mistake_shows_its_line(panel):
    open_part(panel, "Failure demos")
    panel.choose("Failure demo", "a mask with a Python if")
    panel.click("Run it")
    expect_text(panel, "if query > key:")
    expect_text(panel, "The next launch works")
    expect(panel.element(".wb-error[data-workbench-error]")).to_have_count(0)


@pytest.mark.parametrize("theme", [DARK, LIGHT])
def test_both_themes(panel, theme):
    panel.set_theme(theme)
    for name in ("Launch", "Batch invariance", "Reduction order", "Failure demos"):
        open_part(panel, name)
        panel.screenshot(f"flex-{name.split()[-1].lower()}-{theme.split()[-1].lower()}")
    assert panel.kernel_errors() == ()
