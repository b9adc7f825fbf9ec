"""Pipeline stages: groups projected on ranks, the fewest blocks of any, what the others lose."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench as wb
from tests.core.strategies import scenarios
from workbench.core.capacity.pipeline import layers_of_stages, pipeline, projected
from workbench.core.errors import ScenarioError, WorkbenchError

GIB = 2**30
RULES = pytest.mark.parametrize("rules", ["0.23", "0.33"])


def plan_of(model, rules="0.23", **fields):
    given = {"kv_cache_memory_bytes": 20 * GIB, "max_model_len": 32768, **fields}
    return wb.resolve(wb.Scenario(model=model, rules=rules, **given))


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
    ],
)
def test_what_is_left_over_goes_to_the_middle(layers, stages, sizes):
    """The docstring of `get_pp_indices`: not to the last stage, then not to the first."""
    found = layers_of_stages(layers, stages)
    assert [len(part) for part in found] == sizes
    assert [number for part in found for number in part] == list(range(layers))


@RULES
def test_groups_are_projected_with_the_stride_of_the_whole_model(rules):
    """Qwen3.5-4B: 8 layers in each of 4 groups, 4 of them in each of two stages."""
    plan = plan_of("qwen3.5-4b", rules, gdn_flashinfer_prefill=False)
    found = pipeline(plan, 2)
    assert plan.cache.num_blocks == 20 * GIB // 2_162_688 // 8 == 1241
    assert found.num_blocks == 20 * GIB // 2_162_688 // 4 == 2482
    first, second = (stage.grouping for stage in found.stages)
    assert [len(group.layers) for group in first.groups] == [4, 4, 4, 4]
    assert {*first.groups[0].layers} | {*second.groups[0].layers} == {*plan.cache.groups[0].layers}


@RULES
def test_the_stage_with_the_fewest_blocks_decides(rules):
    """Nemotron-3-Nano in three stages: the middle one has three attention layers, others two."""
    plan = plan_of("nemotron-3-nano-30b-a3b", rules)
    assert plan.model.num_hidden_layers == 52
    found = pipeline(plan, 3)
    assert [stage.grouping.group_size for stage in found.stages] == [2, 3, 2]
    assert [stage.room_blocks for stage in found.stages] == [5002, 3335, 5002]
    page = plan.cache.groups[0].spec.page_size_bytes
    assert found.num_blocks == 3335
    assert [found.imbalance_bytes(n) for n in range(3)] == [1667 * 2 * page, 0, 1667 * 2 * page]


@RULES
def test_stages_with_plain_layers_take_more(rules):
    """TurboQuant keeps the first and the last two layers plain: the middle stages idle."""
    plan = plan_of("llama-3.1-8b", rules, kv_cache_dtype="turboquant_4bit_nc")
    found = pipeline(plan, 4)
    sizes = [stage.grouping.bytes_per_block for stage in found.stages]
    assert sizes[0] == sizes[3] > sizes[1] == sizes[2]
    assert sum(sizes) == plan.cache.grouping.bytes_per_block
    assert found.num_blocks == found.stages[0].room_blocks < found.stages[1].room_blocks


def test_memory_of_each_stage_and_a_stage_that_stops():
    plan = plan_of("qwen3.5-4b")
    found = pipeline(plan, 2, (20 * GIB, GIB // 4))
    assert found.num_blocks == found.stages[1].room_blocks < found.stages[0].room_blocks
    assert [stage.is_too_small for stage in found.stages] == [False, True]
    override = plan_of("qwen3.5-4b", num_gpu_blocks_override=100)
    assert pipeline(override, 4).num_blocks == 100
    unknown = plan_of("qwen3.5-4b", kv_cache_memory_bytes=None)
    assert pipeline(unknown, 2).num_blocks is None
    assert pipeline(unknown, 2).imbalance_bytes(0) is None


def test_the_null_block_of_each_stage_is_held_back_since_0_33():
    old, new = (pipeline(plan_of("qwen3.5-4b", rules), 2).stages[0] for rules in ("0.23", "0.33"))
    assert old.checked_bytes == 20 * GIB
    assert new.checked_bytes == 20 * GIB - new.grouping.bytes_per_block


def test_hidden_states_are_kept_on_the_last_stage():
    plan = plan_of("llama-3.1-8b", hidden_state_layers=2, num_speculative_tokens=1)
    found = pipeline(plan, 2)
    assert found.stages[1].grouping.groups[0].layers[-1] == "model.cache_only_layers.32"
    assert found.stages[0].room_blocks > found.stages[1].room_blocks == found.num_blocks


@pytest.mark.parametrize("stages", [0, -1, 33, 2.5, True, "2"])
def test_stages_that_cannot_be(stages):
    with pytest.raises(ScenarioError, match="Nearest valid value"):
        pipeline(plan_of("qwen3.5-4b"), stages)


def test_sizes_for_other_stages():
    with pytest.raises(ScenarioError, match="2 stages have 2 memory sizes; got 1"):
        pipeline(plan_of("qwen3.5-4b"), 2, (1,))


@given(scenario=scenarios(memory=True), stages=st.integers(1, 5))
def test_every_layer_is_on_one_stage_and_memory_adds_up(scenario, stages):
    try:
        plan = wb.resolve(scenario)
        found = pipeline(plan, stages)
    except (WorkbenchError, ValueError):
        return
    kept = [name for stage in found.stages for g in stage.grouping.groups for name in g.layers]
    assert sorted(kept) == sorted(name for group in plan.cache.groups for name in group.layers)
    assert projected(plan.cache.grouping, range(10**6)).bytes_per_block == (
        plan.cache.grouping.bytes_per_block
    )
    if found.num_blocks is None:
        return
    assert found.num_blocks >= plan.cache.num_blocks
    for number, stage in enumerate(found.stages):
        if stage.room_blocks is None or stage.available_bytes < 0:
            continue
        one, imbalance = stage.grouping.bytes_per_block, found.imbalance_bytes(number)
        rest = stage.available_bytes - found.num_blocks * one - imbalance
        assert 0 <= rest < one
