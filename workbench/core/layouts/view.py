"""A strided view of one raw allocation, without the allocation: shape, strides, offset, bytes.

Every byte of block b must be in page b, or blocks meet: `bytes_outside_their_page` counts the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from workbench.core.layouts.error import layout_error, require_index, require_known
from workbench.core.layouts.shapes import NUM_BLOCKS

ITEM_BYTES = {
    "bfloat16": 2, "float16": 2, "float32": 4, "uint8": 1, "int8": 1, "float8_e4m3fn": 1
}  # fmt: skip
"""Element type -> bytes of one element."""


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides in elements of a dense tensor of `shape`, the last dimension innermost."""
    # An empty dimension counts as one element, as it does in torch.
    sizes = [max(size, 1) for size in shape]
    return tuple(prod(sizes[axis + 1 :]) for axis in range(len(sizes)))


@dataclass(frozen=True, slots=True)
class View:
    """Where every element is: element `i` is at `offset_elements + sum(i * strides)`.

    axes: names of the logical dimensions; strides and offset in elements of `dtype`.
    """

    axes: tuple[str, ...]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset_elements: int
    dtype: str

    @property
    def itemsize(self) -> int:
        """Return the bytes of one element."""
        return ITEM_BYTES[self.dtype]

    @property
    def offset_bytes(self) -> int:
        """Return the byte of the first element."""
        return self.offset_elements * self.itemsize

    @property
    def elements(self) -> int:
        """Return the elements of the view."""
        return prod(self.shape)

    @property
    def block_axis(self) -> int:
        """Return the dimension that counts kernel blocks (states: manager blocks)."""
        return self.axes.index(NUM_BLOCKS)

    @property
    def inner_axes(self) -> list[int]:
        """Return the dimensions of more than one element, innermost first."""
        axes = (axis for axis, size in enumerate(self.shape) if size > 1)
        return sorted(axes, key=self.strides.__getitem__)

    @property
    def storage_bytes(self) -> int:
        """Return the least bytes of storage that contain every element; 0 without elements."""
        if not self.elements:
            return 0
        steps = zip(self.shape, self.strides, strict=True)
        last = self.offset_elements + sum((size - 1) * stride for size, stride in steps)
        return (last + 1) * self.itemsize

    def inside(self, raw_bytes: int, order: Sequence[int] | None = None) -> View:
        """Return the view, which is checked to be inside `raw_bytes` bytes of storage.

        order: that of memory, in which vLLM's message shows sizes and strides.
        Errors: LayoutError (vLLM: RuntimeError, torch's own message).
        """
        needed = self.storage_bytes
        if needed <= raw_bytes:
            return self
        axes = range(len(self.shape)) if order is None else order
        sizes, steps = [self.shape[axis] for axis in axes], [self.strides[axis] for axis in axes]
        raise layout_error(
            "view_leaves_storage",
            operands={"needed_bytes": needed, "raw_bytes": raw_bytes, "strides": self.strides},
            sizes=sizes,
            steps=steps,
            self=self,
        )

    def byte_of(self, index: Sequence[int]) -> int:
        """Return the first byte of the element at `index`. Errors: LayoutError outside of it."""
        self._check(dict(zip(self.axes, index, strict=True)))
        steps = zip(index, self.strides, strict=True)
        return (self.offset_elements + sum(i * stride for i, stride in steps)) * self.itemsize

    def index_of(self, byte: int) -> tuple[int, ...] | None:
        """Return the element that holds `byte`, or None without one; the inverse of `byte_of`."""
        rest = byte // self.itemsize - self.offset_elements
        index = [0] * len(self.shape)
        for axis in reversed(self.inner_axes):
            if rest > 0:
                index[axis] = min(rest // self.strides[axis], self.shape[axis] - 1)
                rest -= index[axis] * self.strides[axis]
        return None if rest or not self.elements else tuple(index)

    def byte_ranges(self, fixed: Mapping[str, int]) -> tuple[range, ...]:
        """Return the bytes of all elements whose named dimensions have these indices, ascending.

        `{"num_blocks": 3}` gives the bytes of kernel block 3. Adjacent ranges are joined.
        Errors: LayoutError for a dimension or an index that does not exist.
        """
        self._check(fixed)
        if not self.elements:
            return ()
        start, free = self.offset_elements, []
        for axis, size, stride in zip(self.axes, self.shape, self.strides, strict=True):
            if axis in fixed:
                start += fixed[axis] * stride
            elif size > 1:
                free.append((stride, size))
        free.sort()
        run = 1
        while free and free[0][0] == run:
            run *= free.pop(0)[1]
        starts = [start]
        for stride, size in reversed(free):
            starts = [first + step * stride for first in starts for step in range(size)]
        item = self.itemsize
        return tuple(range(first * item, (first + run) * item) for first in sorted(starts))

    def _check(self, fixed: Mapping[str, int]) -> None:
        sizes = dict(zip(self.axes, self.shape, strict=True))
        for axis, index in fixed.items():
            require_known("dimension", axis, self.axes, "axes")
            require_index(axis, index, sizes[axis])


def block_ranges(view: View, block: int, blocks_per_page: int) -> tuple[range, ...]:
    """Return the bytes of one manager block: of its `blocks_per_page` kernel blocks, ascending."""
    kernels = range(block * blocks_per_page, (block + 1) * blocks_per_page)
    ranges = [part for kernel in kernels for part in view.byte_ranges({NUM_BLOCKS: kernel})]
    return tuple(sorted(ranges, key=lambda part: part.start))


def bytes_outside_their_page(
    view: View, page_bytes: int, blocks_per_page: int = 1, first_byte: int = 0
) -> int:
    """Return the bytes of blocks outside their own page; `first_byte` is that of page 0."""

    def outside(block: int) -> int:
        start = first_byte + block * page_bytes
        parts = block_ranges(view, block, blocks_per_page)
        ends = [(max(part.start, start), min(part.stop, start + page_bytes)) for part in parts]
        return sum(map(len, parts)) - sum(max(0, stop - first) for first, stop in ends)

    blocks = view.shape[view.block_axis] // blocks_per_page
    step_bytes = view.strides[view.block_axis] * view.itemsize * blocks_per_page
    # Where blocks are as far apart as pages, every block is in its page as the first one is.
    if step_bytes == page_bytes:
        return blocks * outside(0)
    return sum(map(outside, range(blocks)))


def joined(ranges: Iterable[range]) -> tuple[range, ...]:
    """Return the same bytes, ascending, with ranges that touch made one."""
    found: list[range] = []
    for piece in sorted(ranges, key=lambda piece: piece.start):
        if found and found[-1].stop == piece.start:
            found[-1] = range(found[-1].start, piece.stop)
        else:
            found.append(piece)
    return tuple(found)


def dense_run_end(view: View, index: tuple[int, ...], apart: frozenset[str]) -> int:
    """Return the byte after the dense run that holds `index`; dimensions in `apart` end it."""
    run, inside = 1, 0
    for axis in view.inner_axes:
        if view.strides[axis] != run or view.axes[axis] in apart:
            break
        inside += index[axis] * run
        run *= view.shape[axis]
    return view.byte_of(index) + (run - inside) * view.itemsize


def overlaps(view: View) -> bool:
    """Return whether two elements may share a place: a stride is shorter than what is inside it."""
    reach = 0
    for axis in view.inner_axes:
        if view.strides[axis] <= reach:
            return True
        reach += (view.shape[axis] - 1) * view.strides[axis]
    return False


def next_byte(view: View, byte: int) -> int | None:
    """Return the first byte of `view` that is not before `byte`."""
    if not view.elements:
        return None
    rest = max(byte // view.itemsize - view.offset_elements, 0)
    found = _first_from(view, view.inner_axes[::-1], rest)
    return None if found is None else max(byte, (view.offset_elements + found) * view.itemsize)


def _first_from(view: View, axes: list[int], rest: int) -> int | None:
    """Return the smallest sum of index times stride that is at least `rest`."""
    if not axes:
        return 0 if rest <= 0 else None
    axis, inner = axes[0], axes[1:]
    stride, last = view.strides[axis], view.shape[axis] - 1
    step = min(rest // stride, last)
    found = _first_from(view, inner, rest - step * stride)
    if found is not None:
        return step * stride + found
    return (step + 1) * stride if step < last else None
