"""From slots of the cache back to a request's positions, and the blocks that a mask has to visit.

Rules: vLLM 0.23's FlexAttention backend (#41252 for the sizes).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from workbench.kernels.errors import PagedFlexError
from workbench.kernels.paged_flex.work import DUMMY_REQUEST, PagedBatch

NULL_BLOCK = 0
"""The block that vLLM never gives away, and that tables are padded with."""


def physical_to_logical(
    block_table: torch.Tensor, seq_lens: torch.Tensor, block_size: int, num_blocks: int
) -> torch.Tensor:
    """Return [request, physical block] -> logical block, int64, -1 if not the request's.

    block_table: [request, entry]; only the entries that seq_lens reach count. A block that is
    in a row twice leads to the later entry; block 0 is ignored.
    """
    columns = torch.arange(block_table.shape[1], device=block_table.device).expand_as(block_table)
    used = columns * block_size < seq_lens[:, None]
    shape = (len(block_table), num_blocks)
    inverse = torch.full(shape, -1, dtype=torch.int64, device=block_table.device)
    # unused entries may be anything: they go to the null block, which is emptied below
    target = torch.where(used, block_table.long(), NULL_BLOCK)
    # amax: of a block that is in a row twice the later entry counts
    inverse.scatter_reduce_(1, target, torch.where(used, columns, -1), "amax")
    # the null block belongs to no request, though tables are padded with it
    inverse[:, NULL_BLOCK] = -1
    return inverse


@dataclass(frozen=True, slots=True)
class Slots:
    """A batch as the physical mask sees it, on the queries' device."""

    request: torch.Tensor
    """[tokens] batch row of every packed query."""
    inverse: torch.Tensor
    """As `physical_to_logical`."""
    table: torch.Tensor
    starts: torch.Tensor
    """[requests] first query."""
    lengths: torch.Tensor
    """[requests] tokens."""
    counts: torch.Tensor
    """[requests] queries."""
    block_size: int
    num_blocks: int

    def places(
        self, query: torch.Tensor, slot: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return (request, query position, key position, valid) of packed queries and slots."""
        request = self.request[query]
        block = self.inverse[request, slot // self.block_size]
        key = block * self.block_size + slot % self.block_size
        length = self.lengths[request]
        # queries are the last tokens of their request
        position = query - self.starts[request] + length - self.counts[request]
        return request, position, key, (block >= 0) & (key < length)


def slots_of(batch: PagedBatch, block_size: int, num_blocks: int, device: Any) -> Slots:
    """Build the inverse table and all else that the mask reads; grows with requests x blocks."""
    if batch.entry_tokens != block_size:
        raise PagedFlexError(
            f"an entry of the block table covers {batch.entry_tokens} tokens, but the cache "
            f"has blocks of {block_size}: this path needs one kernel block per entry",
            field="entry_tokens",
            given=batch.entry_tokens,
            limit=block_size,
        )

    def put(array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(array.astype(np.int64)).to(device)

    lengths, counts = put(batch.seq_lens), put(batch.query_lens)
    # any row does for a dummy: its length of 0 makes every slot invalid
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


def first_occurrences(rows: torch.Tensor) -> torch.Tensor:
    """Keep every row's non-zero values once, in order of first occurrence, then -1.

    Negative values count as absent.
    """
    ordered, order = rows.sort(dim=1, stable=True)
    new = torch.ones_like(ordered, dtype=torch.bool)
    # after a stable sort the first of equal neighbours is the first occurrence
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    keep = torch.zeros_like(new).scatter(1, order, new) & (rows > NULL_BLOCK)
    # stable: kept values come to the front without changing places
    front = (~keep).to(torch.int8).sort(dim=1, stable=True).indices
    return torch.where(keep, rows, -1).gather(1, front)


def direct_block_lists(
    slots: Slots, q_block: int, *, window: int = 0, prune: bool = False
) -> torch.Tensor:
    """List [query block, n] physical blocks of its tokens' requests in order, then -1.

    As vLLM 0.23 builds it: columns up to the longest request's are taken from every row, garbage
    included where it is a block. prune: as vLLM 0.33, each request's own columns, and none after
    the query (causal). window: columns before a sliding window are omitted.
    """
    width = -(-int(slots.lengths.max()) // slots.block_size)
    # 0.23 takes as many columns of every row: blocks of earlier requests in a tail are visited too
    pages = slots.table[slots.request, :width].long()
    column = torch.arange(width, device=pages.device)
    token = torch.arange(len(slots.request), device=pages.device)
    request = slots.request
    position = token - slots.starts[request] + (slots.lengths - slots.counts)[request]
    if window:
        # the first block that holds a key of the window; below 0, every column is after it
        first = (position - (window - 1)) // slots.block_size
        pages = pages.masked_fill(column < first[:, None], NULL_BLOCK)
    if prune:
        # 0.33: columns after the query, and so all after its request, hold nothing that it sees
        late = column * slots.block_size > position[:, None]
        pages = pages.masked_fill(late, NULL_BLOCK)
    # an id past the cache would be read by the kernel; one below 0 counts as absent
    pages = pages.masked_fill(pages >= slots.num_blocks, NULL_BLOCK)
    groups = -(-len(pages) // q_block)
    padded = torch.nn.functional.pad(pages, (0, 0, 0, groups * q_block - len(pages)))
    return first_occurrences(padded.reshape(groups, -1))
