"""What the notebook says of our kernel, and what building a mask costs."""

from __future__ import annotations

import pytest
import torch

from tests.labs.exact import outputs_and_error
from workbench.core.flex.batch import paged_batch, stale_batch
from workbench.core.flex.build import direct_build
from workbench.core.flex.mask import MaskRule
from workbench.core.tables.batch_grammar import parse_batch
from workbench.labs.flex.masks import (
    build_costs,
    direct_block_mask,
    generic_block_mask,
    mask_bytes,
)
from workbench.labs.flex.order import KERNEL


@pytest.mark.parametrize("index", [0, 1, 2])
def test_a_neighbours_stale_column_changes_no_bit_of_our_kernel(index):
    (alone, batched), error = outputs_and_error(stale_batch(), index, KERNEL)
    assert alone.shape == (stale_batch().query_lens[index], 1, 64)
    assert torch.equal(alone, batched)
    assert error < 1e-5


def test_it_reads_blocks_that_are_not_a_power_of_two():
    batch = paged_batch(parse_batch("q3s60_q2s90"), 48, stale=True)
    (alone, batched), error = outputs_and_error(batch, 1, KERNEL, head_size=32)
    assert torch.equal(alone, batched)
    assert error < 1e-5


def test_the_generic_mask_grows_with_the_pool_and_the_direct_one_does_not():
    found = build_costs(stale_batch(), MaskRule(), (16, 160), q_block_size=16, seconds=0.001)
    small, large = found.costs
    assert large.generic_bytes > 9 * small.generic_bytes
    assert large.direct_bytes == small.direct_bytes
    assert small.generic_seconds > 0
    assert f"generic mask, bytes: {small.generic_bytes:,}" in str(found)


def test_bytes_are_those_of_every_tensor():
    batch, rule = stale_batch(), MaskRule()
    direct = direct_block_mask(batch, rule, direct_build(batch, rule, 16))
    assert mask_bytes(direct) == 4 * (2 + 2 * 8)
    assert mask_bytes(generic_block_mask(batch, rule, 16, 16)) > mask_bytes(direct)


def test_a_pool_below_the_batch_is_refused():
    with pytest.raises(ValueError, match="smaller than 12"):
        build_costs(stale_batch(), MaskRule(), (4,), q_block_size=16, seconds=0.001)
