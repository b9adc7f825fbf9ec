"""The KV cache that is built from a plan: its groups, its blocks, and how much it holds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
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


class PublishedStage(TypedDict):
    """A rank of one pipeline stage: its layers of every group, and its memory."""

    layers_of_groups: list[int]
    bytes_per_block: int
    available_bytes: int | None
    room_blocks: Annotated[int | None, "that its memory has room for"]


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

    def __repr__(self) -> str:
        from workbench.views.capacity.html import cache_text

        return cache_text(self)

    def _repr_html_(self) -> str:
        from workbench.views.capacity.html import cache_html

        return cache_html(self)

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

    num_blocks: int | None = decided("the null block included", "blocks", label="blocks")
    blocks_per_request: int = decided(
        "ids that one request of max_model_len tokens takes, over all groups",
        "blocks",
        label="blocks of a request",
        required=True,
    )

    @published(label="concurrency")
    def max_concurrency(self) -> float | None:
        """Return the requests of full length that fit, as vLLM prints it, null block included."""
        if self.num_blocks is None or not self.printed_blocks:
            return None
        return self.num_blocks / self.printed_blocks

    scheduler_block_size: int = decided(
        "what hits are multiples of", "tokens", label="scheduler block", required=True
    )
    hash_block_size: int = decided(
        "unit of prefix hashes", "tokens", label="hash block", required=True
    )

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

    @published(name="stages")
    def published_stages(self) -> list[PublishedStage] | None:
        """Return the pipeline stages; null where one has all layers."""
        return [
            {
                "layers_of_groups": [len(group.layers) for group in stage.groups],
                "bytes_per_block": stage.grouping.bytes_per_block,
                "available_bytes": stage.available_bytes,
                "room_blocks": stage.room_blocks,
            }
            for stage in self.stages
        ] or None

    max_model_len: int
    """The longest request, in tokens."""
    needed_bytes: int
    """What one request of full length needs."""
    printed_blocks: int
    """What vLLM divides by when it prints its concurrency."""
    held_back_bytes: int
    """Memory that the check of one request omits."""
    rank_bytes: tuple[int, ...] = ()
    """Memory for it on every rank, one entry where all have the same."""
    room_blocks: int | None = None
    """Blocks that its memory has room for; `num_blocks` is the fewest of all pipeline stages."""
    stages: tuple[CachePlan, ...] = ()
    """Of every pipeline stage, this one among them; none where one has all layers."""

    def sized(self, rank_bytes: tuple[int, ...]) -> CachePlan:
        """Return the same in a pool of so many bytes on every rank; the least decides.

        rank_bytes: one entry for all, or for every rank, those of a pipeline stage together.
        """
        if self.stages:
            each = max(1, len(rank_bytes) // len(self.stages))
            # Ranks of one stage follow each other: tensor parallelism is the innermost dimension of
            # vLLM's numbering (initialize_model_parallel).
            parts = (rank_bytes[at * each : (at + 1) * each] for at in range(len(self.stages)))
            return largest(
                stage.sized(own or rank_bytes)
                for stage, own in zip(self.stages, parts, strict=True)
            )
        available, grouping = min(rank_bytes), self.grouping
        # BlockPool always needs its null block, so a model without a cache has one block.
        one = grouping.bytes_per_block
        # A stage without a layer of any group limits nothing, so it has None.
        blocks = max(available, 0) // one if one else None if grouping.groups else 1
        return CachePlan(
            grouping=grouping,
            kernel_block_sizes=self.kernel_block_sizes,
            available_bytes=available,
            num_blocks=blocks,
            room_blocks=blocks,
            blocks_per_request=self.blocks_per_request,
            scheduler_block_size=self.scheduler_block_size,
            hash_block_size=self.hash_block_size,
            max_model_len=self.max_model_len,
            needed_bytes=self.needed_bytes,
            printed_blocks=self.printed_blocks,
            held_back_bytes=self.held_back_bytes,
            rank_bytes=rank_bytes,
        )

    @property
    def every_stage(self) -> tuple[CachePlan, ...]:
        """Return the pipeline stages, the whole where there is one."""
        return self.stages or (self,)

    def with_more(self, change_bytes: int) -> CachePlan:
        """Return the same with so many bytes more on every rank, or less."""
        ranks = [size for one in self.every_stage for size in one.rank_bytes]
        return self.sized(tuple(size + change_bytes for size in ranks))

    @property
    def unused_bytes(self) -> int | None:
        """Return the memory of blocks that another stage has no room for; None while unknown."""
        if self.room_blocks is None or self.num_blocks is None:
            return None
        return (self.room_blocks - self.num_blocks) * self.grouping.bytes_per_block

    def blocks_or(self, sample: int) -> int:
        """Return num_blocks, or a sample where it is unknown; a pool without a block stays one."""
        return sample if self.num_blocks is None else self.num_blocks

    @property
    def checked_bytes(self) -> int | None:
        """Return the memory that one request of full length must fit into; less stops the start."""
        return None if self.available_bytes is None else self.available_bytes - self.held_back_bytes

    @property
    def is_too_small(self) -> bool:
        """Return whether vLLM stops: one request of full length does not fit this stage."""
        checked = self.checked_bytes
        if checked is None or not self.grouping.bytes_per_block:
            return False
        # No memory at all is refused first, whatever is needed (_check_enough_kv_cache_memory).
        return checked <= 0 or self.needed_bytes > checked

    @property
    def short_stage(self) -> CachePlan | None:
        """Return the first pipeline stage that is too small, which stops vLLM; None if all hold."""
        return next((one for one in self.every_stage if one.is_too_small), None)

    @property
    def printed_tokens(self) -> int | None:
        """Return the tokens in "GPU KV cache size": concurrency times the longest request."""
        concurrency = self.max_concurrency
        # Not blocks times block size: a window holds few blocks of a long request, so that this
        # would count too little (_report_kv_cache_config).
        return None if concurrency is None else int(concurrency * self.max_model_len)


def largest(stages: Iterable[CachePlan]) -> CachePlan:
    """Return the pipeline stage that decides how many blocks all have, with all stages.

    That with the fewest blocks; without a memory size, that whose block takes most bytes.
    """
    found = tuple(stages)
    least = min((one.room_blocks for one in found if one.room_blocks is not None), default=None)
    # vLLM prints the concurrency of its scheduler, which has the groups of the first stage.
    printed = found[0].printed_blocks
    found = tuple(replace(one, num_blocks=least, printed_blocks=printed) for one in found)
    kept = [one for one in found if one.grouping.bytes_per_block] or found
    decides = min(kept, key=lambda one: (one.room_blocks or 0, -one.grouping.bytes_per_block))
    return replace(decides, stages=found)
