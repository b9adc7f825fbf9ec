"""Every picture of the panel shows the present scenario, on slow machines too, and nothing more."""

from __future__ import annotations

import base64
import json
import math
import re
import time
from pathlib import Path

import numpy as np
import pytest

from tests.browser.lab import PATIENCE_MS, LabPage, expect

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "00_start.ipynb"
PANEL = ".wb-panel"
COLUMNS = ("type", "name", "x", "y", "z", "base", "text", "customdata", "dimensions")
SCENARIOS = (
    {"tensor_parallel": 1, "kv_cache_memory_bytes": 33_000_000_000},
    {"tensor_parallel": 2, "kv_cache_memory_bytes": 34_000_000_000},
    {"tensor_parallel": 4, "kv_cache_memory_bytes": 35_000_000_000},
)
# Helpers inside the kernel, not in the notebook's cells.
HELPERS = """
import json
from ipywidgets import Tab
from ipywidgets.widgets import widget as every_widget
from workbench.ui.live_figure import FigureView

def shown(widget):
    if widget.layout.display == "none":
        return
    yield widget
    children = getattr(widget, "children", ())
    for child in [children[widget.selected_index]] if isinstance(widget, Tab) else children:
        yield from shown(child)

def figures(*roots):
    widgets = [one for root in roots or [panel.widget] for one in shown(root)]
    states = [one.state for one in widgets if isinstance(one, FigureView)]
    found = [[one.revision, json.loads(one.figure)] for one in states if one.figure]
    print(json.dumps(found))

def picked(description):
    found = (one for one in shown(panel.widget) if getattr(one, "description", "") == description)
    print(*(one.label for one in found))
"""


