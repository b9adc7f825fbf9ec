"""Widths of block tables, what a request has in its rows, and the pool that hands blocks out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench as wb
from workbench.core.tables.block_pool import NULL_BLOCK, BlockPool, PoolIsEmptyError
from workbench.core.tables.rows import (
    capacity_text,
    expanded_row,
    null_entries,
    row_blocks,
    row_length,
    table_holds,
)


def groups_of(**values):
    plan = wb.resolve(max_model_len=32768, max_num_batched_tokens=8192, **values)
    mamba = next((group for group in plan.cache.groups if group.spec.is_mamba), None)
    attention = next((group for group in plan.cache.groups if not group.spec.is_mamba), None)
    return plan, attention, mamba


def test_rows_of_large_blocks_are_exactly_as_long_as_the_longest_request():
    plan, attention, mamba = groups_of(model="qwen3.5-4b")
    assert (attention.spec.block_size, row_blocks(plan, attention)) == (528, 63)
    assert row_blocks(plan, mamba) == 1


def test_rows_of_small_blocks_are_rounded_up_to_128_tokens():
    plan, attention, _mamba = groups_of(model="llama-3.1-8b", block_size=48)
    assert row_blocks(plan, attention) == 684  # 683 blocks of 48, in pairs: 128 // 48 is 2


def test_with_prefix_caching_a_row_of_states_has_an_entry_a_block():
    fields = {"model": "qwen3.5-4b", "enable_prefix_caching": True, "num_speculative_tokens": 3}
    plan, attention, mamba = groups_of(**fields)
    assert plan.mamba_cache_mode == "align"
    assert row_blocks(plan, mamba) == row_blocks(plan, attention) + 3


def test_what_a_request_has_in_its_rows():
    plan, attention, mamba = groups_of(model="qwen3.5-4b")
    assert [row_length(plan, attention, n) for n in (0, 1, 528, 529)] == [0, 1, 1, 2]
    assert [row_length(plan, mamba, n) for n in (0, 1, 528, 32768)] == [0, 1, 1, 1]
    assert null_entries(plan, mamba, 1) == 0
    plan, _attention, mamba = groups_of(model="qwen3.5-4b", enable_prefix_caching=True)
    size = mamba.spec.block_size
    lengths = [row_length(plan, mamba, n * size) for n in (1, 2, 5)]
    assert lengths == [1, 2, 5]
    assert [null_entries(plan, mamba, n) for n in lengths] == [0, 0, 3]


@pytest.mark.parametrize("length", [1, 3, 256])
def test_blocks_before_the_window_of_the_next_token_are_null(length):
    plan = wb.resolve(model="gemma-3-27b")
    sliding, *_ = (one for one in plan.cache.groups if one.spec.window_tokens)
    size, window = sliding.spec.block_size, sliding.spec.window_tokens
    for computed in range(window + 4 * size):
        first = max(0, computed + 1 - window)
        unseen = [block for block in range(length) if (block + 1) * size <= first]
        assert null_entries(plan, sliding, length, computed) == len(unseen)


@given(st.integers(1, 50), st.lists(st.integers(0, 12), max_size=30), st.randoms())
def test_a_block_has_one_owner_and_none_is_lost(num_blocks, wishes, random):
    pool, owned = BlockPool(num_blocks), []
    for wish in wishes:
        free = pool.free_blocks
        if wish <= free:
            owned.append(pool.take(wish))
        else:
            with pytest.raises(PoolIsEmptyError) as caught:
                pool.take(wish)
            assert (caught.value.needed, caught.value.free) == (wish, free)
            assert pool.free_blocks == free
            if owned:
                pool.give_back((NULL_BLOCK, *owned.pop(random.randrange(len(owned)))))
        taken = [block for blocks in owned for block in blocks]
        assert len(taken) == len(set(taken))
        assert NULL_BLOCK not in taken
        assert len(taken) + pool.free_blocks == num_blocks - 1


def test_an_empty_pool_says_what_is_missing():
    with pytest.raises(PoolIsEmptyError, match="2 more blocks needed, and 1 of the pool"):
        BlockPool(2).take(2)


def test_0_33_rounds_rows_to_128_tokens_whatever_the_block_is_and_never_those_of_states():
    plan, attention, mamba = groups_of(
        model="qwen3.5-4b", rules="0.33", gdn_flashinfer_prefill=False
    )
    assert table_holds(plan) == "manager blocks"
    assert (attention.spec.block_size, row_blocks(plan, attention)) == (528, 64)  # gcd 16: by 8
    assert mamba.spec.block_size == 528  # prefix caching is on by default: align mode
    assert row_blocks(plan, mamba) == 63
    plan, attention, mamba = groups_of(
        model="qwen3.5-4b", rules="0.33", enable_prefix_caching=False, num_speculative_tokens=2
    )
    assert row_blocks(plan, mamba) == 3
    assert table_holds(groups_of(model="qwen3.5-4b")[0]) == "kernel blocks"


def test_kernel_blocks_are_made_of_manager_blocks_at_the_attention_group():
    assert expanded_row((4, 2), 2) == (8, 9, 4, 5)
    assert expanded_row((), 3) == ()


def test_a_row_that_is_too_short_has_vllms_message():
    assert capacity_text(3, 1, 64, 64) is None
    said = "Block table write for request 3, group 1 exceeds row capacity (65 > 64)"
    assert capacity_text(3, 1, 65, 64) == said


def test_a_block_of_one_kernel_block_is_itself():
    assert expanded_row((4, 2), 1) == (4, 2)
