"""The KV cache that is built from a plan: its groups, its blocks, and how much it holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypedDict

from workbench.core.groups.grouping import Group, Grouping, Placement, Tensor
from workbench.core.published import Published, decided, published


class PublishedGroup(TypedDict):
    """Layers that share one block table."""

    spec: str
    block_size: Annotated[int, "tokens"]
    page_size_bytes: int
    kernel_block_size: Annotated[int | None, "tokens"]
    padding_layers: int
    layer_names: list[str]
    layer_page_size_bytes: Annotated[
        list[int] | None, "of every layer, if the layers of the group have different specs"
    ]


class PublishedTensor(TypedDict):
    """One allocation."""

    size: Annotated[int, "bytes"]
    shared_by: list[str]


class PublishedPlacement(TypedDict):
    """Where layers of one group are in the one allocation of 0.33."""

    group: int
    layer_names: list[str]
    offset: Annotated[int, "bytes"]
    layer_stride: Annotated[int, "bytes"]
    block_stride: Annotated[int, "bytes"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CachePlan(Published):
    """Groups, tensors and capacity. A pool without a size has num_blocks None."""

    grouping: Grouping
    """Which layers share a block table."""
    kernel_block_sizes: tuple[int | None, ...]
    """Kernel blocks of the groups, in tokens."""
    available_bytes: int | None = None
    """Memory for it on the rank that has least, None when unknown."""

    @property
    def groups(self) -> tuple[Group, ...]:
        """Return the groups."""
        return self.grouping.groups

    @property
    def tensors(self) -> tuple[Tensor, ...] | None:
        """Return the allocations, None while the memory is unknown."""
        return None if self.num_blocks is None else self.grouping.tensors(self.num_blocks)

    @published(name="groups")
    def published_groups(self) -> list[PublishedGroup]:
        """Return the layers that share a block table, with their pages."""
        return [
            {
                "spec": group.kind,
                "block_size": group.spec.block_size,
                "page_size_bytes": group.page_size_bytes,
                "kernel_block_size": kernel,
                "padding_layers": group.padding_layers,
                "layer_names": list(group.layers),
                "layer_page_size_bytes": [spec.page_size_bytes for spec in group.own_specs] or None,
            }
            for group, kernel in zip(self.groups, self.kernel_block_sizes, strict=True)
        ]

    @published(name="tensors")
    def published_tensors(self) -> list[PublishedTensor] | None:
        """Return the allocations; null while the memory is unknown."""
        if self.tensors is None:
            return None
        return [{"size": one.size_bytes, "shared_by": list(one.shared_by)} for one in self.tensors]

    num_blocks: int | None = decided("the null block included", "blocks")
    blocks_per_request: int = decided(
        "ids that one request of max_model_len tokens takes, over all groups",
        "blocks",
        required=True,
    )

    @published()
    def max_concurrency(self) -> float | None:
        """Return the requests of full length that fit, as vLLM prints it, null block included."""
        if self.num_blocks is None or not self.printed_blocks:
            return None
        return self.num_blocks / self.printed_blocks

    scheduler_block_size: int = decided("what hits are multiples of", "tokens", required=True)
    hash_block_size: int = decided("unit of prefix hashes", "tokens", required=True)

    @published()
    def cache_layout(self) -> str | None:
        """Return the order of the one allocation, from 0.33 on."""
        return self.grouping.layout

    @property
    def placements(self) -> tuple[Placement, ...] | None:
        """Return where every layer is in the one allocation (0.33); None without a memory size."""
        return None if self.num_blocks is None else self.grouping.placements(self.num_blocks)

    @published(name="placements")
    def published_placements(self) -> list[PublishedPlacement] | None:
        """Return where block b of layer l starts: offset + l * layer_stride + b * block_stride."""
        return [
            {
                "group": placed.group,
                "layer_names": list(placed.layers),
                "offset": placed.where.offset,
                "layer_stride": placed.where.layer_stride,
                "block_stride": placed.where.block_stride,
            }
            for placed in self.placements or ()
        ] or None

    max_model_len: int
    """The longest request, in tokens."""
    needed_bytes: int
    """What one request of full length needs."""
    printed_blocks: int
    """What vLLM divides by when it prints its concurrency."""
    held_back_bytes: int = 0
    """Memory that the check of one request omits."""
    rank_bytes: tuple[int, ...] = ()
    """Memory for it on every rank, one entry where all have the same."""

    def sized(self, rank_bytes: tuple[int, ...]) -> CachePlan:
        """Return the same in a pool of so many bytes on every rank; the least decides."""
        available, grouping = min(rank_bytes), self.grouping
        # BlockPool always needs its null block, so a model without a cache has one block.
        blocks = max(available, 0) // grouping.bytes_per_block if grouping.groups else 1
        return CachePlan(
            grouping=grouping,
            kernel_block_sizes=self.kernel_block_sizes,
            available_bytes=available,
            num_blocks=blocks,
            blocks_per_request=self.blocks_per_request,
            scheduler_block_size=self.scheduler_block_size,
            hash_block_size=self.hash_block_size,
            max_model_len=self.max_model_len,
            needed_bytes=self.needed_bytes,
            printed_blocks=self.printed_blocks,
            held_back_bytes=self.held_back_bytes,
            rank_bytes=rank_bytes,
        )

    def blocks_or(self, sample: int) -> int:
        """Return num_blocks, or a sample where it is unknown; a pool without a block stays one."""
        return sample if self.num_blocks is None else self.num_blocks

    @property
    def checked_bytes(self) -> int | None:
        """Return the memory that one request of full length must fit into; less stops the start."""
        return None if self.available_bytes is None else self.available_bytes - self.held_back_bytes

    @property
    def printed_tokens(self) -> int | None:
        """Return the tokens in "GPU KV cache size": concurrency times the longest request."""
        concurrency = self.max_concurrency
        return None if concurrency is None else int(concurrency * self.max_model_len)
