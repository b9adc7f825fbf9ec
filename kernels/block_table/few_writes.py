"""A few plain lists of ids, in plain Python: below some dozens numpy's calls cost more."""

import struct
from collections.abc import Sequence
from itertools import accumulate, chain, compress
from operator import add, gt

import numpy as np
from numpy.typing import NDArray

from workbench.kernels.block_table.arena import Arena
from workbench.kernels.block_table.numbers import Ids, are_integers
from workbench.kernels.block_table.staged import PLANES, Append, Int32s, StagedWrites

MOST_WRITES = 48
SHORT = 48
"""Ids that Python looks at one by one more quickly than numpy at all."""

LISTS = frozenset({list, tuple})


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
        self._groups = list(range(len(arena.widths)))
        self._first_rows = [g * max_requests for g in self._groups]
        self._widths = list(arena.widths)
        self._places = list(zip(arena.bases, arena.strides, strict=True))

    def write(
        self, requests: Ids, ids: Sequence[Sequence[Ids]], *, overwrite: bool
    ) -> Append | None:
        """Write ids[i][group] for requests[i], as `HostTables.append_many` takes them.

        None, and nothing is written, for too many, for anything but lists and tuples of int, for
        an empty list that overwrites, and for anything invalid: the general way then reports
        the error.
        """
        groups = len(self._groups)
        if isinstance(requests, np.ndarray) or type(requests) not in LISTS:
            return None
        if type(ids) not in LISTS or len(requests) != len(ids):
            return None
        if not self.are_few(len(ids)) or not LISTS.issuperset(map(type, ids)):
            return None
        parts = list(chain.from_iterable(ids))
        if {*map(len, ids)} != {groups} or not LISTS.issuperset(map(type, parts)):
            return None
        blocks: list[int] = []
        for part in parts:
            blocks += part
        return self.write_flat(requests, list(map(len, parts)), blocks, overwrite=overwrite)

    def are_few(self, requests: int, blocks: int = 0) -> bool:
        """Return whether so many requests, and ids that are in an array, are written here."""
        return 0 < requests * len(self._groups) <= MOST_WRITES and blocks <= SHORT

    def write_flat(
        self, requests: Sequence[int], lengths: list[int], blocks: list[int], *, overwrite: bool
    ) -> Append | None:
        """Do as `write` for ids that follow one another; lengths: [request, group] in one list."""
        # every loop over writes or ids is one of C: the host does this in every step
        groups = len(self._groups)
        if not blocks or (overwrite and 0 in lengths):
            return None
        if not self._are_rows(requests) or not self._may_be_blocks(blocks):
            return None
        counts = self._counts
        rows = [first + request for request in requests for first in self._first_rows]
        start = [0] * len(rows) if overwrite else [counts[row] for row in rows]
        end = list(map(add, start, lengths))
        if any(map(gt, end, self._widths * len(requests))):
            return None
        widest = [max(end[g::groups]) for g in self._groups]
        group, owner = self._groups * len(requests), requests
        if groups > 1:
            owner = [request for request in requests for _ in self._groups]
        if 0 in lengths:  # what changes nothing is not sent
            columns = (group, owner, rows, start, end, lengths)
            group, owner, rows, start, end, lengths = (
                [*compress(column, lengths)] for column in columns
            )
        offset = [0, *accumulate(lengths)]
        offset.pop()
        planes = PLANES * len(rows)
        packed = np.empty(planes + len(blocks), dtype=np.int32)
        # one call packs everything; numpy would take one per column, and longer for each
        try:
            struct.pack_into(
                f"={len(packed)}i", packed.data, 0, *group, *owner, *start, *offset, *blocks
            )
        except (struct.error, TypeError):
            return None
        sent = packed[planes:]
        if len(blocks) > SHORT and not self._are_blocks(sent, blocks):
            return None
        self._keep(group, owner, start, lengths, sent if len(blocks) > len(rows) else blocks)
        for row, last in zip(rows, end, strict=True):
            counts[row] = last
        return Append(StagedWrites(packed, len(rows)), rows, end, widest)

    def _keep(
        self,
        group: Sequence[int],
        owner: Sequence[int],
        start: Sequence[int],
        lengths: Sequence[int],
        blocks: Sequence[int] | Int32s,
    ) -> None:
        """Write the ids into the host's own rows."""
        places, first = self._places, 0
        for g, request, begin, length in zip(group, owner, start, lengths, strict=True):
            base, stride = places[g]
            place = base + request * stride + begin
            # a memoryview writes one number several times as fast as a numpy slice
            if length == 1:
                self._entries[place] = blocks[first]
            else:
                self._ids[place : place + length] = blocks[first : first + length]
            first += length

    def _are_rows(self, requests: Sequence[int]) -> bool:
        """Return whether they are rows of the table, each once."""
        return (
            are_integers(requests)
            and min(requests) >= 0
            and max(requests) < self._max_requests
            and len(set(requests)) == len(requests)
        )

    def _may_be_blocks(self, blocks: list[int]) -> bool:
        """Return whether few ids are blocks of the pool; many are checked once they are packed."""
        return len(blocks) > SHORT or (
            are_integers(blocks) and min(blocks) >= 0 and max(blocks) < self._num_blocks
        )

    def _are_blocks(self, sent: Int32s, blocks: list[int]) -> bool:
        least = sent.min()
        if least < 0 or sent.max() >= self._num_blocks:
            return False
        # True and False are packed as 1 and 0
        return least > 1 or are_integers([blocks[i] for i in np.flatnonzero(sent < 2).tolist()])
