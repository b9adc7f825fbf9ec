"""Block tables in plain Python: what the kernels must compute, written to be read.

Lists and integers only. Rules: vLLM 0.23 as of #38831 (V2 runner).
"""

from collections.abc import Iterable, Sequence

from workbench.kernels.block_table.groups import ContextParallel, TableGroup

PAD_SLOT = -1
"""Slot of a token that this rank does not store, of padding and of dummy requests."""

DUMMY_REQUEST = -1
"""Entry of `idx_mapping` without a request: its row is 0, its slots are PAD_SLOT."""


def expand_ids(ids: Iterable[int], ratio: int) -> tuple[int, ...]:
    """Expand manager blocks: b becomes kernel blocks b*ratio .. b*ratio + ratio-1, in order."""
    return tuple(block * ratio + part for block in ids for part in range(ratio))


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

    Staged writes are closures run in order by `apply`, so nothing is shared with the real thing.
    """

    def __init__(
        self,
        groups: Sequence[TableGroup],
        *,
        max_requests: int,
        parallel: ContextParallel | None = None,
    ) -> None:
        self.groups = tuple(groups)
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
        return expand_ids(self.applied[group][request], self.groups[group].ratio)

    def gather(
        self, idx_mapping: Sequence[int], padded: int
    ) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """Return [group][batch row] -> the live kernel blocks; padded and dummy rows are all 0."""
        zeros = [(0,) * group.max_kernel_blocks for group in self.groups]
        return tuple(
            tuple(
                self.row(g, idx_mapping[i])
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
                row = () if request == DUMMY_REQUEST else self.row(g, request)
                for token in range(query_start_loc[i], query_start_loc[i + 1]):
                    slots[token] = slot_of(
                        row, positions[token], group.kernel_block_size, self.parallel
                    )
            mappings.append(tuple(slots))
        return tuple(mappings)
