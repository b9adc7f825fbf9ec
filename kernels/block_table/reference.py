"""Block tables in plain Python: what the kernels must compute, written to be read.

Lists and integers only. Rules: the V2 runner of vLLM 0.23 (as of #38831), or of 0.33.
"""

from collections.abc import Iterable, Sequence

from workbench.kernels.block_table.groups import ContextParallel, TableGroup

PAD_SLOT = -1
"""Slot of a token that this rank does not store, of padding and of dummy requests."""

NULL_BLOCK = 0
"""The manager block that belongs to no request."""

DUMMY_REQUEST = -1
"""Entry of `idx_mapping` without a request: its row is 0, its slots are PAD_SLOT."""


def expand_ids(ids: Iterable[int], ratio: int, stride: int = 0) -> tuple[int, ...]:
    """Expand manager blocks: b becomes kernel blocks b*stride .. b*stride + ratio-1, in order.

    stride: 0 means the ratio.
    """
    step = stride or ratio
    return tuple(block * step + part for block in ids for part in range(ratio))


def slot_of(
    row: Sequence[int], position: int, kernel_block_size: int, parallel: ContextParallel
) -> int:
    """Return the slot of one token: kernel block * kernel_block_size + offset.

    `row` holds kernel blocks. A row of a table split over n ranks covers n times as many
    positions. PAD_SLOT if another rank stores the token, or if the row has no block for it.
    """
    size, interleave = parallel.size, parallel.interleave
    logical_block, offset = divmod(position, kernel_block_size * size)
    if (offset // interleave) % size != parallel.rank or logical_block >= len(row):
        return PAD_SLOT
    local = offset // (interleave * size) * interleave + offset % interleave
    return row[logical_block] * kernel_block_size + local


class ReferenceTables:
    """A list of manager blocks for each group and request; the oracle of `BlockTables`.

    newer: as vLLM 0.33 does it, whose padding is kernel blocks of the null block.
    """

    def __init__(
        self,
        groups: Sequence[TableGroup],
        *,
        max_requests: int,
        parallel: ContextParallel | None = None,
        newer: bool = False,
    ) -> None:
        self.groups, self.newer = tuple(groups), newer
        self.parallel = parallel or ContextParallel()
        self.max_requests = max_requests
        self.applied: list[list[list[int]]] = [[[] for _ in range(max_requests)] for _ in groups]
        self.newest: list[list[list[int]]] = [[[] for _ in range(max_requests)] for _ in groups]

    def append(self, request: int, ids_per_group: Sequence[Sequence[int]]) -> None:
        """Add manager blocks at the end of a request's row in every group."""
        for rows, ids in zip(self.newest, ids_per_group, strict=True):
            rows[request].extend(int(block) for block in ids)

    def overwrite(self, request: int, ids_per_group: Sequence[Sequence[int]]) -> None:
        """Replace a request's rows."""
        self.clear(request)
        self.append(request, ids_per_group)

    def move(self, source: int, target: int) -> None:
        """Copy a request's rows over another's; the source keeps its own."""
        for rows in self.newest:
            rows[target] = list(rows[source])

    def clear(self, request: int) -> None:
        """Empty a request's rows."""
        for rows in self.newest:
            rows[request] = []

    def apply(self) -> None:
        """Make everything staged visible."""
        self.applied = [[list(row) for row in rows] for rows in self.newest]

    def row(self, group: int, request: int) -> tuple[int, ...]:
        """Return the kernel blocks of one request as of the last apply."""
        return self._expanded(group, self.applied[group][request])

    def gather(
        self, idx_mapping: Sequence[int], padded: int, firsts: Sequence[int] = ()
    ) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """Return [group][batch row] -> the live kernel blocks; padded and dummy rows are all 0.

        firsts: the position of each row's first token; without them no block is below a window.
        """
        zeros = [(0,) * group.max_kernel_blocks for group in self.groups]
        if self.newer:
            null = enumerate(self.groups)
            zeros = [self._expanded(g, (NULL_BLOCK,) * group.max_blocks) for g, group in null]
        return tuple(
            tuple(
                self._seen(g, idx_mapping[i], firsts[i] if firsts else 0)
                if i < len(idx_mapping) and idx_mapping[i] != DUMMY_REQUEST
                else zeros[g]
                for i in range(padded)
            )
            for g in range(len(self.groups))
        )

    def slot_mappings(
        self,
        idx_mapping: Sequence[int],
        query_start_loc: Sequence[int],
        positions: Sequence[int],
        max_tokens: int,
    ) -> tuple[tuple[int, ...], ...]:
        """Return [group][token] -> slot; PAD_SLOT from the actual token count to max_tokens."""
        mappings = []
        for g, group in enumerate(self.groups):
            slots = [PAD_SLOT] * max_tokens
            for i, request in enumerate(idx_mapping):
                if request == DUMMY_REQUEST:
                    continue
                # vLLM 0.33 maps slots by the blocks that it hands out
                row: Sequence[int] = self.row(g, request)
                size, parallel = group.kernel_block_size, self.parallel
                if self.newer:
                    row, size = self.applied[g][request], group.block_size
                    parallel = parallel if group.is_sharded else ContextParallel()
                    row = row if group.has_slots else ()
                for token in range(query_start_loc[i], query_start_loc[i + 1]):
                    slots[token] = slot_of(row, positions[token], size, parallel)
            mappings.append(tuple(slots))
        return tuple(mappings)

    def _expanded(self, group: int, blocks: Iterable[int]) -> tuple[int, ...]:
        shape = self.groups[group]
        return expand_ids(blocks, shape.ratio, shape.kernel_block_stride)

    def _seen(self, group: int, request: int, first: int) -> tuple[int, ...]:
        """Return a row with the null block for all that is wholly below the window of a token."""
        reach, blocks = self.groups[group].window_reach, self.applied[group][request]
        below = 0
        if reach and self.parallel.size == 1:
            below = min(max(first - reach, 0) // self.groups[group].block_size, len(blocks))
        return self._expanded(group, [*[NULL_BLOCK] * below, *blocks[below:]])
