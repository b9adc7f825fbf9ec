"""What the offload worker finds in GPU memory: blocks counted, and the bytes of every layer.

Source: `OffloadingConnectorWorker.register_kv_caches` of 0.23, since #38554;
`build_offloading_config` of 0.33 for the bytes of a block.
"""

from dataclasses import dataclass

from workbench.core.arithmetic import LARGEST_INT32
from workbench.core.errors import check_integer
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
        """Return whether the guess happens to be right: (K and V first, blocks first)."""
        return self.shape_kv_first == self.configured, self.shape_blocks_first == self.configured

    def __str__(self) -> str:
        return (
            f"{self.configured:,} blocks configured; the first dimension is "
            f"{self.shape_kv_first:,} with K and V outermost, {self.shape_blocks_first:,} with "
            "kernel blocks outermost"
        )


@dataclass(frozen=True, slots=True)
class WorkerBytes:
    """The bytes of one block id on one rank.

    per_block: of the tensors, or of the one allocation. descriptors: how many there are, each of
    which determines the size of all of it where there is one allocation (0.33).
    """

    per_block: int
    descriptors: int
    one_allocation: bool

    @property
    def summed(self) -> int:
        """Return the sum of the descriptors' sizes: right for tensors, too much otherwise."""
        return self.per_block * (self.descriptors if self.one_allocation else 1)


def worker_bytes(plan: Plan) -> WorkerBytes:
    """Return what the worker takes for one block id. Errors: ValueError without a cache."""
    grouping = plan.built_cache().grouping
    one = plan.rules.groups.one_allocation
    placed = len(grouping.placements(1)) if one else len(grouping.slots)
    return WorkerBytes(grouping.bytes_per_block, placed, one)


@dataclass(frozen=True, slots=True)
class LayerBytes:
    """One layer's share of a block: `data_bytes` are transferred, of the `page_bytes` it owns."""

    name: str
    data_bytes: int
    page_bytes: int

    @property
    def padding_bytes(self) -> int:
        """Return the bytes of the page that no transfer touches."""
        return self.page_bytes - self.data_bytes


def block_counts(num_blocks: int, kernel_blocks_per_block: int) -> BlockCounts:
    """Return the worked case of #38554: 7 blocks of 33 kernel blocks read as 2 or as 231.

    Errors: ScenarioError for a negative number of blocks, a ratio below 1, or other values.

    >>> wb.block_counts(7, 33)
    BlockCounts(configured=7, shape_kv_first=2, shape_blocks_first=231)
    """
    most = "the largest integer of vLLM"
    check_integer("num_blocks", num_blocks, 0, LARGEST_INT32, most)
    check_integer("kernel_blocks_per_block", kernel_blocks_per_block, 1, LARGEST_INT32, most)
    return BlockCounts(num_blocks, 2, num_blocks * kernel_blocks_per_block)


def layer_bytes(plan: Plan) -> tuple[LayerBytes, ...]:
    """Return the bytes of one block in every layer, group by group. Errors: as `worker_bytes`."""
    return tuple(
        LayerBytes(name, spec.content_bytes, spec.page_size_bytes)
        for group in plan.built_cache().groups
        for name, spec in zip(group.layers, group.layer_specs, strict=True)
    )
