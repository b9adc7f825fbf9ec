"""What the bytes of a cache mean: keys, values, scales, latents or states, each as a view.

A backend's cache shape determines where a block is; its kernels determine what is inside. The two
differ where a backend packs values, keeps scales in the page, or reads a page in an order of its
own.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, chain
from typing import Final

from workbench.core.arithmetic import cdiv
from workbench.core.byte_map.cuts import (
    BYTE,
    INNER,
    PADDING,
    Part,
    halves,
    nvfp4_half,
    plain,
    sliced,
)
from workbench.core.dtypes import INT4_HEADS, PER_TOKEN_HEAD_DTYPES, TURBOQUANT_BITS
from workbench.core.groups.cache_spec import INDEX_KEYS
from workbench.core.groups.index_keys import INDEX_SCALE_ELEMENTS
from workbench.core.layouts.error import layout_error
from workbench.core.layouts.shapes import HEADS, KV, NUM_BLOCKS, TOKENS, CacheGeometry
from workbench.core.layouts.view import View
from workbench.core.model import FLOAT32_STATE
from workbench.core.packing import RECORD_DTYPES, SCALE_BYTES

RECORDS = {
    656: (("latent", 512, 8), ("latent scale", 16, 32), ("rope", 128, 16)),
    352: (("latent", 256, 4), ("rope", 64, 8), ("latent scale", 32, 8)),
    528: (("latent", 512, 8), ("latent scale", 16, 8)),
    288: (("latent", 256, 4), ("latent scale", 32, 8)),
}
"""Bytes of a packed latent -> its parts: name, bytes, bits of one value."""
PAGE_RECORDS = {
    584: ((("latent", 448, 8), ("rope", 128, 16)), (("latent scale", 7, 8), (PADDING, 1, 8)))
}
"""Bytes of a packed latent whose parts are apart -> what a page has of all tokens, then of all."""
PAGED_VECTOR_BYTES = 16
FLOAT32 = SCALE_BYTES * BYTE

Parts = tuple[Part, ...]


def attention_parts(view: View, geometry: CacheGeometry, rope_elements: int | None = None) -> Parts:
    """Return what the bytes of an attention view mean.

    geometry: of one kernel block; rope_elements: of an MLA head, the last ones, where known.
    Errors: LayoutError for unknown dimensions.
    """
    split = SPLITTERS.get(view.axes)
    if split is None:
        raise layout_error("unknown_dimensions", axes=", ".join(view.axes))
    parts = split(view, geometry)
    if not rope_elements or [part.name for part in parts] != ["latent"]:
        return parts
    bits, latent = parts[0].bits, view.shape[-1] - rope_elements
    return sliced(view, (("latent", latent, bits), ("rope", rope_elements, bits)))


def _keys_and_values(view: View, geometry: CacheGeometry) -> Parts:
    """Return K and V next to each other, with what their type packs into the page."""
    stored, size = view.shape[view.axes.index(INNER)], geometry.head_size
    # nvfp4_kv_cache_split_views of FlashInfer, 0.23.
    if geometry.cache_dtype == "nvfp4" and stored != size:
        found = [nvfp4_half(name, half, geometry) for name, half in halves(view)]
        return tuple(chain(*found))
    # TritonAttentionImpl._ensure_scale_caches, 0.23: each scale is after the values it is for.
    scale = stored - size if geometry.cache_dtype in PER_TOKEN_HEAD_DTYPES else 0
    bits = view.itemsize * BYTE
    found = [
        sliced(half, ((name, stored - scale, bits), (f"{name} scale", scale, FLOAT32)))
        for name, half in halves(view)
    ]
    return tuple(chain(*found))


def _paged(view: View, geometry: CacheGeometry) -> Parts:
    """Return ROCm's order: K [head, part of it, token, 16 bytes], V [head, element, token]."""
    # PagedAttention.split_kv_cache: the shape of the cache says nothing of this order.
    keys, values = (half for _name, half in halves(view))
    vector = PAGED_VECTOR_BYTES // view.itemsize
    if geometry.head_size % vector:
        raise layout_error(
            "head_not_in_vectors",
            geometry=geometry,
            vector=vector,
            paged_vector_bytes=PAGED_VECTOR_BYTES,
            nearest=cdiv(geometry.head_size, vector) * vector,
        )
    blocks, tokens, heads, size = keys.shape
    step, head = keys.strides[0], size * tokens
    key_view = replace(
        keys,
        axes=(NUM_BLOCKS, HEADS, "vector", TOKENS, INNER),
        shape=(blocks, heads, size // vector, tokens, vector),
        strides=(step, head, tokens * vector, vector, 1),
    )
    value_view = replace(
        values,
        axes=(NUM_BLOCKS, HEADS, INNER, TOKENS),
        shape=(blocks, heads, size, tokens),
        strides=(step, head, tokens, 1),
    )
    return plain("K", key_view), plain("V", value_view)


def _cpu(view: View, geometry: CacheGeometry) -> Parts:
    """Return the keys of all tokens of a head, then their values."""
    # CPUAttentionBackendImpl.forward cuts [2 * tokens, head].
    _blocks, heads, tokens, _both = view.shape
    size, strides = geometry.head_size, (view.strides[1], geometry.head_size)
    return tuple(
        plain(name, _rows(view, (heads, tokens, size), strides, half * tokens * size))
        for half, name in enumerate("KV")
    )


def _rows(view: View, sizes: tuple[int, int, int], strides: tuple[int, int], first: int) -> View:
    """Return [block, head, token, element] of these sizes, from element `first` of a block on.

    strides: from one head to the next, and from one token to the next.
    """
    return View(
        (NUM_BLOCKS, HEADS, TOKENS, INNER),
        (view.shape[0], *sizes),
        (view.strides[0], *strides, 1),
        view.offset_elements + first,
        view.dtype,
    )


def _turboquant(view: View, geometry: CacheGeometry) -> Parts:
    """Return K with its norm, V with scale and zero point, and one byte where their sum is odd."""
    slot, size = view.shape[-1], geometry.head_size
    if geometry.cache_dtype not in TURBOQUANT_BITS:
        return (plain("K and V", view),)
    key_bits, value_bits = TURBOQUANT_BITS[geometry.cache_dtype]
    pieces = [
        ("K", cdiv(size * key_bits, BYTE), key_bits),
        # Only keys of fewer bits than a byte have a norm (TurboQuantConfig, 0.23).
        ("K norm", 2 if key_bits < BYTE else 0, 16),
        ("V", cdiv(size * value_bits, BYTE), value_bits),
        ("V scale", 2, 16),
        ("V zero", 2, 16),
    ]
    rest = slot - sum(count for _name, count, _bits in pieces)
    return sliced(view, (*pieces, (PADDING, rest, BYTE)))


def _latent(view: View, geometry: CacheGeometry) -> Parts:
    """Return the compressed K and V of a token with the rotary part of its key, or index keys."""
    if geometry.cache_dtype == INDEX_KEYS:
        return _index_keys(view)
    if geometry.cache_dtype == FLOAT32_STATE:
        half = view.shape[-1] // 2
        return sliced(view, (("state", half, FLOAT32), ("score", half, FLOAT32)))
    if geometry.cache_dtype not in RECORD_DTYPES or view.shape[-1] == geometry.head_size:
        return (plain("latent", view),)
    # The comments on the formats in flashmla_sparse.py (0.23) and on quantize_and_insert_k_cache
    # of DeepSeek-V4.
    if (pieces := RECORDS.get(view.shape[-1])) is not None:
        return sliced(view, pieces)
    regions = PAGE_RECORDS[view.shape[-1]]
    rows = _regions(view, [sum(size for _name, size, _bits in region) for region in regions])
    return tuple(chain(*map(sliced, rows, regions)))


def _regions(view: View, sizes: Sequence[int]) -> tuple[View, ...]:
    """Return what a kernel block keeps of all tokens one after the other: rows of these bytes."""
    tokens = view.shape[-2]
    starts = accumulate((tokens * size for size in sizes), initial=view.offset_elements)
    return tuple(
        replace(
            view,
            shape=(*view.shape[:-1], size),
            strides=(*view.strides[:-2], size, 1),
            offset_elements=start,
        )
        for start, size in zip(starts, sizes, strict=False)
    )


def _index_keys(view: View) -> Parts:
    """Return the fp8 keys of all tokens of a kernel block, then their float32 scales."""
    # indexer_k_quant_and_cache in csrc/cache_kernels.cu, 0.23 and 0.33.
    token = view.shape[-1]
    scale = token // (INDEX_SCALE_ELEMENTS + SCALE_BYTES) * SCALE_BYTES
    if not scale:
        return (Part("index key", view, BYTE),)
    keys, scales = _regions(view, (token - scale, scale))
    return Part("index key", keys, BYTE), Part("index scale", scales, FLOAT32)


def _hidden(view: View, _geometry: CacheGeometry) -> Parts:
    return (plain("hidden state", view),)


def _keys_then_values(view: View, geometry: CacheGeometry) -> Parts:
    """Return K, then V, in every token of every head, each with its scale, if any."""
    heads, stored = view.shape[view.axes.index(HEADS)], view.shape[-1]
    size, values, bits = geometry.head_size, geometry.value_head_size, view.itemsize * BYTE
    if heads == 2 * geometry.num_kv_heads and stored < size:
        return _nvfp4_pages(view, geometry)
    values = values or size
    if geometry.cache_dtype == INT4_HEADS and stored < size + values:
        size, values, bits = size // 2, values // 2, BYTE // 2
    scale = SCALE_BYTES if stored > size + values else 0
    pieces = (("K", size, bits), ("K scale", scale, FLOAT32))
    return sliced(view, (*pieces, ("V", values, bits), ("V scale", scale, FLOAT32)))


def _nvfp4_pages(view: View, geometry: CacheGeometry) -> Parts:
    """Cut a page as a whole: K, its scales, V, its scales, whatever the view's slots are."""
    # _nvfp4_kv_views of FlashInfer, 0.33.
    _blocks, slots, tokens, full = view.shape
    heads = slots // 2
    by_head = view.strides[1:3] == (tokens * full, full)
    inner = (tokens * full, full) if by_head else (full, heads * full)
    found = [
        nvfp4_half(
            name, _rows(view, (heads, tokens, full), inner, side * heads * tokens * full), geometry
        )
        for side, name in enumerate("KV")
    ]
    return tuple(chain(*found))


def _heads_and_size(view: View, geometry: CacheGeometry) -> Parts:
    """Return K of all tokens, then V, with the heads of a token side by side."""
    # _kv_cache_views of B12X, 0.33.
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


SPLITTERS: Final[Mapping[tuple[str, ...], Callable[[View, CacheGeometry], Parts]]] = {
    (NUM_BLOCKS, KV, TOKENS, HEADS, INNER): _keys_and_values,
    (KV, NUM_BLOCKS, TOKENS, HEADS, INNER): _paged,
    (NUM_BLOCKS, HEADS, TOKENS, "key_and_value"): _cpu,
    (NUM_BLOCKS, TOKENS, HEADS, "key_and_value"): _keys_then_values,
    (NUM_BLOCKS, TOKENS, HEADS, "slot"): _turboquant,
    (NUM_BLOCKS, TOKENS, INNER): _latent,
    (NUM_BLOCKS, TOKENS, HEADS, INNER): _hidden,
    (NUM_BLOCKS, HEADS, TOKENS, "keys_then_values"): _keys_then_values,
    # The same pages as those of 0.23, where all heads of a token are one dimension.
    (NUM_BLOCKS, KV, TOKENS, "paged_heads"): lambda view, geometry: _paged(
        _with_heads(view, geometry), geometry
    ),
    (NUM_BLOCKS, KV, TOKENS, "heads_and_size"): _heads_and_size,
    (NUM_BLOCKS, HEADS, TOKENS, "slot"): _turboquant,
    (NUM_BLOCKS, HEADS, TOKENS, INNER): _latent,
    (NUM_BLOCKS, HEADS, TOKENS, "hidden_state"): _hidden,
}
"""Logical dimensions of a cache -> what fills them."""
