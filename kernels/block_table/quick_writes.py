"""The short way into the host's tables, in C."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from workbench.kernels.block_table.arena import Arena
from workbench.kernels.block_table.numbers import Ids
from workbench.kernels.block_table.staged import Append, Int32s, StagedWrites
from workbench.kernels.c_module import c_module

SOURCE = Path(__file__).with_suffix(".c")


class QuickWriter:
    """The short way for valid writes; the general one has the same results, and words the errors.

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
        sizes = (*arena.widths, *arena.bases, *arena.strides)
        layout = np.array((max_requests, num_blocks, len(arena.widths), *sizes), dtype=np.int64)
        self._tables = (layout, counts, ids)
        self._functions = c_module(SOURCE)

    def write(
        self, requests: Ids, ids: Sequence[Sequence[Ids]], *, overwrite: bool
    ) -> Append | None:
        """Write ids[i][group] for requests[i], as `HostTables.append_many` takes them.

        None, and nothing is written, for anything but lists and tuples of int, for an empty list
        that overwrites, and for anything invalid.
        """
        if self._functions is None:
            return None
        return _append(self._functions.write(*self._tables, requests, ids, bool(overwrite)))

    def write_flat(
        self, requests: Ids, lengths: NDArray[np.int64], ids: Ids, *, overwrite: bool
    ) -> Append | None:
        """Do as `write` for arrays of int64: ids follow one another; lengths: [request, group]."""
        if self._functions is None:
            return None
        arrays = (requests, lengths, ids)
        return _append(self._functions.write_flat(*self._tables, *arrays, bool(overwrite)))


def _append(found: tuple[bytes, bytes, bytes, tuple[int, ...]] | None) -> Append | None:
    if found is None:
        return None
    packed, rows, ends, widest = found
    written = np.frombuffer(rows, dtype=np.int64)
    writes = StagedWrites(np.frombuffer(packed, dtype=np.int32), len(written))
    return Append(writes, written, np.frombuffer(ends, dtype=np.int64), widest)
