"""Every tab of the panel in a real JupyterLab: it opens, draws, follows its own controls."""

from pathlib import Path

import pytest

from tests.browser.lab import DARK, LIGHT, LabPage, expect

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "00_start.ipynb"
PANEL = ".wb-panel"


def expect_picture(lab: LabPage, title: str) -> None:
    """Expect a drawn figure whose title contains this text, as wide as the panel."""
    drawn = lab.element(".wb-tab .js-plotly-plot").filter(has_text=title).first
    expect(drawn).to_be_visible()
    wide = "figure => figure.querySelector('.main-svg').clientWidth > 0.9 * figure.clientWidth"
    handle = drawn.element_handle()
    lab.page.wait_for_function(wide, arg=handle)


@pytest.fixture(scope="module")
def panel(shared_lab: LabPage) -> LabPage:
    shared_lab.open_panel(NOTEBOOK.name, 1400, 1200)
    shared_lab.set_field("kv_cache_memory_bytes", "20 GiB")
    expect(shared_lab.element("[data-tile=start]")).to_contain_text("would start")
    return shared_lab


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("picture", "title"),
    [
        ("groups and tensors", "groups in"),
        ("where the memory goes", "memory of one rank"),
        ("capacity over TP and dtype", "requests that fit"),
        ("gain of an fp8 cache", "gain of an fp8"),
        ("shared or separate pools", "shared or separate pools"),
    ],
)
def test_groups_and_capacity(panel, picture, title):
    panel.open_lab("Groups and capacity")
    panel.choose("Picture", picture)
    expect_picture(panel, title)


def test_pages(panel):
    panel.open_lab("Page bytes")
    drawn = panel.element(".wb-tab .js-plotly-plot >> visible=true").first
    expect(drawn).to_be_visible()


def test_prefix_hits_follow_the_workload(panel):
    panel.open_lab("Prefix hits")
    panel.set_field("enable_prefix_caching", True)
    expect(panel.element(".wb-tab").filter(has_text="requests have a hit").first).to_be_visible()
    panel.set_value("Requests", 10)
    expect(panel.element(".wb-tab").filter(has_text="of 10").first).to_be_visible()
    panel.set_field("enable_prefix_caching", None)


def test_offload_shows_the_failed_check(panel):
    panel.open_lab("Offload and transfer")
    stops = panel.element(".wb-tab").filter(has_text="offload_hash_block_size").first
    expect(stops).to_be_visible()


def test_block_tables_are_launched_and_agree(panel):
    panel.open_lab("Block tables")
    panel.set_value("Batch", "q70_2q1s900")
    panel.click("Start")
    agrees = panel.element(".wb-tab").filter(has_text="agrees with the Python reference").first
    expect(agrees).to_be_visible()
    expect_picture(panel, "kernel blocks of")
    panel.click("Finish")
    finished = panel.element(".wb-tab").filter(has_text="finish request 0").first
    expect(finished).to_be_visible()
    expect(panel.element(".wb-error[data-workbench-error]")).to_have_count(0)


def test_versions_are_compared(panel):
    panel.open_lab("Versions")
    parts = panel.element(".wb-tab").filter(has_text="where the results diverge").first
    expect(parts).to_be_visible()
    expect_picture(panel, "what differs")
    panel.click("Whole catalog")
    row = panel.element(".wb-tab").filter(has_text="architecture not served").first
    expect(row).to_be_visible()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("theme", [DARK, LIGHT])
def test_the_tabs_in_both_themes(panel, theme):
    panel.set_theme(theme)
    for name in ("Groups and capacity", "Page bytes", "Block tables", "Versions"):
        panel.open_lab(name)
        panel.screenshot(f"tab-{name.split()[0].lower()}-{theme.split()[-1].lower()}")
    assert panel.kernel_errors() == ()
