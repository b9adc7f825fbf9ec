"""The host's half of the block tables: unexpanded ids, counts, and what is staged.

numpy only, and the same for both paths. It keeps what the device will hold after the next apply,
and for every row the first entry that the device does not have yet. So one apply writes each row
at most once, whatever was done to it, and two programs never write the same entry.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from workbench.kernels.block_table.arena import row_arena
from workbench.kernels.block_table.errors import BlockTableError, RowOverflow
from workbench.kernels.block_table.groups import LARGEST_INT32, TableGroup
from workbench.kernels.block_table.id_lists import flat_lists
from workbench.kernels.block_table.numbers import Ids, first_outside, whole_numbers

NOTHING_STAGED = LARGEST_INT32
LONG_WRITE = 32
"""Ids a write from which copying write by write is quicker than finding each id's place."""

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class StagedWrites:
    """Writes of one apply, packed: write w puts ids[offset[w] : offset[w+1]] into one row.

    group, request, start: [writes] int64; start counts manager blocks. offset: [writes + 1].
    ids: unexpanded manager blocks, int32. A write may be empty: it only publishes its row's count,
    start + length. (group, request) never occurs twice.
    """

    group: NDArray[np.int64]
    request: NDArray[np.int64]
    start: NDArray[np.int64]
    offset: NDArray[np.int64]
    ids: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.group)


