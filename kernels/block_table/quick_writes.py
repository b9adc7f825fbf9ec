"""The short way into the host's tables: C, compiled as Triton compiles its own launcher."""

import functools
import subprocess
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from workbench.kernels.block_table.arena import Arena
from workbench.kernels.block_table.numbers import Ids
from workbench.kernels.block_table.staged import Append, Int32s, StagedWrites


@functools.cache
def compiled() -> ModuleType | None:
    """Return the functions; None where nothing compiles C, which Triton needs on every GPU."""
    from triton.runtime.build import compile_module_from_src

    if not Path(sysconfig.get_paths()["include"], "Python.h").exists():
        return None
    source = Path(__file__).with_suffix(".c").read_text(encoding="utf-8")
    try:
        return compile_module_from_src(source, "quick_writes")
    except (RuntimeError, OSError, ImportError, subprocess.CalledProcessError):
        return None


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
        self._functions = compiled()

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
