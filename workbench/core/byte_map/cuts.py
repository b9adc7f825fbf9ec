"""How views are cut into parts: the pieces that caches of several versions share."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import prod

from workbench.core.layouts.shapes import HEADS, KV, NUM_BLOCKS, TOKENS, CacheGeometry
from workbench.core.layouts.view import View

PLACES = (NUM_BLOCKS, TOKENS, HEADS)
"""Dimensions that say where an element belongs; the others count elements, outermost first."""
INNER = "head_size"
PADDING = "padding"
BYTE = 8


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
    at = view.axes.index(KV)
    keys = replace(
        view,
        axes=(*view.axes[:at], *view.axes[at + 1 :]),
        shape=(*view.shape[:at], *view.shape[at + 1 :]),
        strides=(*view.strides[:at], *view.strides[at + 1 :]),
    )
    values = replace(keys, offset_elements=view.offset_elements + view.strides[at])
    return ("K", keys), ("V", values)


def sliced(view: View, pieces: Iterable[tuple[str, int, int]]) -> tuple[Part, ...]:
    """Return the non-empty pieces of the last dimension: name, elements, bits of a value."""
    parts, start = [], view.offset_elements
    for name, count, bits in pieces:
        if count:
            shape = (*view.shape[:-1], count)
            parts.append(Part(name, replace(view, shape=shape, offset_elements=start), bits))
        start += count * view.strides[-1]
    return tuple(parts)


def nvfp4_half(name: str, half: View, geometry: CacheGeometry) -> tuple[Part, ...]:
    """Return all values of a half page, then all of its scales, both in the order of the cache."""
    # Scales of V are identified by their place in memory: some kernels swap them inside groups of
    # four tokens.
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

    scales = packed(full - data, entries * data)
    return Part(name, packed(data, 0), 4), Part(f"{name} scale", scales, BYTE)
