"""The tab with the page map: every control, the zoom, a click, bad input, refusals."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

import workbench as wb
from workbench.core.byte_map.of_plan import byte_map
from workbench.door.session import Session
from workbench.ui.panels.pages import PagesPanel
from workbench.views.bytes.map import map_layout, map_traces
from workbench.views.bytes.places import LEVELS
from workbench.views.bytes.rows import map_picture
from workbench.views.bytes.text import byte_inspector, byte_words
from workbench.views.html import stacked

FIRST = wb.Scenario(model="qwen3.5-4b")
KEYS_FIRST = wb.Scenario(model="bamba-9b", platform="rocm", backend="ROCM_ATTN")


def panel_of(scenario: wb.Scenario) -> PagesPanel:
    panel = PagesPanel(Session(scenario, lambda _outcome: None))
    panel.show(wb.resolve(scenario))
    return panel


@pytest.fixture
def pages() -> Any:
    panel = panel_of(FIRST)
    yield panel
    assert panel.session.errors == []


def title(panel: PagesPanel) -> str:
    return panel.map.figure.layout.title.text


def message(panel: PagesPanel) -> str:
    return panel._message.value.partition("</style>")[2]


def is_stale(panel: PagesPanel) -> bool:
    return "wb-stale" in panel.map.widget._dom_classes


def assert_drawn(panel: PagesPanel, pool: Any = None) -> None:
    """Expect the live figure to be the one that the views make."""
    drawn = map_picture(pool or panel.pool, panel.place, panel._other)
    assert not is_stale(panel)
    for live, fresh in zip(panel.map.figure.data, map_traces(drawn), strict=True):
        for name in ("name", "x", "y", "base", "text", "hovertext", "showlegend"):
            assert live[name] == fresh[name], name
    layout = map_layout(drawn, marked=panel._byte())
    assert panel.map.figure.layout.shapes == layout.shapes
    assert title(panel) == layout.title.text
    assert panel.map.figure.layout.xaxis.range == layout.xaxis.range
    assert panel.map.figure.layout.yaxis.ticktext == layout.yaxis.ticktext
    assert panel.map.figure.layout.height == layout.height


def test_it_starts_with_a_block(pages):
    assert "block 0 of 3" in title(pages)
    assert_drawn(pages, byte_map(wb.resolve(FIRST), num_blocks=3))


@pytest.mark.parametrize("level", LEVELS)
def test_every_level(pages, level):
    pages.level.value = level
    assert f"<b>{level}" in title(pages)
    assert_drawn(pages)


def test_every_number_and_part(pages):
    pages.level.value = "head"
    for name, value in {
        "tensor": 7,
        "block": 2,
        "kernel_block": 32,
        "token": 15,
        "head": 3,
    }.items():
        pages.numbers[name].value = value
        assert getattr(pages.place, name) == value
        assert_drawn(pages)
    assert pages.part.options == (("first", ""), ("K", "K"), ("V", "V"))
    pages.part.value = "V"
    assert "/ V / <b>head 3 of 4" in title(pages)
    assert_drawn(pages)


def test_numbers_stay_in_their_bounds(pages):
    pages.numbers["block"].value = 99
    assert pages.numbers["block"].value == 2
    pages.blocks.value = "1"
    assert pages.numbers["block"].value == 0
    assert pages.numbers["block"].disabled
    assert_drawn(pages)


def test_layout_and_runner(pages):
    pages.layout.value = "HND"
    assert pages.pool.views.layout.name == "HND"
    assert_drawn(pages)
    pages.runner.value = "v2"
    assert pages.pool.views.runner == "v2"
    assert_drawn(pages)


def test_before_and_after_the_rewrite():
    panel = panel_of(KEYS_FIRST)
    panel.level.value = "tensor"
    panel.compare.value = "never"
    assert "bytes misplaced" in title(panel)
    marked = next(trace for trace in panel.map.figure.data if "another" in trace.name)
    assert len(marked.x) == 4
    assert marked.showlegend
    assert_drawn(panel)
    panel.compare.value = ""
    marked = next(trace for trace in panel.map.figure.data if "another" in trace.name)
    assert not marked.x
    assert not marked.showlegend
    assert panel.session.errors == []


def test_a_runner_that_stops_says_so_and_recovers():
    panel = panel_of(KEYS_FIRST)
    panel.blocks.value = "2"
    panel.runner.value = "v2"
    assert "Cannot determine layout for tensor" in message(panel)
    assert is_stale(panel)
    panel.byte.value = "5"
    assert panel._answer.value == ""
    panel.blocks.value = "3"
    assert message(panel) == ""
    assert_drawn(panel)
    assert panel.session.errors == []


def test_the_zoom_of_the_figure_redraws(pages):
    send(pages.map, event="zoom", range=[65_530.4, 65_544.2])
    assert pages.place.window == (65_530, 65_545)
    assert "(zoomed)" in title(pages)
    assert_drawn(pages)
    assert pages.reset_zoom.layout.display is None
    pages.reset_zoom.click()
    assert pages.reset_zoom.layout.display == "none"
    assert pages.place.window is None
    assert_drawn(pages)
    send(pages.map, event="zoom", range=[-5e9, 5e9])
    assert pages.place.window == (0, pages.pool.tensors[0].raw_bytes)
    pages.level.value = "tensor"
    assert pages.place.window is None


def send(live, **content):
    """Do what the browser does: send a message to the figure's widget."""
    live.view._handle_custom_msg(content, [])


