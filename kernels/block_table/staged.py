"""What one apply brings to the device, packed as it is sent."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

PLANES = 4
"""Integers that describe a write: group, request, start, offset."""

Int32s = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class StagedWrites:
    """Writes of one apply: write w puts `lengths[w]` ids, from offset[w] on, into one row.

    `packed`, int32: group, request, start, offset of `count` writes, each a plane of `count`
    entries, then the ids, unexpanded manager blocks; start counts manager blocks, too. Writes
    are in any order, (group, request) never twice. A write may be empty: it only publishes its
    row's count, start + length.
    """

    packed: Int32s
    count: int

    def __len__(self) -> int:
        return self.count

    @property
    def group(self) -> Int32s:
        """Return [writes] the group of each write."""
        return self._plane(0)

    @property
    def request(self) -> Int32s:
        """Return [writes] the row of each write."""
        return self._plane(1)

    @property
    def start(self) -> Int32s:
        """Return [writes] the manager block of the row that the first id goes to."""
        return self._plane(2)

    @property
    def offset(self) -> Int32s:
        """Return [writes] where its ids begin in `ids`; they end where the next write's begin."""
        return self._plane(3)

    @property
    def lengths(self) -> Int32s:
        """Return [writes] the number of ids of each write."""
        return np.diff(self.offset, append=np.int32(len(self.ids)))

    @property
    def ids(self) -> Int32s:
        """Return all ids, write by write."""
        return self.packed[PLANES * self.count :]

    def _plane(self, number: int) -> Int32s:
        return self.packed[number * self.count : (number + 1) * self.count]


class Append(NamedTuple):
    """Writes that came at once, and the counts that they bring.

    rows, ends: [writes] entry of the flat [group, request] counts, and what it becomes. widest:
    the largest end of each group, 0 for none.
    """

    writes: StagedWrites
    rows: NDArray[np.int64]
    ends: NDArray[np.int64]
    widest: Sequence[int] = ()
