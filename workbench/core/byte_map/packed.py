"""What the bytes of 0.33's views mean: keys and values packed into one dimension, or in two slots.

Sources, 0.33: the `forward` of each backend, `_nvfp4_kv_views` (FlashInfer), `_kv_cache_views`
(B12X), `PagedAttention.split_kv_cache` over the transposed view (ROCM_ATTN).
"""

from __future__ import annotations

from dataclasses import replace

from workbench.core.byte_map.cuts import BYTE, INNER, Part, halves, nvfp4_half, paged, plain, sliced
from workbench.core.dtypes import INT4_HEADS
from workbench.core.layouts.shapes import HEADS, NUM_BLOCKS, TOKENS, CacheGeometry
from workbench.core.layouts.view import View
from workbench.core.packing import SCALE_BYTES


def keys_then_values(
    view: View, geometry: CacheGeometry, _rope: int | None = None
) -> tuple[Part, ...]:
    """Return K, then V, in every token of every head (0.33), each with its scale, if any."""
    _blocks, heads, _tokens, stored = view.shape
    if heads == 2 * geometry.num_kv_heads and stored < geometry.head_size:
        return _nvfp4_pages(view, geometry)
    size, values, bits = geometry.head_size, geometry.value_head_size, view.itemsize * BYTE
    values = size if values is None else values
    if geometry.cache_dtype == INT4_HEADS and stored < size + values:
        size, values, bits = size // 2, values // 2, BYTE // 2
    scale = SCALE_BYTES if stored > size + values else 0
    float32 = SCALE_BYTES * BYTE
    pieces = (("K", size, bits), ("K scale", scale, float32))
    return sliced(view, (*pieces, ("V", values, bits), ("V scale", scale, float32)))


def _nvfp4_pages(view: View, geometry: CacheGeometry) -> tuple[Part, ...]:
    """Cut a page as a whole: K, its scales, V, its scales, whatever the view's slots are."""
    blocks, slots, tokens, full = view.shape
    heads = slots // 2
    by_head = view.strides[1:3] == (tokens * full, full)
    inner = (tokens * full, full) if by_head else (full, heads * full)
    parts: list[Part] = []
    for side, name in enumerate(("K", "V")):
        half = View(
            (NUM_BLOCKS, HEADS, TOKENS, INNER),
            (blocks, heads, tokens, full),
            (view.strides[0], *inner, 1),
            view.offset_elements + side * heads * tokens * full,
            view.dtype,
        )
        parts += nvfp4_half(name, half, geometry)
    return tuple(parts)


def paged_heads(view: View, geometry: CacheGeometry, _rope: int | None = None) -> tuple[Part, ...]:
    """Return the same pages as ROCm's of 0.23, where all heads of a token are one dimension."""
    return paged(_with_heads(view, geometry), geometry)


def heads_and_size(
    view: View, geometry: CacheGeometry, _rope: int | None = None
) -> tuple[Part, ...]:
    """Return K of all tokens, then V, with the heads of a token side by side."""
    return tuple(plain(name, half) for name, half in halves(_with_heads(view, geometry)))


def _with_heads(view: View, geometry: CacheGeometry) -> View:
    """Split the last dimension: [block, K or V, token, head, element]."""
    size = geometry.head_size
    return replace(
        view,
        axes=(*view.axes[:-1], HEADS, INNER),
        shape=(*view.shape[:-1], view.shape[-1] // size, size),
        strides=(*view.strides[:-1], size, 1),
    )
