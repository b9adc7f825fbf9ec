"""What the offload worker finds in GPU memory: blocks counted, and the bytes of every layer (0.23).

Source: `OffloadingConnectorWorker.register_kv_caches` of 0.23, since #38554.
"""

from __future__ import annotations

from dataclasses import dataclass

from workbench.core.plan import Plan


@dataclass(frozen=True, slots=True)
class BlockCounts:
    """The number of blocks, and what a guess from a tensor's shape makes of it.

    configured: manager blocks, what the engine uses since #38554. shape_kv_first: the first
    dimension of a (2, blocks, ...) tensor, always 2. shape_blocks_first: the first dimension of a
    (blocks, 2, ...) tensor, and the second of the other: kernel blocks.
    """

    configured: int
    shape_kv_first: int
    shape_blocks_first: int

    @property
    def shape_is_right(self) -> tuple[bool, bool]:
        """Whether the guess happens to be right: (K and V first, blocks first)."""
        return self.shape_kv_first == self.configured, self.shape_blocks_first == self.configured


@dataclass(frozen=True, slots=True)
class LayerBytes:
    """One layer's share of a block: `data_bytes` are transferred, of the `page_bytes` it owns."""

    name: str
    data_bytes: int
    page_bytes: int

    @property
    def padding_bytes(self) -> int:
        """Bytes of the page that no transfer touches."""
        return self.page_bytes - self.data_bytes


def block_counts(num_blocks: int, kernel_blocks_per_block: int) -> BlockCounts:
    """The worked case of #38554: 7 blocks of 33 kernel blocks read as 2 or as 231.

    Errors: ValueError for a negative number of blocks or a ratio below 1.
    """
    if num_blocks < 0 or kernel_blocks_per_block < 1:
        raise ValueError(
            "num_blocks must not be negative and kernel_blocks_per_block at least 1; got "
            f"{num_blocks} and {kernel_blocks_per_block}."
        )
    return BlockCounts(num_blocks, 2, num_blocks * kernel_blocks_per_block)


def layer_bytes(plan: Plan) -> tuple[LayerBytes, ...]:
    """Per layer, group by group, the bytes of one block that are transferred.

    A mamba layer's padding is left out. Errors: ValueError when the plan has no cache.
    """
    found = []
    for group in plan.built_cache().groups:
        page = group.spec.page_size_bytes
        data = (plan.mamba_page_size_bytes or page) if group.spec.is_mamba else page
        found += [LayerBytes(name, data, page) for name in group.layers]
    return tuple(found)
