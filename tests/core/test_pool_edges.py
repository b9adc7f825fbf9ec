"""Pools without a block, lengths that are none, and the length that vLLM fits by itself."""

from __future__ import annotations

from functools import partial
from itertools import permutations

import pytest

import workbench as wb
from workbench.core.capacity.blocks import blocks_in_group, blocks_of_group
from workbench.core.capacity.occupancy import pool_use, requests_that_fit, waste
from workbench.core.capacity.separate_pools import request_bytes, separate_pools
from workbench.core.groups.grouping import Group
from workbench.core.layouts.error import LayoutError
from workbench.core.layouts.runners import runner_verdicts
from workbench.core.packing import nvfp4, ultraquant
from workbench.core.what_if.answers import answers
from workbench.views.capacity.html import pool_html
from workbench.views.figures import capacity, memory_bar, page_map, pool_raster, shared_or_separate

GIB = 2**30
EMPTY = {
    "below a page": {"kv_cache_memory_bytes": 10**6},
    "nothing": {"kv_cache_memory_bytes_by_rank": (0,)},
    "weights too large": {"device_memory_bytes": 8 * GIB, "weights_bytes": 9 * GIB},
}
LENGTHS = [0, -5, 1.5, True + 0.5, "x", 10**9, None]


def plan_of(model="qwen3.5-4b", **values):
    return wb.resolve(model=model, **values)


@pytest.mark.parametrize("case", EMPTY)
def test_a_pool_without_a_block_stays_one(case):
    plan = plan_of(**EMPTY[case])
    assert plan.cache.num_blocks == 0
    assert requests_that_fit(plan, plan.cache, 100) == 0
    assert pool_use(plan, plan.cache, 100) is None
    html = pool_html(plan)
    assert "0 blocks: nothing fits" in html
    assert "vLLM prints" not in html
    for draw in (page_map, pool_raster):
        with pytest.raises(LayoutError):
            draw(plan)
    assert all(runner_verdicts(plan).values())


def test_what_vllm_never_prints_is_not_predicted():
    stopped = plan_of(kv_cache_memory_bytes=GIB)
    assert "not_enough_memory" in {problem.code for problem in stopped.errors}
    assert "stops before it prints" in pool_html(stopped)
    assert "vLLM prints" in pool_html(plan_of(kv_cache_memory_bytes=20 * GIB))


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("model", ["qwen3.5-4b", "llama-3.1-8b"])
def test_an_invalid_prompt_length_is_refused_everywhere(model, length):
    plan = plan_of(model, kv_cache_memory_bytes=40 * GIB)
    figures = (memory_bar, capacity, shared_or_separate)
    drawn = [] if length is None else [partial(figure, plan, length) for figure in figures]
    for use in (
        lambda: requests_that_fit(plan, plan.cache, length),
        lambda: waste(plan, plan.cache, length),
        lambda: pool_use(plan, plan.cache, length),
        *drawn,
    ):
        with pytest.raises(wb.ScenarioError, match="Nearest valid value: ") as caught:
            use()
        assert caught.value.field == "prompt_tokens"
    if plan.is_hybrid:
        pools = separate_pools(plan, 100)
        with pytest.raises(wb.ScenarioError):
            pools.requests_that_fit(length)


@pytest.mark.parametrize("length", [1, 100, 5000])
def test_separate_pools_hold_whole_requests(length):
    pools = separate_pools(plan_of(kv_cache_memory_bytes=GIB), 3000)
    needed = request_bytes(pools.plan, pools.block_size, length)
    held = pools.requests_that_fit(length)
    assert type(held) is int
    sizes = pools.attention_bytes, pools.state_bytes
    assert all(held * one <= size for one, size in zip(needed, sizes, strict=True))
    assert any((held + 1) * one > size for one, size in zip(needed, sizes, strict=True))


