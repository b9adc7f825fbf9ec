"""What prompts leave in the host pool, against a slow count of every block of every group."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench as wb
from workbench.core.groups.cache_spec import CacheSpec
from workbench.core.offload.fill import _attention_blocks, _full_attention_block, stored_prompt
from workbench.core.offload.plan import OffloadRequest, offload
from workbench.core.prefix.hits import caching_of

GIB = 2**30


@cache
def plan_of(model, **fields):
    return wb.resolve(model=model, enable_prefix_caching=True, **fields)


@cache
def offload_of(model, factor=1, **fields):
    plan = plan_of(model, **fields)
    size = plan.cache.groups[0].spec.block_size * factor
    return plan, offload(plan, OffloadRequest(size, 64 * GIB))


MODELS = (
    ("qwen3.5-4b", {}),
    ("qwen3.5-4b", {"max_num_batched_tokens": 600}),
    ("nemotron-nano-9b-v2", {}),
    ("bamba-9b", {}),
    ("jamba-1.5-mini", {}),
    ("lfm2-1.2b", {}),
    ("llama-3.1-8b", {}),
    ("mamba-codestral-7b", {}),
)


@given(st.sampled_from(MODELS), st.integers(1, 4), st.integers(1, 20_000))
def test_every_stored_block_is_counted(model, factor, prompt):
    name, fields = model
    plan, found = offload_of(name, factor, **fields)
    stored = stored_prompt(plan, found, prompt)
    kept = set(caching_of(plan).prefill(prompt).checkpoints)
    attention = states = 0
    for group in plan.cache.groups:
        size = group.spec.block_size * factor
        ends = range(size, prompt + 1, size)
        if group.spec.is_mamba:
            states += len(kept.intersection(ends))
        else:
            attention += len(ends)
    assert (stored.attention_blocks, stored.state_blocks) == (attention, states)
    assert stored.loadable_tokens <= prompt
    assert stored.loadable_tokens % found.gpu_block_sizes[0] == 0
    if any(group.spec.is_mamba for group in plan.cache.groups):
        assert stored.loadable_tokens in kept | {0}
    if stored.blocks:
        assert stored.requests * stored.blocks <= found.cpu_blocks
        assert (stored.requests + 1) * stored.blocks > found.cpu_blocks


def test_the_blocks_of_a_known_prompt():
    """vllm#45238's lengths: 2,200 tokens, budget 2,048, block 528: states at 1,584 and 2,112."""
    plan, found = offload_of("qwen3.5-4b")
    stored = stored_prompt(plan, found, 2200)
    assert (stored.attention_blocks, stored.state_blocks) == (4, 3 * 2)
    assert stored.loadable_tokens == 2112
    plan, found = offload_of("qwen3.5-4b", 2)
    stored = stored_prompt(plan, found, 2200)
    assert (stored.attention_blocks, stored.state_blocks) == (2, 3 * 1)


def test_a_prompt_below_a_block_leaves_nothing():
    plan, found = offload_of("qwen3.5-4b")
    stored = stored_prompt(plan, found, 527)
    assert (stored.blocks, stored.loadable_tokens, stored.requests) == (0, 0, None)
    assert stored.held_tokens is None


def test_a_prompt_that_is_never_scheduled_leaves_nothing():
    plan, found = offload_of("qwen3.5-4b", max_num_batched_tokens=100)
    assert stored_prompt(plan, found, 5000).blocks == 0


def test_blocks_of_a_window_that_no_hit_reaches_stay_out():
    """Window 128 and blocks of 16 with full attention of 16: all are stored."""
    plan, found = offload_of("gpt-oss-20b")
    groups = plan.cache.groups
    assert any(group.spec.window_tokens for group in groups)
    assert stored_prompt(plan, found, 1600).attention_blocks == 100 * len(groups)


@pytest.mark.parametrize(
    ("blocks", "expected"), [(0, 0), (3, 1), (4, 2), (7, 3), (8, 4), (10, 4), (11, 5)]
)
def test_tails_of_segments(blocks, expected):
    """Window 8, blocks of 4, full attention 16: the last two of every four (0.23's own example)."""
    spec = CacheSpec("SlidingWindowSpec", 4, 64, 8)
    assert _attention_blocks(blocks, 4, spec, 16) == expected


def test_the_block_of_a_state_is_none_of_full_attention():
    specs = [
        CacheSpec("MambaSpec", 128, 64, None),
        CacheSpec("FullAttentionSpec", 16, 64, None),
        CacheSpec("SlidingWindowSpec", 4, 64, 8),
    ]
    assert _full_attention_block(specs, [128, 16, 4]) == 16


def test_after_a_failed_check_nothing_is_computed():
    plan = wb.resolve(model="qwen3.5-4b")
    with pytest.raises(ValueError, match="does not start"):
        stored_prompt(plan, offload(plan, OffloadRequest(cpu_bytes_to_use=GIB)), 100)
    plan, found = offload_of("qwen3.5-4b")
    with pytest.raises(ValueError, match="at least 1"):
        stored_prompt(plan, found, 0)
