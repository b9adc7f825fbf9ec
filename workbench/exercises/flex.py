"""Lesson 5 (#41252): which mask blocks are refused, in which order tiles come, and the bits."""

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from workbench.core.flex.batch import order_inversion, stale_batch
from workbench.core.flex.build import direct_build
from workbench.core.flex.mask import MaskRule, PagedBatch
from workbench.core.flex.sizes import FlexFields, mask_blocks
from workbench.exercises.exercise import Inputs, exercise


def _pairs(_random: Random) -> Inputs:
    for block in (16, 8, 32, 64, 128, 1, 24, 48, 528, 1056, 1024):
        for tile in (None, 1, 8, 16, 32, 64):
            yield block, tile


@exercise(5, "which mask blocks are accepted", _pairs)
def is_accepted(mask_block: int, tile: int | None) -> bool:
    """Return whether vLLM accepts this mask block with this tile; None: no tile is set."""
    explicit = FlexFields(block_m=tile, q_block_size=mask_block)
    return mask_blocks(explicit, 16, small=True).refusal is None


def _rows(random: Random) -> Inputs:
    yield [[4, 11]], 2
    yield [[8, 10, 11, 5], [4, 4, 11, 0]], 3
    yield [[1, 2, 3], [1, 2, 3]], 2
    yield [[0, 5, 0], [6, 5, 0]], 3
    for _ in range(30):
        count, width = random.randrange(1, 5), random.randrange(1, 6)
        rows = [[random.randrange(12) for _ in range(width)] for _ in range(count)]
        yield rows, random.randrange(1, width + 1)


@exercise(5, "the order of a group's KV blocks", _rows)
def listed_blocks(rows: Sequence[Sequence[int]], columns: int) -> list[int]:
    """Return KV blocks of one group of queries, in the order of the direct build.

    rows: the block-table row of each query; the first `columns` entries of each are read. 0 is the
    null block and is skipped; a block that was listed is not listed again.
    """
    width = max(map(len, rows))
    # one request, one new token each: `columns` is what the longest of them reaches
    batch = PagedBatch(
        tuple((*row, *[0] * (width - len(row))) for row in rows),
        (1,) * len(rows),
        (columns,) * len(rows),
        1,
        max(map(max, rows)) + 1,
    )
    return list(direct_build(batch, MaskRule(causal=False), len(rows)).visits[0])


@exercise(5, "whether the bits differ")
def bits_differ() -> list[bool]:
    """Return whether request 2's bits differ from those alone: [as in 0.23, columns pruned]."""
    from workbench.labs.flex.order import order_bits

    batch = stale_batch()
    found = order_inversion(batch, request=2, q_block_size=16)
    orders = (found, replace(found, batched=found.pruned))
    return [order_bits(batch, order).differing > 0 for order in orders]
