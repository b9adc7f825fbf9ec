"""Pools without a block, lengths that are none, and the length that vLLM fits by itself."""

from __future__ import annotations

from functools import partial

import pytest

import workbench as wb
from workbench.core.capacity.occupancy import pool_use, requests_that_fit, waste
from workbench.core.capacity.separate_pools import separate_pools
from workbench.core.layouts.error import LayoutError
from workbench.core.layouts.runners import runner_verdicts
from workbench.views.capacity.html import pool_html
from workbench.views.figures import capacity, memory_bar, page_map, pool_raster, shared_or_separate

GIB = 2**30
EMPTY = {
    "below a page": {"kv_cache_memory_bytes": 10**6},
    "nothing": {"kv_cache_memory_bytes": 0},
    "weights too large": {"device_memory_bytes": 8 * GIB, "weights_bytes": 9 * GIB},
}
LENGTHS = [0, -5, 1.5, True + 0.5, "x", 10**9, None]


def plan_of(model="qwen3.5-4b", **values):
    return wb.resolve(wb.Scenario(model=model, **values))


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


def test_an_override_names_the_number_that_it_replaces():
    plan = plan_of(kv_cache_memory_bytes=20 * GIB, num_gpu_blocks_override=2000)
    blocks = plan_of(kv_cache_memory_bytes=20 * GIB).cache.num_blocks
    said = f"Overriding num_gpu_blocks={blocks} with num_gpu_blocks_override=2000"
    assert said in plan.log_lines
    assert not any("Overriding" in line for line in plan_of(num_gpu_blocks_override=9).log_lines)
