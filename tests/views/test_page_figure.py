"""The page figure: the bars are the bytes, and its shape never changes."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from math import prod

import plotly.graph_objects as go
import pytest

import workbench as wb
from tests.views.plans import EVIL, all_plans, evil_plan, large, plan_of, small, stateless
from workbench.core.dtypes import FLOAT_BYTES
from workbench.core.errors import ScenarioError
from workbench.views.pages.figure import (
    ATTENTION_ROW,
    BEFORE,
    MAMBA_ROW,
    MAX_RULES,
    page,
    page_layout,
    page_title,
    page_traces,
)
from workbench.views.pages.number_steps import number_steps
from workbench.views.palette import THEMES
from workbench.views.rows import plan_facts
from workbench.views.token_bytes import page_token_bytes
from workbench.views.units import bytes_text

KINDS = ["bar"] * 5 + ["scatter"] * 3
BEFORE_BAR, ATTENTION_BAR, CONV_BAR, RECURRENT_BAR, PADDING_BAR, RULES, STATE_END, _ = range(8)


@cache
def drawn():
    """(plan, traces, layout) of every plan."""
    return [(plan, page_traces(plan), page_layout(plan)) for plan in all_plans()]


def test_there_are_as_many_plans_as_the_catalog_promises():
    assert len(all_plans()) > 100


def test_number_order_and_kind_of_traces_never_change():
    for plan, traces, _ in drawn():
        assert [trace.type for trace in traces] == KINDS, plan
        rows = [trace.y[0] for trace in traces[:5]]
        assert rows == [BEFORE, ATTENTION_ROW, MAMBA_ROW, MAMBA_ROW, MAMBA_ROW], plan


def test_a_trace_never_lacks_a_property_that_another_plan_sets():
    def properties(value, path=()):
        if not isinstance(value, dict):
            return {path}
        return set().union(*(properties(item, (*path, key)) for key, item in value.items()))

    shapes = {
        tuple(frozenset(properties(trace.to_plotly_json())) for trace in traces)
        for _, traces, _ in drawn()
    }
    assert len(shapes) == 1


@pytest.mark.parametrize("theme", THEMES)
def test_only_title_and_ranges_depend_on_the_plan(theme):
    def rest(plan):
        layout = page_layout(plan, theme).to_plotly_json()
        del layout["title"]["text"], layout["xaxis"]["range"], layout["yaxis"]["range"]
        del layout["xaxis2"]["range"], layout["xaxis2"]["visible"], layout["xaxis2"]["title"]
        return json.dumps(layout)

    assert len({rest(plan) for plan in all_plans()}) == 1


def test_bars_add_up_to_the_bytes_of_the_pages():
    for plan, traces, _ in drawn():
        mamba = sum(trace.x[0] or 0 for trace in traces[CONV_BAR : PADDING_BAR + 1])
        assert mamba == (plan.final_mamba_page_size_bytes or 0), plan
        assert traces[ATTENTION_BAR].x[0] == plan.attention_page_size_bytes, plan
        assert (traces[PADDING_BAR].x[0] or 0) == plan.padding_bytes, plan
        states = zip(plan.mamba_state_shapes, plan.mamba_state_dtypes, strict=True)
        sizes = [prod(shape) * FLOAT_BYTES[dtype] for shape, dtype in states]
        shown = [traces[number].x[0] for number in (CONV_BAR, RECURRENT_BAR)]
        assert [size for size in shown if size is not None] == sizes, plan


def test_the_multiplication_in_the_hover_text_is_right():
    for plan, traces, _ in drawn():
        text = traces[ATTENTION_BAR].hovertemplate
        if plan.attention_page_size_bytes is None:
            continue
        per_token = page_token_bytes(plan)
        assert per_token * plan.block_size == plan.attention_page_size_bytes, plan
        assert f" x {per_token:,} bytes = " in text, plan


def test_a_packed_latent_cache_is_drawn_with_the_bytes_that_it_really_takes():
    plan = plan_of(model="deepseek-v3", kv_cache_dtype="fp8_ds_mla")
    assert plan.attention_bytes_per_token == 576
    assert page_token_bytes(plan) == 656
    tokens = page_layout(plan).xaxis2.range[1]
    assert tokens == pytest.approx(1.02 * plan.block_size)


@pytest.mark.parametrize("model", ["gemma-4-31b", "mimo-v2-flash", "deepseek-v3.2", "llama-3.1-8b"])
def test_one_token_is_what_the_page_has_of_it_wherever_it_is_shown(model):
    """Without states nothing is aligned, and layers have head sizes of their own."""
    plan = plan_of(model=model, kv_cache_dtype="fp8")
    [fact] = [one.text for one in plan_facts(plan) if one.name == "attention_bytes_per_token"]
    [step] = [one.text for one in number_steps(plan) if one.title == "one token"]
    assert fact == step == bytes_text(page_token_bytes(plan))
    assert page_token_bytes(plan) * plan.block_size == plan.attention_page_size_bytes


def test_an_aligned_entry_of_several_tokens_does_not_move_the_end_of_the_axis():
    plan = wb.resolve(model="deepseek-v4-pro", device="B200", tensor_parallel=8, rules="0.33")
    assert page_layout(plan).xaxis2.range[1] == pytest.approx(1.02 * plan.block_size)


def test_everything_drawn_is_inside_the_axes():
    for plan, traces, layout in drawn():
        low, high = layout.xaxis.range
        assert low == 0
        assert high > 0
        stacked = sum(trace.x[0] or 0 for trace in traces[CONV_BAR : PADDING_BAR + 1])
        single = [trace.x[0] or 0 for trace in traces[:CONV_BAR]]
        lines = [x for trace in traces[RULES : STATE_END + 1] for x in trace.x if x is not None]
        assert max(stacked, *single, *lines) <= high, plan


def test_the_token_axis_counts_the_tokens_of_the_byte_axis():
    for plan, _, layout in drawn():
        per_token = page_token_bytes(plan)
        assert layout.xaxis2.visible == (per_token is not None)
        if per_token is not None:
            assert layout.xaxis2.range[1] * per_token == pytest.approx(layout.xaxis.range[1])


def test_kernel_blocks_are_ruled_one_by_one():
    ruled = 0
    for plan, traces, _ in drawn():
        lines = traces[RULES]
        blocks = plan.kernel_blocks_per_block or 1
        expected = blocks - 1 if blocks <= MAX_RULES else 0
        assert len(lines.x) == len(lines.y) == 3 * expected, plan
        assert list(lines.x[2::3]) == [None] * expected
        ruled += expected > 0
        for number, x in enumerate(lines.x[0::3], 1):
            assert x * blocks == pytest.approx(number * plan.attention_page_size_bytes)
    assert ruled > 5


def test_the_smallest_block():
    plan = small()
    assert plan.block_size == 16
    assert page_title(plan) == "<b>16 tokens</b> in a block, 1 kernel block of 16"
    traces = page_traces(plan)
    assert [bool(trace.showlegend) for trace in traces] == [False, True] + [False] * 6
    assert traces[ATTENTION_BAR].x == (65_536,)


def test_the_largest_block():
    plan = large()
    assert plan.block_size == 8320
    assert plan.attention_bytes_per_token == 512
    assert "<b>8,320 tokens</b>" in page_title(plan)
    assert "130 kernel blocks of 64" in page_title(plan)
    assert len(page_traces(plan)[RULES].x) == 3 * 129


def test_too_many_kernel_blocks_are_counted_but_not_ruled():
    plan = plan_of(model="nemotron-3-nano-30b-a3b", num_speculative_tokens=1000)
    assert plan.kernel_blocks_per_block > MAX_RULES
    assert f"{plan.kernel_blocks_per_block} kernel blocks of 16" in page_title(plan)
    assert page_traces(plan)[RULES].x == ()


def test_a_model_without_attention():
    traces = page_traces(stateless())
    assert traces[ATTENTION_BAR].x == (None,)
    assert traces[STATE_END].x == ()
    assert page_layout(stateless()).xaxis.range[1] >= stateless().mamba_page_size_bytes


def test_the_state_end_names_the_tokens_that_the_rule_needs():
    plan = plan_of(model="nemotron-3-nano-30b-a3b")
    line = page_traces(plan)[STATE_END]
    assert set(line.x) == {plan.mamba_page_size_bytes}
    assert line.name == "state = 2,084 tokens' worth of KV"
    part = page_traces(plan_of(model="bamba-9b", tensor_parallel=2))[STATE_END]
    assert part.name == "state = 524.75 tokens' worth of KV"


@pytest.mark.parametrize("theme", THEMES)
def test_themes_colour_text_and_background(theme):
    figure = page(small(), theme)
    assert figure.layout.font.color == THEMES[theme].text
    assert figure.layout.paper_bgcolor == figure.layout.plot_bgcolor == THEMES[theme].paper
    assert figure.data[RULES].line.color == THEMES[theme].rule


def test_auto_is_transparent():
    assert THEMES["auto"].paper == "rgba(0,0,0,0)"
    assert page(small()).layout.paper_bgcolor == "rgba(0,0,0,0)"


def test_an_unknown_theme_is_an_error():
    with pytest.raises(ScenarioError, match="Allowed: auto, dark, light"):
        page(small(), "sepia")


def test_the_same_plan_gives_the_same_figure():
    for plan in all_plans()[::7]:
        again = replace(plan)
        assert page(plan).to_json() == page(again).to_json()


def test_no_name_reaches_the_figure():
    plan = evil_plan()
    assert plan.model.name == EVIL
    assert "onerror" not in page(plan).to_json()


def test_the_figure_is_a_plain_figure():
    assert not isinstance(page(small()), go.FigureWidget)


def test_no_row_without_a_part_is_drawn():
    for plan, traces, layout in drawn():
        low, high = layout.yaxis.range
        bars = [trace for trace in traces if trace.type == "bar" and trace.x[0]]
        assert {low + 0.5, high - 0.5} <= {bar.y[0] for bar in bars}, plan
        assert all(low < bar.y[0] < high for bar in bars), plan
