"""What the bytes of a cache mean: keys, values, scales, latents or states, each as a view.

A backend's cache shape tells where a block lies; its kernels tell what lies inside. The two differ
where a backend packs values, keeps scales in the page, or reads a page in an order of its own.
Sources, 0.23: `PagedAttention.split_kv_cache` (ROCM_ATTN), `CPUAttentionBackendImpl.forward`,
`nvfp4_kv_cache_split_views` (FlashInfer), `TritonAttentionImpl._ensure_scale_caches`,
`TurboQuantConfig`, and the comment on the fp8_ds_mla format in `flashmla_sparse.py`; 0.33: the
same and `_nvfp4_kv_views` (FlashInfer), `_kv_cache_views` (B12X).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from workbench.core.arithmetic import cdiv
from workbench.core.cache_layouts import HEADS, KV, NUM_BLOCKS, TOKENS, CacheGeometry
from workbench.core.cache_view import View
from workbench.core.dtypes import INT4_HEADS, PER_TOKEN_HEAD_DTYPES, TURBOQUANT_BITS
from workbench.core.layout_error import LayoutError
from workbench.core.stages.attention_bytes import SCALE_BYTES

PLACES = (NUM_BLOCKS, TOKENS, HEADS)
"""Dimensions that say where an element belongs; the others count elements, outermost first."""
INNER = "head_size"
PADDING = "padding"
BYTE = 8
PAGED_VECTOR_BYTES = 16
FP8_DS_MLA = (("latent", 512, 8), ("latent scale", 16, 32), ("rope", 128, 16))
"""One token of fp8_ds_mla: part, bytes, bits of one value."""


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
        """Positions of the dimensions that count values, outermost first."""
        return tuple(n for n, axis in enumerate(self.view.axes) if axis not in PLACES)

    @property
    def values(self) -> int:
        """Values of one token and head, or of one state."""
        stored = prod(self.view.shape[axis] for axis in self.value_axes)
        return stored * self.view.itemsize * BYTE // self.bits


Splitter = Callable[[View, CacheGeometry, int | None], tuple[Part, ...]]


def attention_parts(
    view: View, geometry: CacheGeometry, rope_elements: int | None = None
) -> tuple[Part, ...]:
    """What the bytes of an attention view mean.

    geometry: of one kernel block; rope_elements: of an MLA head, the last ones, where known.
    Errors: LayoutError for dimensions that nobody described.
    """
    split = SPLITTERS.get(view.axes)
    if split is None:
        raise LayoutError(
            "unknown_dimensions",
            f"No backend of this rule set has a cache with the dimensions {', '.join(view.axes)}.",
            field="axes",
        )
    return split(view, geometry, rope_elements)


def state_parts(views: tuple[View, ...], names: tuple[str, ...]) -> tuple[Part, ...]:
    """The states of an SSM layer; states without a name are numbered."""
    names = names or tuple(f"state {number}" for number in range(len(views)))
    return tuple(
        Part(name, view, view.itemsize * BYTE) for name, view in zip(names, views, strict=True)
    )


def _plain(name: str, view: View) -> Part:
    return Part(name, view, view.itemsize * BYTE)


def _halves(view: View) -> tuple[tuple[str, View], ...]:
    """K and V of a cache with a dimension for them."""
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
    """`count` elements of the last dimension."""
    return replace(
        view,
        shape=(*view.shape[:-1], count),
        offset_elements=view.offset_elements + start * view.strides[-1],
    )


def _sliced(view: View, pieces: tuple[tuple[str, int, int], ...]) -> tuple[Part, ...]:
    """Pieces of the last dimension: name, elements, bits of a value; empty ones are left out."""
    parts, start = [], 0
    for name, count, bits in pieces:
        if count:
            parts.append(Part(name, _slice(view, start, count), bits))
        start += count
    return tuple(parts)


def _keys_and_values(
    view: View, geometry: CacheGeometry, _rope: int | None = None
) -> tuple[Part, ...]:
    """K and V beside each other, with what their type packs into the page."""
    stored = view.shape[view.axes.index(INNER)]
    if geometry.cache_dtype == "nvfp4" and stored != geometry.head_size:
        return tuple(part for name, half in _halves(view) for part in _nvfp4(name, half, geometry))
    scaled = geometry.cache_dtype in PER_TOKEN_HEAD_DTYPES and stored > geometry.head_size
    if not scaled:
        return tuple(_plain(name, half) for name, half in _halves(view))
    return tuple(
        part
        for name, half in _halves(view)
        for part in _sliced(
            half,
            ((name, geometry.head_size, BYTE), (f"{name} scale", SCALE_BYTES, SCALE_BYTES * BYTE)),
        )
    )


def _nvfp4(name: str, half: View, geometry: CacheGeometry) -> tuple[Part, ...]:
    """All values of a half page, then all of its scales, both in the order of the cache.

    Scales of V are told by their place in memory; some kernels swap them inside groups of four
    tokens.
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


