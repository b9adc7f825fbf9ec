"""Pipeline stages: groups projected on ranks, the fewest blocks of any, what the others lose."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench as wb
from tests.core.strategies import scenarios
from tests.models.configs import llama
from workbench.core.errors import WorkbenchError
from workbench.core.groups.pipeline import layers_of_stages, projected
from workbench.core.runner import concurrent_batches
from workbench.models.catalog import catalog_config

GIB = 2**30
KINDS = ["sliding_attention", "full_attention"]
RULES = pytest.mark.parametrize("rules", ["0.23", "0.33"])


def plan_of(model, stages, rules="0.23", **fields):
    given = {"kv_cache_memory_bytes": 20 * GIB, "max_model_len": 32768, **fields}
    return wb.resolve(model=model, rules=rules, pipeline_parallel=stages, **given)


@pytest.mark.parametrize(
    ("layers", "stages", "sizes"),
    [
        (32, 1, [32]),
        (32, 2, [16, 16]),
        (32, 3, [11, 11, 10]),
        (27, 2, [14, 13]),
        (27, 4, [7, 7, 7, 6]),
        (10, 4, [2, 3, 3, 2]),
        (5, 4, [1, 1, 2, 1]),
        (3, 3, [1, 1, 1]),
        (2, 4, [0, 1, 1, 0]),
    ],
)
def test_what_is_left_over_goes_to_the_middle(layers, stages, sizes):
    """The docstring of `get_pp_indices`: not to the last stage, then not to the first."""
    found = layers_of_stages(layers, stages)
    assert [len(part) for part in found] == sizes
    assert [number for part in found for number in part] == list(range(layers))


@given(layers=st.lists(st.integers(0, 40), min_size=1, max_size=6))
def test_stages_have_the_layers_that_they_are_given(layers):
    found = layers_of_stages(sum(layers), len(layers), tuple(layers))
    assert [len(part) for part in found] == layers
    assert [number for part in found for number in part] == list(range(sum(layers)))


@RULES
@pytest.mark.parametrize("layers", [(20, 12), (12, 20), (31, 1)])
def test_the_fullest_stage_limits_the_cache(rules, layers):
    """Qwen3-4B with 36 layers of one kind: a block takes as many bytes as a stage has layers."""
    layers = (*layers[:-1], layers[-1] + 4)
    plan = plan_of("qwen3-4b", 2, rules, pipeline_layers=layers)
    assert plan.trace.step("pipeline_stages").result == [*layers]
    page = plan.attention_page_size_bytes
    assert plan.cache.num_blocks == 20 * GIB // page // max(layers)
    even = plan_of("qwen3-4b", 2, rules)
    assert plan_of("qwen3-4b", 2, rules, pipeline_layers=(18, 18)).cache == even.cache


@RULES
def test_groups_are_projected_with_the_stride_of_the_whole_model(rules):
    """Qwen3.5-4B: 8 layers in each of 4 groups, 4 of them in each of two stages."""
    whole = plan_of("qwen3.5-4b", 1, rules, gdn_flashinfer_prefill=False).cache
    cache = plan_of("qwen3.5-4b", 2, rules, gdn_flashinfer_prefill=False).cache
    assert whole.num_blocks == 20 * GIB // 2_162_688 // 8 == 1241
    assert cache.num_blocks == 20 * GIB // 2_162_688 // 4 == 2482
    assert whole.stages == ()
    first, second = (stage.grouping for stage in cache.stages)
    assert [len(group.layers) for group in first.groups] == [4, 4, 4, 4]
    assert {*first.groups[0].layers} | {*second.groups[0].layers} == {*whole.groups[0].layers}


@RULES
def test_the_stage_with_the_fewest_blocks_decides(rules):
    """Nemotron-3-Nano in three stages: the middle one has three attention layers, others two."""
    cache = plan_of("nemotron-3-nano-30b-a3b", 3, rules).cache
    assert [stage.grouping.group_size for stage in cache.stages] == [2, 3, 2]
    assert [stage.room_blocks for stage in cache.stages] == [5002, 3335, 5002]
    page = cache.groups[0].spec.page_size_bytes
    assert {cache.num_blocks, *(stage.num_blocks for stage in cache.stages)} == {3335}
    assert [stage.unused_bytes for stage in cache.stages] == [1667 * 2 * page, 0, 1667 * 2 * page]


def test_a_stage_without_attention_aligns_nothing():
    """Every worker aligns by its own layers: 0.33 pads what is left, 0.23 stops."""
    new = plan_of("nemotron-3-nano-30b-a3b", 8, "0.33", enable_prefix_caching=True)
    sizes = {group.spec.block_size for group in new.cache.groups}
    assert sizes == {new.block_size, 16}
    assert new.cache.hash_block_size == 16
    old = plan_of("nemotron-3-nano-30b-a3b", 8, "0.23")
    assert old.cache is None
    assert {problem.code for problem in old.errors} == {"pages_not_equal"}


def test_stages_with_plain_layers_take_more():
    """TurboQuant keeps the first and the last two layers plain: the middle stages idle."""
    cache = plan_of("llama-3.1-8b", 4, kv_cache_dtype="turboquant_4bit_nc").cache
    sizes = [stage.grouping.bytes_per_block for stage in cache.stages]
    assert sizes[0] == sizes[3] > sizes[1] == sizes[2]
    assert cache.num_blocks == cache.stages[0].room_blocks < cache.stages[1].room_blocks


def test_every_stage_takes_the_block_that_its_own_backends_share():
    """0.33: the first stage takes FlashAttention's block of 32 tokens, the others TurboQuant's."""
    cache = plan_of("llama-3.1-8b", 4, "0.33", kv_cache_dtype="turboquant_4bit_nc").cache
    sizes = [[(len(g.layers), g.spec.block_size) for g in one.groups] for one in cache.stages]
    assert sizes[0][:4] == [(2, 64), (3, 32), (3, 32), (0, 64)]
    assert [stage.room_blocks for stage in cache.stages] == [27306, 40960, 40960, 40960]


def test_memory_of_each_rank_and_a_stage_that_stops():
    found = {"kv_cache_memory_bytes": None, "kv_cache_memory_bytes_by_rank": (20 * GIB, GIB // 4)}
    plan = plan_of("qwen3.5-4b", 2, **found)
    stages = plan.cache.stages
    assert plan.cache.num_blocks == stages[1].room_blocks < stages[0].room_blocks
    assert [stage.is_too_small for stage in stages] == [False, True]
    assert [problem.code for problem in plan.errors] == ["not_enough_memory"]
    assert plan_of("qwen3.5-4b", 4, num_gpu_blocks_override=100).cache.num_blocks == 100
    unknown = plan_of("qwen3.5-4b", 2, kv_cache_memory_bytes=None).cache
    assert unknown.num_blocks is None
    assert unknown.unused_bytes is None


def test_the_null_block_of_each_stage_is_held_back_since_0_33():
    old, new = (plan_of("qwen3.5-4b", 2, rules).cache.stages[0] for rules in ("0.23", "0.33"))
    assert old.checked_bytes == 20 * GIB
    assert new.checked_bytes == 20 * GIB - new.grouping.bytes_per_block


def test_what_drafts_is_on_the_last_stage():
    plan = plan_of("qwen3.5-4b", 2, "0.33", num_speculative_tokens=1)
    names = [{n for g in stage.groups for n in g.layers} for stage in plan.cache.stages]
    assert plan.drafter.layers[0].number == 32
    assert [sum(".32." in name for name in one) for one in names] == [0, 1]


def test_a_batch_of_every_stage_is_under_way():
    """VllmConfig.max_concurrent_batches, and windows that hold their tokens from 0.33 on."""
    alone, staged = (plan_of("gemma-3-27b", stages, "0.33") for stages in (1, 4))
    assert [concurrent_batches(plan) for plan in (alone, staged)] == [2, 5]
    assert staged.cache.blocks_per_request > alone.cache.blocks_per_request
    old = [plan_of("gemma-3-27b", stages, "0.23").cache for stages in (1, 4)]
    assert old[0].blocks_per_request == old[1].blocks_per_request


@RULES
def test_the_memory_of_stages_has_the_vocabularies_at_both_ends(rules):
    plan = wb.resolve(
        model="llama-3.1-70b", rules=rules, device="H100", tensor_parallel=2, pipeline_parallel=4
    )
    stages = plan.memory().stages
    first, second, _third, last = (stage.weights_bytes for stage in stages)
    vocabulary = 128_256 // 2 * 8192 * 2
    norm = 8192 * 2
    assert (first - second, last - second) == (vocabulary, vocabulary + norm)
    assert min(stage.cache_bytes for stage in stages) == stages[-1].cache_bytes
    assert [stage.layers for stage in stages] == [range(n, n + 20) for n in range(0, 80, 20)]


@given(scenario=scenarios(memory=True), stages=st.integers(2, 5))
def test_every_layer_is_on_one_stage_and_memory_adds_up(scenario, stages):
    try:
        scenario = scenario.replace(pipeline_parallel=stages, kv_cache_memory_bytes_by_rank=None)
        plan = wb.resolve(scenario)
    except WorkbenchError:
        return
    cache, whole = plan.cache, plan.grouping
    if cache is None:
        return
    kept = [name for stage in cache.stages for group in stage.groups for name in group.layers]
    assert sorted(kept) == sorted(name for group in whole.groups for name in group.layers)
    assert projected(whole, range(10**6)).bytes_per_block == whole.bytes_per_block
    if cache.num_blocks is None:
        return
    for stage in cache.stages:
        if stage.room_blocks is None or stage.available_bytes < 0:
            continue
        one, unused = stage.grouping.bytes_per_block, stage.unused_bytes
        assert 0 <= stage.available_bytes - cache.num_blocks * one - unused < one


@RULES
def test_a_group_of_a_stage_is_padded_to_the_largest_unless_groups_share_an_allocation(rules):
    whole = plan_of("nemotron-3-nano-30b-a3b", 1, rules).cache.grouping
    found = projected(whole, range(5, 40))
    layers = [len(group.layers) for group in found.groups]
    assert found.group_size == max(layers) > min(layers)
    padding = [group.padding_layers for group in found.groups]
    if whole.layout is None:
        assert [sum(both) for both in zip(layers, padding, strict=True)] == [max(layers)] * len(
            layers
        )
    else:
        assert padding == [group.padding_layers for group in whole.groups]


@given(st.integers(1, 20), st.integers(2, 4))
def test_a_stage_has_the_caches_that_its_layers_read(shared, stages):
    config = catalog_config("gemma-4-e2b")
    kinds, first = config["text_config"]["layer_types"], 35 - shared
    own = {kind: at for at, kind in enumerate(kinds[:first])}
    text = {**config["text_config"], "num_kv_shared_layers": shared}
    plan = wb.resolve(model={**config, "text_config": text}, pipeline_parallel=stages)
    starts = [part.start for part in layers_of_stages(35, stages) if part.stop > first]
    is_apart = any(start > min(own.values()) for start in starts)
    assert ("cache_shared_over_stages" in {one.code for one in plan.errors}) == is_apart


@given(
    st.lists(st.sampled_from(KINDS), min_size=11, max_size=11),
    st.integers(1, 3),
    st.sampled_from([2, 3]),
)
def test_a_head_that_is_numbered_from_its_stage_needs_the_cache_there(kinds, heads, stages):
    """Of two stages the last one has these numbers itself; of three, the second one has them."""
    kinds = [KINDS[1], *kinds]
    model = llama(
        architectures=["Olmo3ForCausalLM"],
        model_type="olmo3",
        num_hidden_layers=len(kinds),
        layer_types=kinds,
        sliding_window=4096,
    )
    head = llama(num_hidden_layers=heads, architectures=["EagleLlamaForCausalLM"])
    drafts = {"speculative_method": "eagle", "num_speculative_tokens": 1, "draft_model": head}
    plan = wb.resolve(model=model, rules="0.33", pipeline_parallel=stages, **drafts)
    found = [one.vllm_text for one in plan.problems if one.code == "drafter_over_stages"]
    if stages == 2:
        assert [text[:20] for text in found] == ["Duplicate layer name"]
    else:
        assert len(found) == (KINDS[0] in kinds[4 : 4 + heads])
        assert all("specs for the same layer" in text for text in found)