def test_a_length_of_minus_one_is_fitted_to_the_memory():
    plan = plan_of(kv_cache_memory_bytes=GIB, max_model_len=-1, max_num_seqs=8)
    assert plan.errors == ()
    assert plan.max_model_len == plan.trace.step("auto_fit_max_model_len").result
    assert plan.cache.needed_bytes <= GIB
    longer = plan_of(kv_cache_memory_bytes=GIB, max_model_len=plan.max_model_len + 1)
    assert "not_enough_memory" in {problem.code for problem in longer.errors}
    assert plan.mamba_block_size == plan_of().max_model_len  # block sizes are not computed again
    line = f"Auto-fit max_model_len: reduced from 262144 to {plan.max_model_len} to fit"
    assert any(found.startswith(line) for found in plan.log_lines)
    roomy = plan_of(kv_cache_memory_bytes=64 * GIB, max_model_len=-1)
    assert roomy.max_model_len == plan_of().max_model_len
    assert plan_of(max_model_len=-1).max_model_len == plan_of().max_model_len


@pytest.mark.parametrize("rules", ["0.23", "0.33"])
def test_a_length_of_minus_one_is_refused_before_the_memory_is(rules):
    # get_kv_cache_configs fits the length first, also to memory of which nothing is left.
    memory = {"device_memory_bytes": 16 * GIB, "weights_bytes": 20 * GIB}
    plan = plan_of(rules=rules, max_model_len=-1, **memory)
    assert plan.errors[0].code == "cannot_auto_fit"
    assert plan_of(rules=rules, **memory).errors[0].code == "no_memory_for_blocks"


def test_an_override_names_the_number_that_it_replaces():
    plan = plan_of(kv_cache_memory_bytes=20 * GIB, num_gpu_blocks_override=2000)
    blocks = plan_of(kv_cache_memory_bytes=20 * GIB).cache.num_blocks
    said = f"Overriding num_gpu_blocks={blocks} with num_gpu_blocks_override=2000"
    assert said in plan.log_lines
    assert not any("Overriding" in line for line in plan_of(num_gpu_blocks_override=9).log_lines)


@pytest.mark.parametrize("model", ["gpt-oss-20b", "nemotron-3-nano-30b-a3b"])
@pytest.mark.parametrize("length", [1, 1000, 100_000])
def test_a_group_of_unequal_layers_has_room_for_the_one_with_most_blocks(model, length):
    plan = plan_of(model, kv_cache_memory_bytes=8 * GIB)
    specs = {group.spec for group in plan.cache.groups}
    counts = [blocks_of_group(plan, spec, length) for spec in specs]
    if length > 1000:
        assert min(counts) < max(counts)
    for order in permutations(specs):
        names = tuple(f"layer {number}" for number in range(len(order)))
        group = Group(order[0], names, own_specs=order)
        assert blocks_in_group(plan, group, length) == max(counts)


def test_a_request_takes_the_bytes_of_every_rank():
    plan = plan_of("qwen3-8b", tensor_parallel=2, kv_cache_memory_bytes=20 * GIB)
    assert answers(plan, 4096).request_bytes == 4096 * 36 * 2 * 8 * 128 * 2


def test_the_trace_says_how_the_kernel_block_comes_about():
    step = plan_of("qwen3-8b").trace.step("kernel_block_size")
    assert step.result == 16
    assert step.operands["block_size"] == 16
    assert step.operands["backend"] == "FLASH_ATTN"


def test_a_plan_prints_its_blocks_and_its_padding():
    assert repr(plan_of("qwen3-next-80b-a3b")) == (
        "qwen3-next-80b-a3b on cuda, vLLM 0.23, FLASH_ATTN: block_size 544, kernel block 544, "
        "mamba page padded by 1.49 %"
    )
    assert (
        repr(plan_of("qwen3-8b"))
        == "qwen3-8b on cuda, vLLM 0.23, FLASH_ATTN: block_size 16, kernel block 16"
    )


@pytest.mark.parametrize(
    ("packed", "size"),
    [(ultraquant(128), 64 + 64 + 4 + 4), (ultraquant(80), 40 + 40 + 2 + 2), (nvfp4(80), 90)],
)
def test_scales_are_one_byte_for_every_whole_group(packed, size):
    assert packed == size
