"""What a launch reads and writes, counted in Triton's interpreter; and whether it may.

The numbers are counted, element by element, not computed: lanes that a mask switches off do not
count, and an element that is read twice counts twice. Caches are not modelled, and no time
follows from them.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from workbench.kernels.mode import triton_mode


@dataclass(slots=True)
class Traffic:
    """Launches, their programs, and the elements and bytes they moved."""

    launches: int = 0
    programs: int = 0
    loads: int = 0
    stores: int = 0
    loaded_bytes: int = 0
    stored_bytes: int = 0

    @property
    def bytes(self) -> int:
        """Read and written together."""
        return self.loaded_bytes + self.stored_bytes


class Access(NamedTuple):
    """One load or store of one program: the addresses that its mask leaves on."""

    kind: str
    """"load" or "store"."""
    program: int
    """Along the first axis of the grid."""
    addresses: np.ndarray


class OutOfBounds(RuntimeError):  # noqa: N818 - what happened
    """A kernel was about to touch memory outside of every allowed tensor.

    `access` is "load" or "store"; `offset_bytes` the distance to the nearest allowed byte;
    `program` counts along the first axis of the grid.
    """

    def __init__(self, access: str, offset_bytes: int, program: int, address: int) -> None:
        super().__init__(
            f"a {access} goes {offset_bytes} bytes past the nearest tensor that the launch may use"
        )
        self.access = access
        self.offset_bytes = offset_bytes
        self.program, self.address = program, address


@contextmanager
def counted_traffic(
    allowed: Sequence[torch.Tensor] | None = None, watch: list[Access] | None = None
) -> Iterator[Traffic]:
    """Count what kernels do inside the block; with `allowed`, refuse other memory as well.

    watch: takes every access, in order. For the interpreter only, and for one thread at a time:
    RuntimeError on a GPU. OutOfBounds is raised before the access happens.
    """
    if triton_mode().mode != "interpreter":
        raise RuntimeError(
            "loads and stores can be counted in Triton's interpreter only; start the process with "
            "TRITON_INTERPRET=1"
        )
    from triton.runtime.interpreter import interpreter_builder

    traffic = Traffic()
    ranges = None if allowed is None else np.array([_range(tensor) for tensor in allowed])
    watched = _Watched(interpreter_builder, traffic, ranges, watch)
    # instance attributes: they hide the builder's own methods until they are deleted
    for name in ("create_masked_load", "create_masked_store", "set_grid_dim"):
        setattr(interpreter_builder, name, getattr(watched, name))
    try:
        yield traffic
    except Exception as error:
        # the interpreter wraps what a kernel raises, once for every function it was called through
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, OutOfBounds):
            cause = cause.__cause__
        if cause is not None and cause is not error:
            raise cause from None
        raise
    finally:
        for name in ("create_masked_load", "create_masked_store", "set_grid_dim"):
            delattr(interpreter_builder, name)


class _Watched:
    """The three methods of the interpreter through which every access and launch goes."""

    def __init__(
        self,
        builder: Any,
        traffic: Traffic,
        ranges: np.ndarray | None,
        watch: list[Access] | None,
    ) -> None:
        self._class, self._builder = type(builder), builder
        self._traffic, self._ranges, self._watch = traffic, ranges, watch

    def create_masked_load(self, ptrs: Any, mask: Any, *rest: Any, **named: Any) -> Any:
        moved = self._accessed("load", ptrs, mask)
        self._traffic.loads += moved
        self._traffic.loaded_bytes += moved * _element_bytes(ptrs)
        return self._class.create_masked_load(self._builder, ptrs, mask, *rest, **named)

    def create_masked_store(self, ptrs: Any, value: Any, mask: Any, *rest: Any) -> Any:
        moved = self._accessed("store", ptrs, mask)
        self._traffic.stores += moved
        self._traffic.stored_bytes += moved * _element_bytes(ptrs)
        return self._class.create_masked_store(self._builder, ptrs, value, mask, *rest)

    def set_grid_dim(self, *grid: int) -> Any:
        self._traffic.launches += 1
        self._traffic.programs += int(np.prod(grid))
        return self._class.set_grid_dim(self._builder, *grid)

    def _accessed(self, access: str, ptrs: Any, mask: Any) -> int:
        # a scalar access has a mask of one element
        on = np.broadcast_to(np.asarray(mask.data, dtype=bool), np.shape(ptrs.data))
        if self._ranges is None and self._watch is None:
            return int(on.sum())
        first = np.asarray(ptrs.data)[on].astype(np.int64)
        program = int(self._builder.grid_idx[0])
        if self._ranges is not None:
            self._check(access, first, first + _element_bytes(ptrs), program)
        if self._watch is not None:
            self._watch.append(Access(access, program, first))
        return len(first)

    def _check(self, access: str, first: np.ndarray, last: np.ndarray, program: int) -> None:
        assert self._ranges is not None
        inside = (first[:, None] >= self._ranges[:, 0]) & (last[:, None] <= self._ranges[:, 1])
        if not (fine := inside.any(1)).all():
            stray = first[int(np.argmin(fine))]
            # the distance to each range is positive on the side that was missed
            gaps = np.maximum(self._ranges[:, 0] - stray, stray + 1 - self._ranges[:, 1])
            raise OutOfBounds(access, int(gaps.min()), program, int(stray))


def _element_bytes(ptrs: Any) -> int:
    return max(ptrs.get_element_ty().primitive_bitwidth // 8, 1)


def _range(tensor: torch.Tensor) -> tuple[int, int]:
    """Return the byte range from a tensor's first element to its last one."""
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    entries = 1 + sum((n - 1) * step for n, step in steps) if tensor.numel() else 0
    return tensor.data_ptr(), tensor.data_ptr() + entries * tensor.element_size()
