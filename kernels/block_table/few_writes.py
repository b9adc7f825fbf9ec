"""A few plain lists of ids, in plain Python: below some dozens numpy's calls cost more."""

import struct
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from workbench.kernels.block_table.arena import Arena
from workbench.kernels.block_table.numbers import Ids, packed_numbers
from workbench.kernels.block_table.staged import PLANES, Append, Int32s, StagedWrites

MOST_WRITES = 48
SHORT = 48
"""Ids that Python looks at one by one more quickly than numpy at all."""

LISTS = {list, tuple}


class FewWriter:
    """The fast way into the host's tables, for few and valid writes.

    ids: the arena; counts: flat [group, request] manager blocks of every row, the newest.
    """

    def __init__(
        self,
        arena: Arena,
        max_requests: int,
        num_blocks: int,
        ids: Int32s,
        counts: NDArray[np.int64],
    ) -> None:
        self._ids, self._entries, self._counts = ids, ids.data, counts.data
        self._max_requests, self._num_blocks = max_requests, num_blocks
        self._groups = tuple(
            (g, g * max_requests, *sizes)
            for g, sizes in enumerate(zip(arena.widths, arena.bases, arena.strides, strict=True))
        )

    def write(
        self, requests: Ids, ids: Sequence[Sequence[Ids]], *, overwrite: bool
    ) -> Append | None:
        """Write ids[i][group] for requests[i], as `HostTables.append_many` takes them.

        None, and nothing is written, for too many, for anything but lists and tuples of int, for
        an empty list that overwrites, and for anything invalid: the general way then reports
        the error.
        """
        if type(requests) not in LISTS or type(ids) not in LISTS or len(requests) != len(ids):
            return None
        if len(ids) * len(self._groups) > MOST_WRITES:
            return None
        columns = self._columns(requests, ids, overwrite)
        # a request twice is an error, which the general way words
        if columns is None or len(set(requests)) < len(requests):
            return None
        group, owner, start, offset, rows, ends, places, blocks = columns
        if not rows or (found := self._checked(blocks)) is None:
            return None
        planes = PLANES * len(rows)
        packed = np.empty(planes + len(blocks), dtype=np.int32)
        # one call packs all planes; numpy would take one per plane
        struct.pack_into(f"={planes}i", packed.data, 0, *group, *owner, *start, *offset)
        sent, entries, counts = packed[planes:], self._entries, self._counts
        sent[:] = found
        last, widest = [*offset[1:], len(blocks)], [0] * len(self._groups)
        columns = (group, places, offset, last, rows, ends)
        for g, place, i, j, row, end in zip(*columns, strict=True):
            counts[row] = end
            widest[g] = max(widest[g], end)
            # a memoryview writes one number several times as fast as a numpy slice
            if j - i == 1:
                entries[place] = blocks[i]
            else:
                self._ids[place : place + j - i] = sent[i:j]
        return Append(StagedWrites(packed, len(rows)), rows, ends, widest)

    def _columns(
        self, requests: Ids, ids: Sequence[Sequence[Ids]], overwrite: bool
    ) -> tuple[list[int], ...] | None:
        """Return group, request, start, offset, row, end and index of each write, and all ids."""
        counts, most_requests, num_groups = self._counts, self._max_requests, len(self._groups)
        columns: tuple[list[int], ...] = ([], [], [], [], [], [], [], [])
        group, owner, start, offset, rows, ends, places, blocks = columns
        for request, lists in zip(requests, ids, strict=True):
            # type(), not isinstance: a bool is an int, and is refused
            if type(request) is not int or not 0 <= request < most_requests:
                return None
            if type(lists) not in LISTS or len(lists) != num_groups:
                return None
            for (g, first_row, width, base, stride), part in zip(self._groups, lists, strict=True):
                if type(part) not in LISTS or (overwrite and not part):
                    return None
                if part:
                    row = first_row + request
                    begin = 0 if overwrite else counts[row]
                    end = begin + len(part)
                    if end > width:
                        return None
                    group.append(g)
                    owner.append(request)
                    start.append(begin)
                    offset.append(len(blocks))
                    rows.append(row)
                    ends.append(end)
                    places.append(base + request * stride + begin)
                    blocks += part
        return columns

    def _checked(self, blocks: list[int]) -> list[int] | NDArray[np.int64] | None:
        """Return the ids, as an array if they are many; None if one is not an id of the pool."""
        if len(blocks) > SHORT:
            array = packed_numbers(blocks)
            fine = array is not None and array.min() >= 0 and array.max() < self._num_blocks
            return array if fine else None
        for block in blocks:
            if type(block) is not int or not 0 <= block < self._num_blocks:
                return None
        return blocks
