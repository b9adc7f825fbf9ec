"""The group tree, the memory bar and the waste, for groups of every kind."""

from __future__ import annotations

import json

import pytest

import workbench as wb
from tests.models.configs import nemotron_nas
from workbench.views.capacity.html import pool_html
from workbench.views.figures import groups, memory_bar, reserved_bytes

GIB = 2**30
HIDDEN = {"hidden_state_layers": 3, "num_speculative_tokens": 1}
KINDS = {
    "hybrid": {"model": "qwen3.5-4b"},
    "padded groups": {"model": "nemotron-3-nano-30b-a3b"},
    "one page per layer": {"model": nemotron_nas()},
    "turboquant": {"model": "llama-3.1-8b", "kv_cache_dtype": "turboquant_k8v4"},
    "windows as full attention": {"model": "gemma-3-27b", "disable_hybrid_kv_cache_manager": True},
    "hidden states": {"model": "qwen3.5-4b", **HIDDEN},
    "one allocation": {"model": "gpt-oss-20b", "rules": "0.33"},
    "packed": {"model": "qwen3.5-4b", "rules": "0.33", "kv_cache_layout": "BLHNC", **HIDDEN},
    "ranks": {
        "model": "qwen3.5-4b",
        "tensor_parallel": 2,
        "kv_cache_memory_bytes_by_rank": [20 * GIB, 16 * GIB],
    },
}


def plan_of(kind):
    memory = {} if kind == "ranks" else {"kv_cache_memory_bytes": 20 * GIB}
    return wb.resolve(max_model_len=4096, **memory, **KINDS[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_every_layer_is_drawn_once_in_the_row_of_its_group(kind):
    plan = plan_of(kind)
    figure = groups(plan)
    (heatmap,) = figure.data
    assert len(heatmap.y) == len(plan.cache.groups)
    assert len(heatmap.x) == len(set(heatmap.x)) == plan.cache.grouping.group_size
    for group, row, words in zip(plan.cache.groups, heatmap.text, heatmap.customdata, strict=True):
        drawn = [word.split(",")[0] for word, text in zip(words, row, strict=True) if text != "∅"]
        assert sorted(drawn) == sorted(group.layers)
    assert len(json.dumps(figure.to_plotly_json(), default=list)) < 150_000


def test_the_tree_says_where_the_groups_are():
    assert "in 8 tensors" in groups(plan_of("hybrid")).layout.title.text
    assert "in one allocation (BLHNC)" in groups(plan_of("packed")).layout.title.text
    hidden = groups(plan_of("hidden states")).data[0]
    assert hidden.y[-1].endswith("HiddenStateCache")
    assert "of them padding" in hidden.customdata[-1][0]


def test_layers_of_one_column_share_a_tensor():
    plan = plan_of("padded groups")
    (heatmap,) = groups(plan).data
    for column, tensor in enumerate(plan.cache.tensors):
        drawn = {row[column].split(",")[0] for row in heatmap.customdata}
        assert drawn - {"no layer: reserved and never used"} == set(tensor.shared_by)


@pytest.mark.parametrize("kind", KINDS)
def test_the_bars_add_up_to_the_memory_and_to_what_is_reserved(kind):
    plan = plan_of(kind)
    pool = [bar for bar in memory_bar(plan, 1000).data if bar.y[0] == "cache"]
    most = max(plan.cache.rank_bytes)
    assert sum(round(bar.x[0] * GIB) for bar in pool) == pytest.approx(most, abs=len(pool))
    bars = reserved_bytes(plan).data
    for column in range(len(bars[0].x)):
        assert sum(bar.y[column] for bar in bars) == pytest.approx(1)


def test_the_bar_of_uneven_ranks_names_the_rank_and_what_it_cannot_use():
    figure = memory_bar(plan_of("ranks"), 1000)
    assert "memory of rank 0 of 2" in figure.layout.title.text
    (imbalance,) = (bar for bar in figure.data if bar.name == "rank imbalance")
    assert imbalance.showlegend
    assert 3.9 < imbalance.x[0] <= 4.1


def test_the_table_names_groups_with_one_page_per_layer():
    html = pool_html(plan_of("one page per layer"))
    assert "UniformTypeKVCacheSpecs" in html
    assert f"{16 * 2 * 128 * 2 * 13:,}" in html
