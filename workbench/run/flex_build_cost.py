"""What building a block mask costs on this machine, over the number of blocks of the pool."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from torch.nn.attention.flex_attention import BlockMask
from torch.utils.benchmark import Timer

from workbench.core.flex.build import direct_build
from workbench.core.flex.mask import MaskRule, PagedBatch
from workbench.run.flex_masks import direct_block_mask, generic_block_mask


@dataclass(frozen=True, slots=True)
class BuildCost:
    """Both builds of the same batch over a pool of `num_blocks`; seconds are medians on a CPU.

    bytes: the tensors of the block mask. The generic build evaluates every pair; compiled by torch
    it is faster, and grows the same way. The direct one is listed in plain Python here.
    """

    num_blocks: int
    generic_seconds: float
    generic_bytes: int
    direct_seconds: float
    direct_bytes: int

    def __str__(self) -> str:
        return (
            f"{self.num_blocks:6,} blocks: every pair {1000 * self.generic_seconds:8.2f} ms and "
            f"{self.generic_bytes:9,} bytes, direct {1000 * self.direct_seconds:6.2f} ms and "
            f"{self.direct_bytes:6,} bytes"
        )


def build_costs(
    batch: PagedBatch, rule: MaskRule, pools: Sequence[int], *, q_block_size: int, seconds: float
) -> tuple[BuildCost, ...]:
    """Measure both builds over pools of these sizes, each for about `seconds`.

    Errors: ValueError for a pool that is smaller than the batch's own.
    """
    return tuple(_cost(batch, rule, blocks, q_block_size, seconds) for blocks in pools)


def _cost(
    batch: PagedBatch, rule: MaskRule, num_blocks: int, q_block_size: int, seconds: float
) -> BuildCost:
    if num_blocks < batch.num_blocks:
        raise ValueError(f"a pool of {num_blocks} blocks is smaller than {batch.num_blocks}")
    grown = replace(batch, num_blocks=num_blocks)

    def generic() -> BlockMask:
        return generic_block_mask(grown, rule, q_block_size, grown.block_size)

    def direct() -> BlockMask:
        return direct_block_mask(grown, rule, direct_build(grown, rule, q_block_size))

    return BuildCost(
        num_blocks,
        _median_seconds(generic, seconds),
        mask_bytes(generic()),
        _median_seconds(direct, seconds),
        mask_bytes(direct()),
    )


def _median_seconds(build: Callable[[], BlockMask], seconds: float) -> float:
    return Timer("build()", globals={"build": build}).blocked_autorange(min_run_time=seconds).median


def mask_bytes(mask: BlockMask) -> int:
    """Return the bytes of all tensors that a block mask holds."""
    tensors = (
        mask.kv_num_blocks,
        mask.kv_indices,
        mask.full_kv_num_blocks,
        mask.full_kv_indices,
        mask.q_num_blocks,
        mask.q_indices,
        mask.full_q_num_blocks,
        mask.full_q_indices,
    )
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors if tensor is not None)