def click(live, name, point):
    """Click a point of the trace with this name."""
    names = [trace.name for trace in live.figure.data]
    send(live, event="click", trace=names.index(name), point=point)


def test_a_click_goes_one_level_down(pages):
    pages.level.value = "pool"
    click(pages.map, "page", 2)
    assert (pages.level.value, pages.numbers["tensor"].value) == ("tensor", 3)
    click(pages.map, "page", 1)
    assert (pages.level.value, pages.numbers["block"].value) == ("block", 1)
    click(pages.map, "V", 4)
    assert pages.place == replace(
        pages.place, level="kernel block", tensor=3, block=1, kernel_block=4, part="V"
    )
    assert_drawn(pages)


def test_what_is_a_byte_is_answered_and_opened_with_one_number(pages):
    pages.byte.value = "2,230,786"
    meaning = pages.pool.tensors[0].groups[-1].meaning(2_230_786)
    found = (meaning.page, meaning.kernel_block, meaning.kernel_token, meaning.part)
    place = pages.place
    assert place.level == "token"
    assert (place.block, place.kernel_block, place.token, place.part) == found
    [marked] = pages.map.figure.layout.shapes
    assert marked.x0 == 2_230_786.5
    assert_drawn(pages)
    pages.byte.value = ""
    assert not pages.map.figure.layout.shapes


def test_an_entered_byte_is_found_again_in_another_plan_until_one_looks_elsewhere(pages):
    def is_shown():
        meaning, place = pages.pool.tensors[0].groups[-1].meaning(123_456), pages.place
        found = (meaning.page, meaning.kernel_block, meaning.kernel_token)
        return place.level == "token" and (place.block, place.kernel_block, place.token) == found

    pages.byte.value = "123,456"
    assert is_shown()
    before = pages.place
    pages.show(wb.resolve(model="lfm2-350m"))  # three of its blocks have fewer bytes
    pages.show(wb.resolve(model="qwen3-next-80b-a3b"))
    assert pages.place != before
    assert is_shown()
    pages.level.value = "tensor"
    pages.show(wb.resolve(model="qwen3.5-4b"))
    assert pages.level.value == "tensor"
    pages.byte._handle_custom_msg({"event": "submit"}, [])  # Enter, with the same number
    assert is_shown()


def row_of(panel, states):
    """Return the number of the first row of attention, or of states."""
    return next(n for n, row in enumerate(panel._picture.rows) if row.states is states)


def test_the_byte_under_the_cursor_is_read(pages):
    pages.level.value = "tensor"
    row = row_of(pages, states=True)
    send(pages.map, event="move", at=[1_234_567.8, row + 0.3])
    assert stacked(*byte_words(pages.pool, 0, 1_234_567)) in pages._cursor.value
    pages.level.value = "pool"
    send(pages.map, event="move", at=[1_234_567.8, 5.2])
    assert stacked(*byte_words(pages.pool, 5, 1_234_567)) in pages._cursor.value
    before = pages._cursor.value
    for at in ([-1, 0], [10**12, 0], [None, 0], "x", [float("nan"), 0]):
        send(pages.map, event="move", at=at)
    assert pages._cursor.value == before