def plain(value):
    """Return a comparable column: binary arrays decoded, anything but a number as None."""
    if isinstance(value, dict) and "bdata" in value:
        column = np.frombuffer(base64.b64decode(value["bdata"]), value["dtype"])
        shape = [int(size) for size in str(value.get("shape", column.size)).split(",")]
        return plain(column.reshape(shape).tolist())
    if isinstance(value, dict):
        return {key: plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def content(figure):
    traces = [{key: plain(trace.get(key)) for key in COLUMNS} for trace in figure["data"]]
    return figure["layout"]["title"]["text"], traces


def expect_present_figures(lab: LabPage, roots: str = "", within: str = PANEL) -> int:
    """Expect the drawn figures to be those of Python; return the number of figures.

    roots: code of the widgets that hold them, by default the front door; within: where they are.
    """
    patience = time.monotonic() + PATIENCE_MS / 1000
    while True:
        expected = json.loads(lab.execute(f"figures({roots})"))
        drawn = lab.page.evaluate("css => inPage.figures(css)", within)
        wanted = [revision for revision, _figure in expected]
        found = [figure["revision"] for figure in drawn]
        if found == wanted:
            break
        assert time.monotonic() < patience, f"drawn: {found}; Python has {wanted}"
        lab.page.wait_for_timeout(50)
    for (_revision, wanted), shown in zip(expected, drawn, strict=True):
        assert content(shown) == content(wanted)
    return len(drawn)


def choose(lab: LabPage, picker: str, option: str) -> None:
    """Pick an option, and wait until the kernel has heard of it."""
    lab.choose(picker, option)
    while lab.execute(f"picked({picker!r})").strip() != option:
        lab.page.wait_for_timeout(20)


def change(lab: LabPage, **fields) -> None:
    lab.execute(f"panel.session.replace(**{fields!r})")


@pytest.fixture(scope="module")
def panel(shared_lab: LabPage) -> LabPage:
    shared_lab.open_panel(NOTEBOOK.name, 1400, 1200)
    shared_lab.execute(HELPERS)
    change(shared_lab, enable_prefix_caching=True)
    return shared_lab


VIEWS = [
    ("Groups and capacity", "Picture", None),
    ("Prefix hits", None, None),
    ("Flex attention", "Show sizes", "Sizes"),
    ("Block tables", None, "Start"),
    ("Sweeps", "Picture", "Sweep"),
    *(
        pytest.param(*view, marks=pytest.mark.thorough)
        for view in (
            ("Page bytes", "Level", None),
            ("Offload and transfer", None, None),
            ("Versions", None, None),
            ("Flex attention", "Show mask", "Mask"),
        )
    ),
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("tab", "picker", "button"), VIEWS)
def test_a_picture_that_was_left_and_entered_again_is_of_the_present_scenario(
    panel, tab, picker, button
):
    # flex attention refuses the blocks of a hybrid model
    model = "llama-3.1-8b" if tab == "Flex attention" else "qwen3-next-80b-a3b"
    change(panel, model=model, **SCENARIOS[-1])
    panel.open_lab(tab)
    if button:
        panel.click(button)
    if picker:
        panel.control(picker).wait_for()
    if tab in ("Sweeps", "Block tables"):
        expect(panel.element(".wb-tab .js-plotly-plot >> visible=true").first).to_be_visible()
    pictures = panel.options(picker) if picker else ("",)
    figures = []
    for scenario in SCENARIOS:
        for picture in pictures:
            if picker:
                choose(panel, picker, picture)
            figures.append(expect_present_figures(panel))
        panel.close_lab(tab)
        change(panel, **scenario)
        expect_present_figures(panel)
        panel.open_lab(tab)
    assert max(figures) >= 1
    assert panel.kernel_errors() == ()


def test_the_hit_curve_follows_after_prefix_caching_was_off(panel):
    change(panel, tensor_parallel=2)
    panel.open_lab("Prefix hits")
    for caching in (True, False, True):
        change(panel, enable_prefix_caching=caching)
        expect_present_figures(panel)
    change(panel, tensor_parallel=1)
    block = json.loads(panel.execute("print(panel.plan.block_size)"))
    expect(panel.element(f".wb-tab:has-text('{block:,}') >> visible=true").first).to_be_visible()
    assert expect_present_figures(panel) == 1


def test_the_memory_bars_follow_after_another_picture(panel):
    panel.open_lab("Groups and capacity")
    for picture in ("where the memory goes", "groups and tensors", "where the memory goes"):
        choose(panel, "Picture", picture)
        expect_present_figures(panel)
    change(panel, kv_cache_memory_bytes=36_000_000_000)
    assert expect_present_figures(panel) == 1
    change(panel, device_memory_bytes=80 * 2**30, kv_cache_memory_bytes=None)
    expect_present_figures(panel)
    change(panel, device_memory_bytes=None, kv_cache_memory_bytes=36_000_000_000)


def test_a_figure_is_saved_here_and_offers_nothing_else(panel):
    panel.open_lab("Groups and capacity")
    panel.scroll_to(PANEL)
    titles = set(panel.page.evaluate("inPage.modeBarButtons()"))
    pictures = {"Download plot as a PNG", "Download plot as SVG"}
    assert titles == {*pictures, "Download data as JSON", "Reset axes"}
    panel.element(".wb-drawing .js-plotly-plot >> visible=true").first.hover()
    with panel.page.expect_download() as saved:
        panel.element('[data-title="Download data as JSON"] >> visible=true').first.click()
    whole = json.loads(Path(saved.value.path()).read_text(encoding="utf-8"))
    (drawn,) = json.loads(panel.execute("figures()"))[:1]
    first, found = drawn[1]["data"][0], whole["traces"][0]
    title = re.sub("<[^>]*>", "", drawn[1]["layout"]["title"]["text"])
    assert whole["title"] == title
    assert saved.value.suggested_filename.split("-")[0] in title
    assert whole["x"] == drawn[1]["layout"]["xaxis"].get("title", {}).get("text", "")
    assert {name: plain(found[name]) for name in ("x", "y") if name in first} == {
        name: plain(first[name]) for name in ("x", "y") if name in first
    }


@pytest.mark.thorough
def test_sixty_changes_leak_no_memory(panel):
    panel.open_lab("Groups and capacity")
    choose(panel, "Picture", "where the memory goes")
    session = panel.page.context.new_cdp_session(panel.page)

    def run(count):
        for number in range(count):
            change(panel, tensor_parallel=1 + number % 2, kv_cache_memory_bytes=2**35 + number)
        expect_present_figures(panel)
        session.send("HeapProfiler.collectGarbage")
        widgets = panel.execute("print(len(every_widget._instances))")
        return session.send("Runtime.getHeapUsage")["usedSize"], int(widgets)

    run(20)
    heap, widgets = run(2)
    later_heap, later_widgets = run(60)
    assert later_widgets == widgets
    assert later_heap - heap < 20e6


@pytest.mark.thorough
def test_a_figure_whose_script_did_not_arrive_is_requested_again(lab):
    lab.set_viewport(1280, 1100)
    lab.open(NOTEBOOK.name)
    lab.page.evaluate(
        "() => { window.kept = DecompressionStream;"
        " window.DecompressionStream = class { constructor() { throw new Error('planted'); } }; }"
    )
    lab.run_all()
    lab.open_lab("Groups and capacity")
    expect(lab.element(".wb-figure-note").filter(has_text="requested again").first).to_be_visible()
    lab.page.evaluate("() => { DecompressionStream = window.kept; }")
    lab.execute(HELPERS)
    assert expect_present_figures(lab) == 1
    expect(lab.element(".wb-figure-note").filter(has_text="requested")).to_have_count(0)
