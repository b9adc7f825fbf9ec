"""Figures and texts of flex attention agree with the model, and stay small."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.views.plans import plan_of
from workbench.core.flex.batch import KINDS, mask_rule, paged_batch, stale_batch
from workbench.core.flex.build import direct_build, generic_build, visits
from workbench.core.flex.mask import MaskRule
from workbench.core.flex.plan import flex_plan, mask_memory
from workbench.core.tables.batch_grammar import parse_batch
from workbench.views.flex.figure import BLOCKS, legal_pairs, mask_memory_figure, nested_grids
from workbench.views.flex.figure import LOOKS as VERDICTS
from workbench.views.flex.mask_figure import (
    LOOKS,
    MAX_ROWS,
    logical_mask,
    physical_mask,
    visit_order,
)
from workbench.views.flex.text import TargetLimit, flex_html, targets_html, visits_html

LIMIT = 150_000
FIELDS = (
    {},
    {"flex_attn_kv_block_size": 16},
    {"block_size": 1024},
    {"flex_attn_kv_block_size": 128},
    {"flex_attn_q_block_size": 2**30, "flex_attn_kv_block_size": 2**30},
    {"torch_version": "2.8"},
    {"flex_attn_block_m": -16, "flex_attn_kv_block_size": 1},
    {"flex_attn_block_m": 0},
    {"flex_attn_q_block_size": -8, "batch_invariant": True},
)


def hybrid(**fields):
    return plan_of(model="bamba-9b", backend="FLEX_ATTENTION", **fields)


def drawn(rule, *, q=16, kv=16, batch=None, lists=None):
    batch = batch or stale_batch()
    lists = lists or direct_build(batch, rule, q)
    return batch, visits(batch, rule, lists)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("fields", FIELDS, ids=str)
@pytest.mark.parametrize("theme", ["auto", "dark"])
def test_figures_of_sizes_are_small_for_any_input(fields, theme):
    plan = hybrid(**fields)
    flex = flex_plan(plan)
    for figure in (
        nested_grids(flex, theme),
        legal_pairs(flex, theme),
        mask_memory_figure(plan, flex, theme),
    ):
        assert len(figure.to_json()) < LIMIT
    assert ("✓" in nested_grids(flex).layout.title.text) == (flex.refusals == ())
    assert len(nested_grids(flex).data) == 4


def test_a_mask_block_that_crosses_cache_blocks_is_drawn_across():
    flex = flex_plan(hybrid(flex_attn_kv_block_size=128))
    _tiles, _tile, mask, cache = nested_grids(flex).data
    assert {0, 528, 1056} <= set(cache.x)
    assert 512 in mask.x
    assert 640 in mask.x
    assert 528 not in mask.x
    assert mask.name == "mask block: 16 x 128"


def test_tiles_name_both_blocks_around_them():
    flex = flex_plan(hybrid(flex_attn_kv_block_size=16))
    words = nested_grids(flex).data[0].customdata
    assert words[34] == "tile: keys 544 to 559<br>mask block 34, cache block 1"


def test_the_matrix_marks_the_own_pair_and_gives_reasons():
    flex = flex_plan(hybrid())
    [cells] = legal_pairs(flex).data
    [frame] = legal_pairs(flex).layout.shapes
    row, column = int(frame.y0 + 0.5), int(frame.x0 + 0.5)
    assert (cells.y[row], cells.x[column]) == ("16 x 528", "auto x auto")
    assert "528" in cells.customdata[row][column]
    assert cells.text[row][column] == VERDICTS["refused"][1]
    good = cells.y.index("16 x 16"), cells.x.index("16 x 16")
    assert cells.text[good[0]][good[1]] == "G"
    assert "generic build" in cells.customdata[good[0]][good[1]]
    assert set("".join(map("".join, cells.text))) <= {look[1] for look in VERDICTS.values()}


def test_memory_follows_the_model():
    plan = hybrid(flex_attn_kv_block_size=16, max_num_seqs=100)
    flex = flex_plan(plan)
    table, lists, pairs = mask_memory_figure(plan, flex).data
    assert list(table.y) == [8 * 100 * blocks for blocks in BLOCKS]
    assert len(set(lists.y)) == 1
    assert list(pairs.y) == [mask_memory(plan, flex, blocks).pairs for blocks in BLOCKS]
    assert "assumed" not in mask_memory_figure(plan, flex).layout.title.text
    assert "256 requests assumed" in mask_memory_figure(hybrid(), flex).layout.title.text


def test_the_order_of_visits_is_that_of_the_build():
    batch, found = drawn(MaskRule())
    [cells] = visit_order(batch, found).data
    shown = [[text.lstrip("●◐✕") for text in row if text] for row in cells.text]
    assert shown == [[str(block) for block in group] for group in found.lists.visits]
    assert cells.customdata[0][6].startswith("visit 7: KV block 11, some keys visible")
    assert cells.y[0] == "group 0: requests 0-2"
    assert cells.y[1] == "group 1: request 2"


def test_the_physical_mask_has_a_sign_for_every_kind():
    batch, found = drawn(MaskRule(window=4))
    [cells] = physical_mask(batch, found).data
    assert found.wasted > 0
    for row, kinds, group in zip(cells.text, found.kinds, found.lists.visits, strict=True):
        by_block = dict(zip(group, kinds, strict=True))
        blocks = map(int, cells.x)
        assert list(row) == [LOOKS[by_block.get(block, "not visited")][1] for block in blocks]
    assert (
        f"{found.wasted} without any visible key" in physical_mask(batch, found).layout.title.text
    )


def test_the_logical_mask_counts_pairs():
    batch = stale_batch()
    [cells] = logical_mask(batch, MaskRule()).data
    assert cells.y[0] == "request 0, query 49"
    assert [value for value in cells.z[0] if value is not None] == [1.0] * 50
    assert [value for value in cells.z[1] if value is not None][-2:] == [0.0, 0.0]
    pairs = 50 + (15 + 16 + 17) + sum(range(25, 41))
    assert f"{pairs:,} pairs" in logical_mask(batch, MaskRule()).layout.title.text


@pytest.mark.parametrize("text", ["q512s4000", "64q1s60_q3s17_q16s40", "2q48_q16s700"])
def test_large_masks_are_cut_and_say_so(text):
    batch = paged_batch(parse_batch(text), 16, stale=True)
    rule = mask_rule(KINDS[-1], 200)
    found = visits(batch, rule, direct_build(batch, rule, 16))
    figures = (logical_mask(batch, rule), physical_mask(batch, found), visit_order(batch, found))
    for figure in figures:
        assert len(figure.to_json()) < LIMIT
        assert len(figure.data[0].z) <= MAX_ROWS
    if text == "q512s4000":
        assert "more columns" in figures[1].layout.title.text
        assert "more columns" in figures[2].layout.title.text


def test_text_has_sizes_refusals_and_costs():
    refused = flex_plan(hybrid())
    html = flex_html(refused)
    assert "16 x 528" in html
    assert "flex_block_not_power_of_2" in html
    assert "got 528, None" in html
    assert "ZeroDivisionError" in flex_html(
        flex_plan(hybrid(flex_attn_kv_block_size=16, flex_attn_block_n=0))
    )
    batch = stale_batch()
    lists = generic_build(batch, MaskRule(), 16, 16)
    found = visits(batch, MaskRule(), lists)
    assert f"{found.pairs:,} (" in visits_html(found, 3)
    assert "never visited" not in visits_html(found, 3)
    assert "never visited: a wrong result</td>\n<td>7<" in visits_html(replace(found, missed=7), 3)


def test_a_direct_mask_over_large_blocks_needs_more_than_there_is():
    plan = hybrid(block_size=1024)
    limit = TargetLimit("Some GPU", 227 * 1024, 227 * 1024)
    flex = flex_plan(plan, limit.seen_bytes)
    assert flex.key_tile_bytes == 1024 * plan.model.attention.head_size * 2
    assert "✕ too large" in targets_html([(limit, flex)])
    small = flex_plan(hybrid(flex_attn_kv_block_size=16), limit.seen_bytes)
    assert "not excluded" in targets_html([(limit, small)])
    assert "✕" not in targets_html([(limit, small)])


def test_a_lower_bound_never_says_that_a_tile_fits():
    fields = {"flex_attn_q_block_size": 128, "flex_attn_kv_block_size": 128}
    tile = {"flex_attn_block_m": 128, "flex_attn_block_n": 128}
    plan = plan_of(model="qwen3.5-4b", backend="FLEX_ATTENTION", **fields, **tile)
    html = targets_html([(TargetLimit("H100", 227 * 1024, 227 * 1024), flex_plan(plan))])
    assert "✓" not in html
    assert "not excluded" in html
    queries = plan_of(model="llama-3.1-8b", backend="FLEX_ATTENTION", flex_attn_q_block_size=2**20)
    assert "✕ too large" in targets_html([(TargetLimit("H100", 0, 227 * 1024), flex_plan(queries))])
