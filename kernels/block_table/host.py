"""The host's half of the block tables: unexpanded ids, counts, and what is staged.

numpy only, and the same for both paths. It keeps what the device will hold after the next apply,
and for every row the first entry that the device does not have yet. So one apply writes each row
at most once, whatever was done to it, and two programs never write the same entry. Where one
append is all that is staged, it is handed on as it came. Valid writes take a short way in C.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from workbench.kernels.block_table.arena import row_arena
from workbench.kernels.block_table.groups import LARGEST_INT32, TableGroup
from workbench.kernels.block_table.id_lists import flat_lists
from workbench.kernels.block_table.numbers import Ids, integer_array
from workbench.kernels.block_table.quick_writes import QuickWriter
from workbench.kernels.block_table.staged import Append, StagedWrites
from workbench.kernels.block_table.write_checks import check_ids, checked_requests
from workbench.kernels.errors import BlockTableError, RowOverflow

NOTHING_STAGED = LARGEST_INT32
LONG_WRITE = 32
"""Ids per write from which copying write by write is faster than indexing each id."""

Ints = NDArray[np.int64]


class HostTables:
    """Manager blocks of every group and request, [group][request, block], with staging."""

    def __init__(self, groups: Sequence[TableGroup], max_requests: int, num_blocks: int) -> None:
        self.groups = tuple(groups)
        self.max_requests = max_requests
        self.num_pool_blocks = num_blocks
        # one allocation for all groups: an append of many groups is then one indexed copy
        self._arena = row_arena([group.max_blocks for group in groups], max_requests)
        self._ids = np.zeros(self._arena.size, dtype=np.int32)
        self._capacity = np.array([group.max_blocks for group in groups])
        # entry [group, request] of the flat arrays below is row group * max_requests + request
        bases, strides = np.array(self._arena.bases), np.array(self._arena.strides)
        self._first_place = (bases[:, None] + strides[:, None] * np.arange(max_requests)).ravel()
        # the groups of the writes of all requests, in order
        self._group_of = np.tile(np.arange(len(groups)), max_requests)
        shape = (len(groups), max_requests)
        self.newest_counts = np.zeros(shape, dtype=np.int64)
        self.counts = np.zeros(shape, dtype=np.int64)
        # views, not copies
        self._flat_newest, self._flat_counts = self.newest_counts.ravel(), self.counts.ravel()
        # the first entry of a row that the device lacks; everything after it is sent again
        self._first_staged = np.full(shape, NOTHING_STAGED, dtype=np.int64)
        self._touched: list[int] = []
        # a lone append, the common case of a decode step, is sent as it came, without a merge
        self._only: Append | None = None
        tables = (self._ids, self._flat_newest)
        self._quick = QuickWriter(self._arena, max_requests, num_blocks, *tables)
        self._widest: tuple[int, ...] | None = (0,) * len(groups)

    def append_many(
        self, requests: Ids, ids: Sequence[Sequence[Ids]], *, overwrite: bool = False
    ) -> None:
        """Add ids[i][group] to the rows of requests[i]; all or, on an error, nothing."""
        quick = self._quick.write(requests, ids, overwrite=overwrite)
        if self._staged_quickly(quick, overwrite):
            return
        request = checked_requests(requests, self.max_requests)
        self._write(request, *flat_lists(request, ids, len(self.groups)), overwrite)

    def append_flat(
        self, requests: Ids, lengths: NDArray[np.int64], ids: Ids, *, overwrite: bool = False
    ) -> None:
        """Append ids that follow one another in one list; lengths: [requests, groups]."""
        quick = self._quick.write_flat(requests, lengths, ids, overwrite=overwrite)
        if self._staged_quickly(quick, overwrite):
            return
        request = checked_requests(requests, self.max_requests)
        blocks = integer_array(ids, "block_ids")
        shape = (len(request), len(self.groups))
        if lengths.shape != shape or lengths.dtype.kind not in "iu" or (lengths < 0).any():
            raise BlockTableError(
                f"lengths must be integers of at least 0 for {shape[0]} requests x {shape[1]} "
                f"groups; got {lengths.dtype} of shape {lengths.shape}",
                field="lengths",
                given=lengths.shape,
            )
        if lengths.sum() != len(blocks):
            raise BlockTableError(
                f"lengths add up to {lengths.sum()}, but there are {len(blocks)} block_ids",
                field="lengths",
                given=int(lengths.sum()),
                limit=len(blocks),
            )
        self._write(request, lengths.astype(np.int64, copy=False), blocks, overwrite)

    def _staged_quickly(self, append: Append | None, overwrite: bool) -> bool:
        """Stage what the short way has written; it leaves to the general one what is invalid."""
        if append is None:
            return False
        self._widen(overwrite, append.widest)
        self._stage(append)
        return True

    def _write(self, requests: Ints, lengths: Ints, blocks: Ints, overwrite: bool) -> None:
        if not len(requests):
            return
        writes = lengths.reshape(-1)
        owner = requests.repeat(len(self.groups))
        group = self._group_of[: len(writes)]
        rows = group * self.max_requests + owner
        # `newest`, not `counts`: two appends before one apply follow one another
        start = np.zeros_like(owner) if overwrite else self._flat_newest[rows]
        end = start + writes
        offset = np.zeros(len(writes) + 1, dtype=np.int64)
        writes.cumsum(out=offset[1:])
        # all checks come before the first change: a refused write leaves everything as it was
        check_ids(blocks, self.num_pool_blocks, offset, group, owner)
        widest = end.reshape(lengths.shape).max(0)
        if (widest > self._capacity).any():
            w = int(np.argmax(end > self._capacity[group]))
            raise RowOverflow(
                request=int(owner[w]),
                group=int(group[w]),
                need=int(end[w]),
                capacity=int(self._capacity[group[w]]),
            )
        self._put(self._first_place[rows] + start, offset, blocks)
        # only now, as the slots of `_put` depend on the old ends
        self._flat_newest[rows] = end
        self._widen(overwrite, widest.tolist())
        if not writes.all():  # what changes nothing is not sent
            # an empty overwrite still shortens its row: its count has to reach the device
            kept = (writes > 0) | (end != self._flat_counts[rows])
            group, owner, start, rows, end = (a[kept] for a in (group, owner, start, rows, end))
            offset = np.append(offset[:-1][kept], 0)
        columns = (group, owner, start, offset[:-1], blocks)
        # the checks above keep every value within 32 bits
        packed = np.concatenate(columns, dtype=np.int32, casting="same_kind")
        self._stage(Append(StagedWrites(packed, len(rows)), rows, end))

    @property
    def widest(self) -> tuple[int, ...]:
        """Return the most blocks that any row has after the next apply, per group."""
        if self._widest is None:
            self._widest = tuple(self.newest_counts.max(1).tolist())
        return self._widest

    @property
    def widest_applied(self) -> tuple[int, ...]:
        """Return the most blocks that any row has on the device, per group."""
        return tuple(self.counts.max(1).tolist())

    def _widen(self, overwrite: bool, ends: Sequence[int]) -> None:
        """Note how long written rows are; rows that may have become shorter are counted later."""
        if overwrite:
            self._widest = None
        elif self._widest is not None:
            self._widest = tuple(map(max, self._widest, ends))

    def _stage(self, append: Append) -> None:
        if self._only is None and not self._touched:
            self._only = append
            return
        self._merge_only()
        self._note(append.writes)

    def _merge_only(self) -> None:
        """Convert a single append to row-by-row form, because another write follows."""
        if self._only is not None:
            self._note(self._only.writes)
            self._only = None

    def _note(self, writes: StagedWrites) -> None:
        rows = writes.group, writes.request
        self._first_staged[rows] = np.minimum(self._first_staged[rows], writes.start)
        self._touched.extend(writes.request.tolist())

    def move(self, source: int, target: int) -> None:
        """Copy a request's rows over another's; the source keeps its own."""
        pair = checked_requests([source, target], self.max_requests, distinct=False)
        source, target = pair.tolist()
        if source == target:
            return
        self._merge_only()
        for g in range(len(self.groups)):
            # live entries only: what follows them is never read
            count = self.newest_counts[g, source]
            self.row(g, target)[:count] = self.row(g, source)[:count]
        self.newest_counts[:, target] = self.newest_counts[:, source]
        self._widest = None
        # the target may hold other ids on the device, so its whole row is sent
        self._first_staged[:, target] = 0
        self._touched.append(target)

    def clear(self, request: int) -> None:
        """Empty a request's rows; the device keeps stale ids after a count of 0."""
        (request,) = checked_requests([request], self.max_requests).tolist()
        self._merge_only()
        # only the widest rows are missed
        counts = self.newest_counts[:, request].tolist()
        if self._widest and any(map(int.__eq__, counts, self._widest)):
            self._widest = None
        self.newest_counts[:, request] = 0
        self._first_staged[:, request] = 0
        self._touched.append(request)

    def row(self, group: int, request: int) -> NDArray[np.int32]:
        """Return the whole row, [max_blocks], as it will be after the next apply."""
        first = self._arena.bases[group] + request * self._arena.strides[group]
        return self._ids[first : first + self.groups[group].max_blocks]

    def staged(self) -> StagedWrites:
        """Return what the device does not have yet."""
        if self._only is not None:
            return self._only.writes
        if not self._touched:
            return NO_WRITES
        touched = np.unique(np.array(self._touched, dtype=np.int64))
        newest = self.newest_counts[:, touched]
        # a row may be shorter than where its first change was staged
        first = np.minimum(self._first_staged[:, touched], newest)
        # a row without new ids is sent for its count alone
        group, place = np.nonzero((first < newest) | (newest != self.counts[:, touched]))
        start, request = first[group, place], touched[place]
        offset = np.concatenate(([0], np.cumsum(newest[group, place] - start)))
        ids = self._get(group, request, start, offset)
        columns = (group, request, start, offset[:-1], ids)
        packed = np.concatenate(columns, dtype=np.int32, casting="same_kind")
        return StagedWrites(packed, len(group))

    def publish(self) -> None:
        """Record that the device has everything: what was staged is now applied."""
        if self._only is not None:
            self._flat_counts[self._only.rows] = self._only.ends
            self._only = None
        if touched := self._touched:
            self.counts[:, touched] = self.newest_counts[:, touched]
            self._forget()

    def drop(self, device_row: Callable[[int, int], NDArray[np.int32]]) -> None:
        """Discard what was staged: go back to what the device holds, row by row."""
        self._merge_only()
        touched = sorted(set(self._touched))
        self.newest_counts[:, touched] = self.counts[:, touched]
        self._widest = None
        self._forget()
        for request in touched:
            for g in range(len(self.groups)):
                # beyond the count the device may hold anything, and so may the host
                count = self.counts[g, request]
                self.row(g, request)[:count] = device_row(g, request)[:count]

    def _forget(self) -> None:
        self._first_staged[:, self._touched] = NOTHING_STAGED
        self._touched = []

    def _put(self, first: Ints, offset: Ints, blocks: Ints) -> None:
        """Write w's ids from place first[w] of the arena on."""
        if len(blocks) < len(first) * LONG_WRITE:
            self._ids[_places(first, offset)] = blocks
            return
        bounds = offset.tolist()
        for w, place in enumerate(first.tolist()):
            begin, end = bounds[w], bounds[w + 1]
            self._ids[place : place + end - begin] = blocks[begin:end]

    def _get(self, group: Ints, request: Ints, start: Ints, offset: Ints) -> NDArray[np.int32]:
        first = self._first_place[group * self.max_requests + request] + start
        if offset[-1] < len(group) * LONG_WRITE or not len(group):
            return self._ids[_places(first, offset)]
        last = (first + np.diff(offset)).tolist()
        return np.concatenate(
            [self._ids[begin:end] for begin, end in zip(first.tolist(), last, strict=True)]
        )


NO_WRITES = StagedWrites(np.zeros(0, dtype=np.int32), 0)


def _places(first: Ints, offset: Ints) -> Ints:
    """Return the position of each id of packed writes, if write w begins at first[w]."""
    lengths = np.diff(offset)
    if (lengths == 1).all():
        return first
    # position of id i of write w: first[w] + i - offset[w]
    return np.repeat(first - offset[:-1], lengths) + np.arange(offset[-1])
