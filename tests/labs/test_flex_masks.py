"""torch's own masks say what the plain model says, and the order of tiles shows in the bits."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.test_flex_mask import batches, rules
from workbench.core.flex.batch import (
    KINDS,
    OrderInversion,
    mask_rule,
    order_inversion,
    paged_batch,
    stale_batch,
)
from workbench.core.flex.build import direct_build
from workbench.core.flex.mask import MaskRule
from workbench.core.tables.batch_grammar import parse_batch
from workbench.labs.flex.masks import (
    MAX_PAIRS,
    compare_with_torch,
    direct_block_mask,
    generic_block_mask,
    mask_mod,
    torch_mask,
    visited_by,
)
from workbench.labs.flex.order import accumulate, order_bits


@pytest.mark.parametrize("kind", KINDS)
def test_torch_agrees_on_every_pair_and_block(kind):
    batch = paged_batch(parse_batch("q1s50_q3s17_q16s40"), 16, stale=True)
    found = compare_with_torch(batch, mask_rule(kind, 9), 16, 16)
    assert found.pairs == 20 * batch.total_slots
    assert found.mismatch is None


@settings(max_examples=12, deadline=None)
@given(
    batches().filter(lambda batch: batch.num_tokens),
    rules,
    st.sampled_from([1, 4, 16]),
    st.sampled_from([2, 4, 16]),
)
def test_torch_agrees_on_any_small_batch(batch, rule, q, kv):
    assert compare_with_torch(batch, rule, q, kv).mismatch is None


def test_a_difference_is_found_and_reported(monkeypatch):
    batch = stale_batch()
    lists = direct_build(batch, MaskRule(), 16)
    monkeypatch.setattr(
        "workbench.labs.flex.masks.sees", lambda *args: bool(args[2] == 3 and args[3] == 5)
    )
    assert (
        "token 0, slot 16: torch says True"
        in compare_with_torch(batch, MaskRule(), 16, 16).mismatch
    )
    assert visited_by(direct_block_mask(batch, MaskRule(), lists)) == lists.visits


def test_too_many_pairs_are_refused():
    batch = paged_batch(parse_batch("8q1s8000"), 528)
    large = paged_batch(parse_batch("4q100s3000"), 528)
    assert batch.num_tokens * batch.total_slots < MAX_PAIRS
    assert large.num_tokens * large.total_slots > MAX_PAIRS
    with pytest.raises(ValueError, match="too many"):
        compare_with_torch(large, MaskRule(), 16, 16)


def test_real_flex_attention_gives_the_same_over_both_builds():
    from torch.nn.attention.flex_attention import flex_attention

    batch, rule = stale_batch(), MaskRule()
    generator = torch.Generator().manual_seed(1)
    q, k, v = (
        torch.randn(1, 2, rows, 32, generator=generator)
        for rows in (batch.num_tokens, batch.total_slots, batch.total_slots)
    )
    masks = [
        generic_block_mask(batch, rule, 16, 16),
        direct_block_mask(batch, rule, direct_build(batch, rule, 16)),
    ]
    outputs = [flex_attention(q, k, v, block_mask=mask) for mask in masks]
    dense = torch.nn.functional.scaled_dot_product_attention(
        q.double(), k.double(), v.double(), attn_mask=torch_mask(batch, rule)
    )
    for output in outputs:
        assert torch.allclose(output.double(), dense, atol=1e-5)


def test_the_order_of_tiles_shows_in_the_bits():
    batch = stale_batch()
    found = order_inversion(batch, 2, 16)
    bits = order_bits(batch, found)
    assert bits.elements == 16 * 64
    assert bits.differing > 0
    assert bits.largest < 1e-5


def test_summing_tile_by_tile_is_attention():
    batch, generator = stale_batch(), torch.Generator().manual_seed(0)
    shapes = (batch.num_tokens, batch.total_slots, batch.total_slots)
    data = [torch.randn(rows, 64, generator=generator) for rows in shapes]
    own = [token for token, owner in enumerate(batch.owners) if owner == 2]
    q, k, v = (tensor.double() for tensor in data)
    exact = torch.nn.functional.scaled_dot_product_attention(
        q[own], k, v, attn_mask=torch_mask(batch, MaskRule())[own]
    )
    found = accumulate(batch, MaskRule(), 2, (4, 11), data)
    assert float((found.double() - exact).abs().max()) < 1e-5


def test_the_same_order_gives_the_same_bits():
    same = OrderInversion(2, (4, 11), (4, 11), (4, 11))
    assert order_bits(stale_batch(), same).differing == 0


def test_a_token_that_sees_nothing_gets_zeros():
    batch = stale_batch()
    data = [torch.randn(rows, 8) for rows in (20, batch.total_slots, batch.total_slots)]
    nothing = accumulate(batch, MaskRule(), 2, (3, 5), data)
    assert torch.equal(nothing, torch.zeros(16, 8))


def test_the_mask_function_is_one_that_torch_can_map():
    batch = stale_batch()
    mod = mask_mod(batch, MaskRule())
    index = torch.tensor(0)
    assert mod(index, index, torch.tensor(0), torch.tensor(48)).item() is True
    assert mod(index, index, torch.tensor(0), torch.tensor(0)).item() is False