def _paged(view: View, geometry: CacheGeometry, _rope: int | None = None) -> tuple[Part, ...]:
    """ROCm's paged order: K as [head, part of it, token, 16 bytes], V as [head, element, token]."""
    keys, values = (half for _name, half in _halves(view))
    vector = PAGED_VECTOR_BYTES // view.itemsize
    if geometry.head_size % vector:
        raise LayoutError(
            "head_not_in_vectors",
            f"Heads of {geometry.head_size} elements are no whole number of {vector}, which fill "
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
    return _plain("K", key_view), _plain("V", value_view)


def _cpu(view: View, geometry: CacheGeometry, _rope: int | None = None) -> tuple[Part, ...]:
    """The keys of all tokens of a head, then their values: the kernel cuts [2 * tokens, head]."""
    blocks, heads, tokens, _both = view.shape
    size = geometry.head_size
    return tuple(
        _plain(
            name,
            View(
                (NUM_BLOCKS, HEADS, TOKENS, INNER),
                (blocks, heads, tokens, size),
                (view.strides[0], view.strides[1], size, 1),
                view.offset_elements + half * tokens * size,
                view.dtype,
            ),
        )
        for half, name in enumerate(("K", "V"))
    )


def _different_values(
    view: View, geometry: CacheGeometry, _rope: int | None = None
) -> tuple[Part, ...]:
    """K, then V, in every head of every token."""
    bits = view.itemsize * BYTE
    values = geometry.value_head_size or geometry.head_size
    return _sliced(view, (("K", geometry.head_size, bits), ("V", values, bits)))


def _turboquant(view: View, geometry: CacheGeometry, _rope: int | None = None) -> tuple[Part, ...]:
    """K with its norm, V with scale and zero point, and one byte where their sum is odd."""
    slot, size = view.shape[-1], geometry.head_size
    if geometry.cache_dtype not in TURBOQUANT_BITS:
        return (_plain("K and V", view),)
    key_bits, value_bits = TURBOQUANT_BITS[geometry.cache_dtype]
    packed = key_bits < BYTE
    pieces = [
        ("K", cdiv(size * key_bits, BYTE), key_bits),
        ("K norm", 2 if packed else 0, 16),
        ("V", cdiv(size * value_bits, BYTE), value_bits),
        ("V scale", 2, 16),
        ("V zero", 2, 16),
    ]
    rest = slot - sum(count for _name, count, _bits in pieces)
    return _sliced(view, (*pieces, (PADDING, rest, BYTE)))


def _latent(view: View, geometry: CacheGeometry, rope: int | None = None) -> tuple[Part, ...]:
    """The compressed K and V of a token, and the rotary part of its key."""
    if geometry.cache_dtype == "fp8_ds_mla" and view.shape[-1] != geometry.head_size:
        return _sliced(view, FP8_DS_MLA)
    bits, size = view.itemsize * BYTE, view.shape[-1]
    return _sliced(view, (("latent", size - (rope or 0), bits), ("rope", rope or 0, bits)))


def _keys_then_values(
    view: View, geometry: CacheGeometry, _rope: int | None = None
) -> tuple[Part, ...]:
    """K, then V, in every token of every head (0.33), each with its scale where it has one."""
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
    return _sliced(view, (*pieces, ("V", values, bits), ("V scale", scale, float32)))


def _nvfp4_pages(view: View, geometry: CacheGeometry) -> tuple[Part, ...]:
    """A page is cut as a whole: K, its scales, V, its scales, whatever the view's slots are."""
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
        parts += _nvfp4(name, half, geometry)
    return tuple(parts)


def _paged_heads(view: View, geometry: CacheGeometry, _rope: int | None = None) -> tuple[Part, ...]:
    """The same pages as ROCm's of 0.23, where all heads of a token are one dimension."""
    return _paged(_with_heads(view, geometry), geometry)


def _heads_and_size(
    view: View, geometry: CacheGeometry, _rope: int | None = None
) -> tuple[Part, ...]:
    """K of all tokens, then V, with the heads of a token side by side."""
    return tuple(_plain(name, half) for name, half in _halves(_with_heads(view, geometry)))


def _with_heads(view: View, geometry: CacheGeometry) -> View:
    """The last dimension told apart: [block, K or V, token, head, element]."""
    size = geometry.head_size
    return replace(
        view,
        axes=(*view.axes[:-1], HEADS, INNER),
        shape=(*view.shape[:-1], view.shape[-1] // size, size),
        strides=(*view.strides[:-1], size, 1),
    )


def _hidden(view: View, _geometry: CacheGeometry, _rope: int | None = None) -> tuple[Part, ...]:
    return (_plain("hidden state", view),)


SPLITTERS: Final[Mapping[tuple[str, ...], Splitter]] = {
    (NUM_BLOCKS, KV, TOKENS, HEADS, INNER): _keys_and_values,
    (KV, NUM_BLOCKS, TOKENS, HEADS, INNER): _paged,
    (NUM_BLOCKS, HEADS, TOKENS, "key_and_value"): _cpu,
    (NUM_BLOCKS, TOKENS, HEADS, "key_and_value"): _different_values,
    (NUM_BLOCKS, TOKENS, HEADS, "slot"): _turboquant,
    (NUM_BLOCKS, TOKENS, INNER): _latent,
    (NUM_BLOCKS, TOKENS, HEADS, INNER): _hidden,
    (NUM_BLOCKS, HEADS, TOKENS, "keys_then_values"): _keys_then_values,
    (NUM_BLOCKS, KV, TOKENS, "paged_heads"): _paged_heads,
    (NUM_BLOCKS, KV, TOKENS, "heads_and_size"): _heads_and_size,
    (NUM_BLOCKS, HEADS, TOKENS, "slot"): _turboquant,
    (NUM_BLOCKS, HEADS, TOKENS, INNER): _latent,
    (NUM_BLOCKS, HEADS, TOKENS, "hidden_state"): _hidden,
}
"""Logical dimensions of a cache -> what fills them."""