class HostTables:
    """Manager blocks of every group and request, [group][request, block], with staging."""

    def __init__(self, groups: Sequence[TableGroup], max_requests: int, num_blocks: int) -> None:
        self.groups = tuple(groups)
        self.max_requests = max_requests
        self.num_pool_blocks = num_blocks
        self._arena = row_arena([group.max_blocks for group in groups], max_requests)
        self._ids = np.zeros(self._arena.size, dtype=np.int32)
        self._capacity = np.array([group.max_blocks for group in groups])
        self._base = np.array(self._arena.bases)
        self._stride = np.array(self._arena.strides)
        shape = (len(groups), max_requests)
        self.newest_counts = np.zeros(shape, dtype=np.int64)
        self.counts = np.zeros(shape, dtype=np.int64)
        self._first_staged = np.full(shape, NOTHING_STAGED, dtype=np.int64)
        self._touched: list[int] = []

    def append_many(
        self, requests: Ids, ids: Sequence[Sequence[Ids]], *, overwrite: bool = False
    ) -> None:
        """Add ids[i][group] to the rows of requests[i]; all or, on an error, nothing."""
        request = self._checked_requests(requests)
        self._write(request, *flat_lists(request, ids, len(self.groups)), overwrite)

    def append_flat(
        self, requests: Ids, lengths: NDArray[np.int64], ids: Ids, *, overwrite: bool = False
    ) -> None:
        """`append_many` of ids that lie one after the other; lengths: [requests, groups]."""
        request, blocks = self._checked_requests(requests), whole_numbers(ids, "block_ids")
        shape = (len(request), len(self.groups))
        if lengths.shape != shape or lengths.dtype.kind not in "iu" or (lengths < 0).any():
            raise BlockTableError(
                f"lengths must be whole numbers of at least 0 for {shape[0]} requests x {shape[1]} "
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

    def _write(
        self,
        requests: NDArray[np.int64],
        lengths: NDArray[np.int64],
        blocks: NDArray[np.int64],
        overwrite: bool,
    ) -> None:
        writes = lengths.reshape(-1)
        group = np.tile(np.arange(len(self.groups)), len(requests))
        owner = np.repeat(requests, len(self.groups))
        start = np.zeros_like(owner) if overwrite else self.newest_counts[group, owner]
        end = start + writes
        offset = np.concatenate(([0], np.cumsum(writes)))
        self._check_ids(blocks, offset, group, owner)
        if (over := end > self._capacity[group]).any():
            w = int(np.argmax(over))
            raise RowOverflow(
                request=int(owner[w]),
                group=int(group[w]),
                need=int(end[w]),
                capacity=int(self._capacity[group[w]]),
            )
        self._put(group, owner, start, offset, blocks)
        self.newest_counts[group, owner] = end
        self._first_staged[group, owner] = np.minimum(self._first_staged[group, owner], start)
        self._touched.extend(requests.tolist())

    def move(self, source: int, target: int) -> None:
        """Copy a request's rows over another's; the source keeps its own."""
        source, target = self._checked_requests([source, target], distinct=False).tolist()
        if source == target:
            return
        for g in range(len(self.groups)):
            count = self.newest_counts[g, source]
            self.row(g, target)[:count] = self.row(g, source)[:count]
        self.newest_counts[:, target] = self.newest_counts[:, source]
        self._first_staged[:, target] = 0
        self._touched.append(target)

    def clear(self, request: int) -> None:
        """Empty a request's rows; the device keeps stale ids behind a count of 0."""
        (request,) = self._checked_requests([request]).tolist()
        self.newest_counts[:, request] = 0
        self._first_staged[:, request] = 0
        self._touched.append(request)

    def row(self, group: int, request: int) -> NDArray[np.int32]:
        """The whole row, [max_blocks], as it will be after the next apply."""
        first = self._arena.bases[group] + request * self._arena.strides[group]
        return self._ids[first : first + self.groups[group].max_blocks]

    def staged(self) -> StagedWrites:
        """What the device does not have yet."""
        touched = np.unique(np.array(self._touched, dtype=np.int64))
        newest = self.newest_counts[:, touched]
        first = np.minimum(self._first_staged[:, touched], newest)
        group, place = np.nonzero((first < newest) | (newest != self.counts[:, touched]))
        start, request = first[group, place], touched[place]
        offset = np.concatenate(([0], np.cumsum(newest[group, place] - start)))
        ids = self._get(group, request, start, offset)
        return StagedWrites(group, request, start, offset, ids)

    def publish(self) -> None:
        """The device has everything: what was staged counts from now on."""
        touched = self._touched
        self.counts[:, touched] = self.newest_counts[:, touched]
        self._forget()

    def drop(self, device_row: Callable[[int, int], NDArray[np.int32]]) -> None:
        """Nothing staged arrived: go back to what the device holds, row by row."""
        touched = sorted(set(self._touched))
        self.newest_counts[:, touched] = self.counts[:, touched]
        self._forget()
        for request in touched:
            for g in range(len(self.groups)):
                count = self.counts[g, request]
                self.row(g, request)[:count] = device_row(g, request)[:count]

    def _forget(self) -> None:
        self._first_staged[:, self._touched] = NOTHING_STAGED
        self._touched = []

    def _put(self, group: Ints, request: Ints, start: Ints, offset: Ints, blocks: Ints) -> None:
        first = self._base[group] + request * self._stride[group] + start
        if offset[-1] < len(group) * LONG_WRITE:
            self._ids[_places(first, offset)] = blocks
            return
        bounds = offset.tolist()
        for w, place in enumerate(first.tolist()):
            begin, end = bounds[w], bounds[w + 1]
            self._ids[place : place + end - begin] = blocks[begin:end]

    def _get(self, group: Ints, request: Ints, start: Ints, offset: Ints) -> NDArray[np.int32]:
        first = self._base[group] + request * self._stride[group] + start
        if offset[-1] < len(group) * LONG_WRITE or not len(group):
            return self._ids[_places(first, offset)]
        last = (first + np.diff(offset)).tolist()
        return np.concatenate(
            [self._ids[begin:end] for begin, end in zip(first.tolist(), last, strict=True)]
        )

    def _checked_requests(self, requests: Ids, *, distinct: bool = True) -> NDArray[np.int64]:
        values = whole_numbers(requests, "requests")
        if (i := first_outside(values, 0, self.max_requests)) is not None:
            raise BlockTableError(
                f"request {values[i]} (entry {i}) is not in this table: rows are "
                f"0..{self.max_requests - 1}",
                field="request",
                given=int(values[i]),
                limit=self.max_requests,
                index=i,
            )
        if distinct and len(set(values.tolist())) < len(values):
            i = next(i for i in range(len(values)) if values[i] in values[:i])
            raise BlockTableError(
                f"request {values[i]} occurs twice (entry {i}): join its ids into one entry",
                field="request",
                given=int(values[i]),
                index=i,
            )
        return values

    def _check_ids(
        self,
        blocks: NDArray[np.int64],
        offset: NDArray[np.int64],
        group: NDArray[np.int64],
        owner: NDArray[np.int64],
    ) -> None:
        if (i := first_outside(blocks, 0, self.num_pool_blocks)) is not None:
            w = int(np.searchsorted(offset, i, side="right")) - 1
            place, g, request = i - int(offset[w]), int(group[w]), int(owner[w])
            raise BlockTableError(
                f"request {request}, group {g}: block id {blocks[i]} (entry {place}) is not in the "
                f"pool: ids are 0..{self.num_pool_blocks - 1}",
                field="block_ids",
                given=int(blocks[i]),
                limit=self.num_pool_blocks,
                index=place,
                group=g,
                request=request,
            )


def _places(first: Ints, offset: Ints) -> Ints:
    """Where each id of packed writes lies, if write w begins at first[w]."""
    return np.repeat(first - offset[:-1], np.diff(offset)) + np.arange(offset[-1])