def test_a_click_opens_the_byte_under_the_cursor(pages):
    pages.level.value = "tensor"
    row = row_of(pages, states=False)
    names = [trace.name for trace in pages.map.figure.data]
    trace = pages.map.figure.data[names.index("V")]
    bars = [number for number, y in enumerate(trace.y) if y == row]
    byte = int(trace.base[bars[1]] + trace.x[bars[1]] - 7)
    sent = {"trace": names.index("V"), "point": bars[1], "at": [byte + 0.5, row]}
    send(pages.map, event="click", **sent)
    assert byte_inspector(pages.pool, 0, byte) in pages._answer.value
    assert pages.map.figure.layout.shapes[0].x0 == byte + 0.5
    for level in LEVELS[3:]:
        send(pages.map, event="click", **present_point(pages, byte))
        assert pages.level.value == level
        assert byte_inspector(pages.pool, 0, byte) in pages._answer.value
        assert_drawn(pages)


def present_point(panel, byte):
    """Return the message of a click on the bar of attention that holds a byte."""
    row = row_of(panel, states=False)
    return next(
        {"trace": trace, "point": point, "at": [byte + 0.5, row]}
        for trace, bars in enumerate(panel.map.figure.data)
        for point, (y, first, size) in enumerate(zip(bars.y, bars.base, bars.x, strict=True))
        if y == row and first <= byte < first + size
    )


def test_a_click_on_a_state_opens_the_state(pages):
    click(pages.map, "recurrent", 3)
    assert pages.place.states
    assert pages.level.value == "head"
    assert pages.place.part == "recurrent"
    assert [name for name, _value in pages.part.options] == ["first", "conv", "recurrent"]
    assert_drawn(pages)
    pages.states.value = False
    assert pages.place.part is None
    assert_drawn(pages)


def test_a_click_skips_the_only_kernel_block_of_a_block():
    panel = panel_of(wb.Scenario(model="qwen3-next-80b-a3b"))
    click(panel.map, "V", 0)
    assert panel.level.value == "token"
    assert panel.place.part == "V"
    assert_drawn(panel)


def test_a_click_on_padding_stays_at_the_block():
    panel = panel_of(wb.Scenario(model="qwen3-next-80b-a3b"))
    click(panel.map, "padding", 0)
    assert panel.level.value == "block"
    assert "padding" in panel._answer.value
    assert_drawn(panel)


@pytest.mark.parametrize(
    "content",
    [
        {"event": "click", "trace": 0, "point": 10**6},
        {"event": "click", "trace": -1, "point": 0},
        {"event": "click", "trace": "0", "point": None},
        {"event": "zoom", "range": [None, 5]},
        {"event": "else"},
        {},
    ],
)
def test_an_invalid_message_of_the_browser_changes_nothing(pages, content):
    before = pages.place
    send(pages.map, **content)
    assert pages.place == before
    assert_drawn(pages)


def test_a_click_on_one_of_many_tensors():
    panel = panel_of(wb.Scenario(model="deepseek-v3"))
    panel.level.value = "pool"
    panel.numbers["tensor"].value = 30
    assert "10 of them shown" in title(panel)
    click(panel.map, "page", 4)
    assert (panel.level.value, panel.numbers["tensor"].value) == ("tensor", 35)
    assert panel.session.errors == []


def test_tensors_of_several_sizes():
    scenario = wb.Scenario(model="llama-3.1-8b", kv_cache_dtype="turboquant_4bit_nc")
    panel = panel_of(scenario)
    assert_drawn(panel, byte_map(wb.resolve(scenario), num_blocks=3))
    assert panel.map.figure.layout.xaxis.range == (0, 65536)
    panel.numbers["tensor"].value = 2
    assert panel.map.figure.layout.xaxis.range == (0, 17152)
    assert panel.part.options[2] == ("K norm", "K norm")
    panel.level.value = "pool"
    assert "32 tensors: 4 of" in panel.map.figure.layout.title.text
    send(panel.map, event="zoom", range=[0, 10**9])
    panel.level.value = "tensor"
    send(panel.map, event="zoom", range=[0, 10**9])
    assert panel.place.window == (0, 3 * 17152)
    panel.byte.value = "60000"
    assert "Nearest valid: 51455" in panel._answer.value
    assert panel.session.errors == []


