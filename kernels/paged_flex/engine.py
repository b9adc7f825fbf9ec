# ruff: noqa: ARG001 - torch names the batch and the head, which one mask covers
"""The engine's path: torch's flex_attention over the whole cache, through a physical mask.

Rules: vLLM 0.23's FlexAttention backend (#41252 for the sizes). Keys and values are the cache as
one long sequence of slots; an inverse table leads from a slot back to a request's position.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from workbench.kernels.paged_flex.errors import PagedFlexError
from workbench.kernels.paged_flex.masks import Mask, Score
from workbench.kernels.paged_flex.shapes import checked_shapes
from workbench.kernels.paged_flex.work import DUMMY_REQUEST, PagedBatch

NULL_BLOCK = 0
"""The block that vLLM never gives away, and that tables are padded with."""


def physical_to_logical(
    block_table: torch.Tensor, seq_lens: torch.Tensor, block_size: int, num_blocks: int
) -> torch.Tensor:
    """[request, physical block] -> logical block, int64, -1 where the request has no part of it.

    block_table: [request, entry]; only the entries that seq_lens reach count. A block that stands
    in a row twice leads to the later entry; block 0 leads nowhere.
    """
    columns = torch.arange(block_table.shape[1], device=block_table.device).expand_as(block_table)
    used = columns * block_size < seq_lens[:, None]
    shape = (len(block_table), num_blocks)
    inverse = torch.full(shape, -1, dtype=torch.int64, device=block_table.device)
    # unused entries may be anything: they go to the null block, which is emptied below
    target = torch.where(used, block_table.long(), NULL_BLOCK)
    inverse.scatter_reduce_(1, target, torch.where(used, columns, -1), "amax")
    inverse[:, NULL_BLOCK] = -1
    return inverse


@dataclass(frozen=True, slots=True)
class Slots:
    """A batch as the physical mask sees it, on the queries' device.

    request [tokens]: batch row of every packed query. inverse: as physical_to_logical. starts,
    lengths, counts [requests]: first query, tokens, queries.
    """

    request: torch.Tensor
    inverse: torch.Tensor
    table: torch.Tensor
    starts: torch.Tensor
    lengths: torch.Tensor
    counts: torch.Tensor
    block_size: int
    num_blocks: int

    def places(
        self, query: torch.Tensor, slot: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """(request, query position, key position, valid) of packed queries and slots."""
        request = self.request[query]
        block = self.inverse[request, slot // self.block_size]
        key = block * self.block_size + slot % self.block_size
        length = self.lengths[request]
        position = query - self.starts[request] + length - self.counts[request]
        return request, position, key, (block >= 0) & (key < length)


def slots_of(batch: PagedBatch, block_size: int, num_blocks: int, device: Any) -> Slots:
    """The inverse table and everything else that the mask reads; grows with requests x blocks."""
    if batch.entry_tokens != block_size:
        raise PagedFlexError(
            f"an entry of the block table stands for {batch.entry_tokens} tokens, but the cache "
            f"has blocks of {block_size}: this path wants one kernel block an entry",
            field="entry_tokens",
            given=batch.entry_tokens,
            limit=block_size,
        )

    def put(array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(array.astype(np.int64)).to(device)

    lengths, counts = put(batch.seq_lens), put(batch.query_lens)
    rows = put(np.where(batch.rows == DUMMY_REQUEST, 0, batch.rows))
    table = torch.as_tensor(batch.block_table).to(device)[rows]
    return Slots(
        request=put(np.repeat(np.arange(batch.num_requests), batch.query_lens)),
        inverse=physical_to_logical(table, lengths, block_size, num_blocks),
        table=table,
        starts=put(batch.query_start_loc[:-1]),
        lengths=lengths,
        counts=counts,
        block_size=block_size,
        num_blocks=num_blocks,
    )


def physical_mask(slots: Slots, mask: Mask) -> Callable[..., torch.Tensor]:
    """The mask over packed queries and physical slots, as flex_attention wants it."""

    def mod(b: Any, h: Any, query: torch.Tensor, slot: torch.Tensor) -> torch.Tensor:
        request, position, key, valid = slots.places(query, slot)
        return valid & mask.seen(request, h, position, key)

    return mod


def physical_score(slots: Slots, score: Score) -> Callable[..., torch.Tensor]:
    """The score over packed queries and physical slots; -inf where no key of the request lies."""

    def mod(
        value: torch.Tensor, b: Any, h: Any, query: torch.Tensor, slot: torch.Tensor
    ) -> torch.Tensor:
        request, position, key, valid = slots.places(query, slot)
        changed = score.changed(value, request, h, position, key)
        return torch.where(valid, changed, -float("inf"))

    return mod


def first_occurrences(rows: torch.Tensor) -> torch.Tensor:
    """Every row's non-zero values once, in the order of their first place, then -1.

    Negative values count as absent.
    """
    ordered, order = rows.sort(dim=1, stable=True)
    new = torch.ones_like(ordered, dtype=torch.bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    keep = torch.zeros_like(new).scatter(1, order, new) & (rows > NULL_BLOCK)
    # stable: kept values come to the front without changing places
    front = (~keep).to(torch.int8).sort(dim=1, stable=True).indices
    return torch.where(keep, rows, -1).gather(1, front)


def direct_block_lists(
    slots: Slots, q_block: int, *, window: int = 0, prune: bool = False
) -> torch.Tensor:
    """[query block, n] physical blocks that its tokens' requests own, in visiting order, then -1.

    As vLLM 0.23 builds it: columns up to the longest request's are taken from every row, garbage
    included where it is a block. prune: as vLLM 0.33, each request's own columns, and none behind
    the query (causal). window: columns in front of a sliding window are left out.
    """
    longest = int(slots.lengths.max()) if len(slots.lengths) else 0
    width = -(-longest // slots.block_size)
    pages = slots.table[slots.request, :width].long()
    column = torch.arange(width, device=pages.device)
    token = torch.arange(len(slots.request), device=pages.device)
    request = slots.request
    position = token - slots.starts[request] + (slots.lengths - slots.counts)[request]
    if window:
        first = (position - (window - 1)).clamp(min=0) // slots.block_size
        pages = pages.masked_fill(column < first[:, None], NULL_BLOCK)
    if prune:
        begin = column * slots.block_size
        late = (begin >= slots.lengths[request][:, None]) | (begin > position[:, None])
        pages = pages.masked_fill(late, NULL_BLOCK)
    # an id outside of the cache would be read by the kernel
    pages = pages.masked_fill((pages < 0) | (pages >= slots.num_blocks), NULL_BLOCK)
    groups = -(-len(pages) // q_block)
    padded = torch.nn.functional.pad(pages, (0, 0, 0, groups * q_block - len(pages)))
    return first_occurrences(padded.reshape(groups, -1))


def direct_mask(
    slots: Slots, mask: Mask, q_block: int, *, window: int = 0, prune: bool = False
) -> BlockMask:
    """A BlockMask straight from the block table, kv block = cache block; every tile is masked."""
    lists = direct_block_lists(slots, q_block, window=window, prune=prune)
    total = slots.num_blocks * slots.block_size
    return BlockMask.from_kv_blocks(
        (lists >= 0).sum(1).to(torch.int32)[None, None],
        lists.to(torch.int32)[None, None].contiguous(),
        BLOCK_SIZE=(q_block, slots.block_size),
        mask_mod=physical_mask(slots, mask),
        seq_lengths=(len(slots.request), total),
        compute_q_blocks=False,
    )


def generic_mask(slots: Slots, mask: Mask, q_block: int, kv_block: int) -> BlockMask:
    """A BlockMask by asking the mask for every query and slot: for kv blocks of another size."""
    total = slots.num_blocks * slots.block_size
    return create_block_mask(
        physical_mask(slots, mask),
        None,
        None,
        len(slots.request),
        total,
        device=slots.request.device,
        BLOCK_SIZE=(q_block, kv_block),
    )


def engine_attention(
    query: torch.Tensor,
    kv_cache: torch.Tensor,
    batch: PagedBatch,
    *,
    mask: Mask,
    score: Score | None = None,
    scale: float | None = None,
    q_block: int = 16,
    kv_block: int | None = None,
    block_m: int | None = None,
    block_n: int | None = None,
    batch_invariant: bool = False,
    prune: bool = False,
    compiled: bool = False,
) -> torch.Tensor:
    """[tokens, heads, dim] as vLLM's FlexAttention backend computes it; arguments as
    `paged_attention`.

    q_block, kv_block: mask block sizes. kv_block None or the cache block builds the mask from the
    table; another one asks the mask everywhere. block_m, block_n: kernel tiles, torch's choice if
    None; batch_invariant also takes away the variant for divisible lengths. compiled: on a CPU it
    needs g++. Without it everything is computed densely, and every slot of the cache must be
    finite: zero times NaN is NaN, and this path multiplies.
    """  # noqa: D205 - the result is that of another function
    shapes = checked_shapes(query, kv_cache, batch, out=None, scale=scale)
    slots = slots_of(batch, shapes.block_size, shapes.num_blocks, query.device)
    if kv_block in {None, shapes.block_size}:
        block_mask = direct_mask(slots, mask, q_block, prune=prune)
    else:
        assert kv_block is not None
        block_mask = generic_mask(slots, mask, q_block, kv_block)
    options: dict[str, Any] = {"FORCE_USE_FLEX_ATTENTION": True}
    for name, tile, block in (("BLOCK_M", block_m, q_block), ("BLOCK_N", block_n, kv_block)):
        if tile is not None:
            if (block or shapes.block_size) % tile:
                raise PagedFlexError(
                    f"{name} {tile} must divide the mask block of {block or shapes.block_size}",
                    field=name.lower(),
                    given=tile,
                    limit=block or shapes.block_size,
                )
            options[name] = tile
    if batch_invariant:
        options["IS_DIVISIBLE"] = False
    num_tokens = batch.num_tokens
    attend = _compiled_flex() if compiled else flex_attention
    result = attend(
        query[:num_tokens].transpose(0, 1)[None],
        *(kv_cache[:, kv].flatten(0, 1).transpose(0, 1)[None] for kv in (0, 1)),
        score_mod=physical_score(slots, score) if score else None,
        block_mask=block_mask,
        scale=scale,
        enable_gqa=shapes.group > 1,
        kernel_options=options if compiled else None,
    )
    out = torch.zeros_like(query, memory_format=torch.contiguous_format)
    out[:num_tokens] = result[0].transpose(0, 1)
    return out


@cache
def _compiled_flex() -> Callable[..., Any]:
    return torch.compile(flex_attention)
