"""How views are cut into parts: the pieces that caches of several versions share.

Sources: see `byte_map_parts`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from workbench.core.arithmetic import cdiv
from workbench.core.layouts.error import LayoutError
from workbench.core.layouts.shapes import HEADS, KV, NUM_BLOCKS, TOKENS, CacheGeometry
from workbench.core.layouts.view import View

PLACES = (NUM_BLOCKS, TOKENS, HEADS)
"""Dimensions that say where an element belongs; the others count elements, outermost first."""
INNER = "head_size"
PADDING = "padding"
BYTE = 8
PAGED_VECTOR_BYTES = 16


@dataclass(frozen=True, slots=True)
class Part:
    """One kind of content. `view` finds its elements; `bits`: of one stored value.

    axes of the view: num_blocks, block_size and num_kv_heads say whose the values are, the others
    count them. Packed formats are viewed in bytes: a value may have fewer or more bits than one.
    """

    name: str
    view: View
    bits: int

    @property
    def value_axes(self) -> tuple[int, ...]:
        """Return the positions of the dimensions that count values, outermost first."""
        return tuple(n for n, axis in enumerate(self.view.axes) if axis not in PLACES)

    @property
    def values(self) -> int:
        """Return the values of one token and head, or of one state."""
        stored = prod(self.view.shape[axis] for axis in self.value_axes)
        return stored * self.view.itemsize * BYTE // self.bits


def plain(name: str, view: View) -> Part:
    """Return the whole view as one part, each element a value."""
    return Part(name, view, view.itemsize * BYTE)


def halves(view: View) -> tuple[tuple[str, View], ...]:
    """Return K and V of a cache with a dimension for them."""
    axis = view.axes.index(KV)
    return tuple((name, _without(view, axis, half)) for half, name in enumerate(("K", "V")))


def _without(view: View, axis: int, index: int) -> View:
    return replace(
        view,
        axes=(*view.axes[:axis], *view.axes[axis + 1 :]),
        shape=(*view.shape[:axis], *view.shape[axis + 1 :]),
        strides=(*view.strides[:axis], *view.strides[axis + 1 :]),
        offset_elements=view.offset_elements + index * view.strides[axis],
    )


def _slice(view: View, start: int, count: int) -> View:
    """Return `count` elements of the last dimension."""
    return replace(
        view,
        shape=(*view.shape[:-1], count),
        offset_elements=view.offset_elements + start * view.strides[-1],
    )


def sliced(view: View, pieces: tuple[tuple[str, int, int], ...]) -> tuple[Part, ...]:
    """Return the non-empty pieces of the last dimension: name, elements, bits of a value."""
    parts, start = [], 0
    for name, count, bits in pieces:
        if count:
            parts.append(Part(name, _slice(view, start, count), bits))
        start += count
    return tuple(parts)


def nvfp4_half(name: str, half: View, geometry: CacheGeometry) -> tuple[Part, ...]:
    """Return all values of a half page, then all of its scales, both in the order of the cache.

    Scales of V are identified by their place in memory; some kernels swap them inside groups of
    four tokens.
    """
    full, data = half.shape[-1], geometry.head_size // 2
    heads, tokens = half.axes.index(HEADS), half.axes.index(TOKENS)
    entries = half.shape[heads] * half.shape[tokens]

    def packed(size: int, offset: int) -> View:
        strides = list(half.strides)
        for axis in (heads, tokens):
            strides[axis] = strides[axis] * size // full
        return replace(
            half,
            shape=(*half.shape[:-1], size),
            strides=tuple(strides),
            offset_elements=half.offset_elements + offset,
        )

    return (
        Part(name, packed(data, 0), 4),
        Part(f"{name} scale", packed(full - data, entries * data), BYTE),
    )


def paged(view: View, geometry: CacheGeometry, _rope: int | None = None) -> tuple[Part, ...]:
    """Return ROCm's paged order.

    The order is K as [head, part of it, token, 16 bytes], V as [head, element, token].
    """
    keys, values = (half for _name, half in halves(view))
    vector = PAGED_VECTOR_BYTES // view.itemsize
    if geometry.head_size % vector:
        raise LayoutError(
            "head_not_in_vectors",
            f"Heads of {geometry.head_size} elements are not a multiple of {vector}, which fill "
            f"the {PAGED_VECTOR_BYTES} bytes that this backend reads at once. Nearest valid: "
            f"{cdiv(geometry.head_size, vector) * vector}.",
            field="head_size",
        )
    blocks, tokens, heads, size = keys.shape
    step = keys.strides[0]
    key_view = View(
        (NUM_BLOCKS, HEADS, "vector", TOKENS, INNER),
        (blocks, heads, size // vector, tokens, vector),
        (step, size * tokens, tokens * vector, vector, 1),
        keys.offset_elements,
        view.dtype,
    )
    value_view = View(
        (NUM_BLOCKS, HEADS, INNER, TOKENS),
        (blocks, heads, size, tokens),
        (step, size * tokens, tokens, 1),
        values.offset_elements,
        view.dtype,
    )
    return plain("K", key_view), plain("V", value_view)