def test_look_up_a_byte(pages):
    pages.byte.value = "2,230,786"
    for layout in ("", "HND"):
        pages.layout.value = layout
        assert byte_inspector(pages.pool, 0, 2_230_786) in pages._answer.value
    pages.byte.value = "9" * 12
    assert "Nearest valid: 6488063" in pages._answer.value
    pages.byte.value = "<b>"
    assert "&lt;b&gt;" in pages._answer.value
    pages.byte.value = ""
    assert pages._answer.value == ""


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5", "<b>"])
def test_bad_numbers_of_blocks(pages, text):
    pages.blocks.value = text
    assert re.search(r"Invalid (num_|pool )?blocks", message(pages))
    assert "<b>'" not in message(pages)
    assert is_stale(pages)
    pages.blocks.value = "1,000,000"
    assert message(pages) == ""
    assert pages.pool.num_blocks == 10**6
    assert_drawn(pages)


@pytest.mark.parametrize("model", ["falcon-mamba-7b", "deepseek-v3", "gemma-3-27b", "bamba-9b"])
def test_another_plan_takes_the_place_as_far_as_it_goes(pages, model):
    pages.level.value = "head"
    pages.numbers["token"].value = 15
    pages.numbers["tensor"].value = 7
    pages.part.value = "V"
    pages.show(wb.resolve(wb.Scenario(model=model)))
    assert_drawn(pages)
    pages.show(wb.resolve(FIRST))
    assert_drawn(pages)


def test_a_plan_that_cannot_be_laid_out(pages):
    broken = FIRST.replace(block_size=15)
    pages.show(wb.resolve(broken))
    if pages.pool is None:
        assert is_stale(pages)
        assert message(pages)
    pages.show(wb.resolve(FIRST))
    assert_drawn(pages)


def test_the_pool(pages):
    assert "10,000 blocks" in pages.raster.figure.figure.layout.title.text
    pages.raster.blocks.value = "1,000,000"
    pages.raster.prompts.value = "100, 2000"
    pages.raster.finished.value = "3"
    pages.raster.by.value = "request"
    shown = pages.raster.figure.figure.layout.title.text
    assert "1,000,000 blocks" in shown
    assert "numbers: requests" in shown
    pages.raster.prompts.value = "0"
    assert "at least 1" in pages.raster._error.value
    assert "wb-stale" in pages.raster.figure.widget._dom_classes
    pages.raster.prompts.value = ""
    assert pages.raster._error.value == ""
    assert "wb-stale" not in pages.raster.figure.widget._dom_classes


def test_an_unforeseen_error_is_shown_in_the_tab(monkeypatch):
    panel = panel_of(FIRST)

    def planted(*_args: Any, **_kwargs: Any) -> Any:
        raise RuntimeError("planted by a test")

    monkeypatch.setattr("workbench.views.bytes.rows.map_picture", planted)
    panel.level.value = "tensor"
    assert [error.summary for error in panel.session.errors] == ["RuntimeError: planted by a test"]
    assert "planted by a test" in panel._error.value
    monkeypatch.undo()
    panel.level.value = "head"
    assert panel._error.value == ""
    assert_drawn(panel)


NEW = wb.Scenario(model="qwen3.5-4b", rules="0.33")


def test_the_one_allocation_of_0_33_in_all_its_orders():
    panel = panel_of(NEW)
    assert_drawn(panel, byte_map(wb.resolve(NEW), num_blocks=3))
    assert [name for name, _value in panel.layout.options][1:3] == ["LBNHC", "LBHNC"]
    assert panel.compare.disabled
    panel.layout.value = "BLHNC"
    assert_drawn(panel, byte_map(wb.resolve(NEW), num_blocks=3, layout="BLHNC"))
    panel.byte.value = "4711"
    assert "of the one allocation" in panel._answer.value
    assert "(order BLHNC)" in panel._answer.value
    panel.show(wb.resolve(FIRST))
    assert [name for name, _value in panel.layout.options][1:] == ["NHD", "HND"]
    assert not panel.compare.disabled
    assert panel.session.errors == []


def test_a_layout_that_a_backend_cannot_read_is_refused_in_vllms_words():
    panel = panel_of(wb.Scenario(model="llama-3.1-8b", backend="FLEX_ATTENTION", rules="0.33"))
    panel.layout.value = "LBHNC"
    assert is_stale(panel)
    assert "does not satisfy every supported set" in message(panel)
