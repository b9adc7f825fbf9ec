"""Small multiples of the block size: one chart per backend, one bar per tensor-parallel size."""

from __future__ import annotations

import pytest

from tests.views.plans import EVIL, evil_config, plan_of
from workbench.scenario.resolution import resolve
from workbench.views.figures import block_sizes
from workbench.views.pages.sizes_figure import MAX_COLUMNS, sized_columns
from workbench.views.palette import CURRENT, THEMES

SIZES = (1, 2, 3, 4)


@pytest.fixture(scope="module")
def plan():
    return plan_of(model="nemotron-3-nano-30b-a3b", backend="FLASH_ATTN", tensor_parallel=2)


@pytest.fixture(scope="module")
def grid(plan):
    return plan.across(SIZES)


def bars(figure):
    return [trace for trace in figure.data if trace.type == "bar"]


def crosses(figure):
    return [trace for trace in figure.data if trace.type == "scatter"]


def test_one_chart_per_backend_and_one_bar_per_size(grid):
    figure = block_sizes(grid)
    assert len(bars(figure)) == len(crosses(figure)) == len(grid.rows) > MAX_COLUMNS
    titles = [note.text for note in figure.layout.annotations]
    assert titles == list(grid.rows)
    for row, chart in zip(grid.rows, bars(figure), strict=True):
        expected = [grid.cell(row, size).plan for size in SIZES]
        assert list(chart.x) == [str(size) for size in SIZES]
        assert list(chart.y) == [p.block_size if p else None for p in expected]
        assert list(chart.text) == [f"{p.block_size:,}" if p else "" for p in expected]


def test_refused_sizes_have_a_cross_and_the_reason(grid):
    for marks in crosses(block_sizes(grid)):
        assert list(marks.x) == ["3"]
        assert "3" in marks.customdata[0]


def test_only_the_present_scenario_is_highlighted(grid, plan):
    chosen = [
        (chart_number, column)
        for chart_number, chart in enumerate(bars(block_sizes(grid, plan)))
        for column, colour in enumerate(chart.marker.color)
        if colour == CURRENT
    ]
    assert chosen == [(grid.rows.index("FLASH_ATTN"), SIZES.index(2))]


def test_what_would_not_start_is_crossed_not_only_coloured(grid):
    for row, chart in zip(grid.rows, bars(block_sizes(grid)), strict=True):
        cells = [grid.cell(row, size).plan for size in SIZES]
        assert list(chart.marker.pattern.shape) == ["x" if p and p.errors else "" for p in cells]


@pytest.mark.parametrize("theme", THEMES)
def test_themes(grid, theme):
    figure = block_sizes(grid, theme=theme)
    assert figure.layout.font.color == THEMES[theme].text
    assert figure.layout.paper_bgcolor == THEMES[theme].paper


def test_the_same_grid_gives_the_same_figure(grid, plan):
    assert block_sizes(grid, plan).to_json() == block_sizes(plan.across(SIZES), plan).to_json()


def test_the_trace_count_depends_on_the_rows_only(plan):
    other = plan.across((1, 8))
    assert len(block_sizes(other).data) == len(block_sizes(plan.across(SIZES)).data)


def test_no_name_reaches_the_figure():
    plan = resolve(model=evil_config())
    assert plan.model.name == EVIL
    assert "<img" not in block_sizes(plan.across(SIZES), plan).to_json()


def test_a_model_without_attention_gives_an_empty_figure():
    assert block_sizes(plan_of(model="mamba-2.8b").across()).data == ()


def test_the_present_size_is_always_among_the_columns(plan):
    assert sized_columns(plan, (1, 4)) == (1, 2, 4)


def test_the_engines_choice_is_marked_like_an_explicit_backend():
    chosen = plan_of(model="nemotron-3-nano-30b-a3b", tensor_parallel=2)
    assert chosen.settings.backend is None
    figure = block_sizes(chosen.across(SIZES), chosen)
    marked = [
        (row, size)
        for row, chart in zip(chosen.across(SIZES).rows, bars(figure), strict=True)
        for size, colour in zip(SIZES, chart.marker.color, strict=True)
        if colour == CURRENT
    ]
    assert marked == [(chosen.backend, 2)]
