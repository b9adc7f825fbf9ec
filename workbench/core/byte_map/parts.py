"""What the bytes of a cache mean: keys, values, scales, latents or states, each as a view.

A backend's cache shape determines where a block is; its kernels determine what is inside. The two
differ where a backend packs values, keeps scales in the page, or reads a page in an order of its
own. Sources, 0.23: `PagedAttention.split_kv_cache` (ROCM_ATTN), `CPUAttentionBackendImpl.forward`,
`nvfp4_kv_cache_split_views` (FlashInfer), `TritonAttentionImpl._ensure_scale_caches`,
`TurboQuantConfig`, and the comment on the fp8_ds_mla format in `flashmla_sparse.py`; 0.33: the same
and `_nvfp4_kv_views` (FlashInfer), `_kv_cache_views` (B12X).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from workbench.core.arithmetic import cdiv
from workbench.core.byte_map.cuts import (
    BYTE,
    INNER,
    PADDING,
    Part,
    halves,
    nvfp4_half,
    paged,
    plain,
    sliced,
)
from workbench.core.byte_map.packed import heads_and_size, keys_then_values, paged_heads
from workbench.core.dtypes import PER_TOKEN_HEAD_DTYPES, TURBOQUANT_BITS
from workbench.core.groups.cache_spec import INDEX_KEYS
from workbench.core.groups.layer_specs import INDEX_SCALE_ELEMENTS
from workbench.core.layouts.error import LayoutError
from workbench.core.layouts.shapes import HEADS, KV, NUM_BLOCKS, TOKENS, CacheGeometry
from workbench.core.layouts.view import View
from workbench.core.packing import SCALE_BYTES

__all__ = ["BYTE", "PADDING", "Part", "attention_parts", "state_parts"]

FP8_DS_MLA = (("latent", 512, 8), ("latent scale", 16, 32), ("rope", 128, 16))
"""One token of fp8_ds_mla: part, bytes, bits of one value."""

Splitter = Callable[[View, CacheGeometry, int | None], tuple[Part, ...]]


def attention_parts(
    view: View, geometry: CacheGeometry, rope_elements: int | None = None
) -> tuple[Part, ...]:
    """Return what the bytes of an attention view mean.

    geometry: of one kernel block; rope_elements: of an MLA head, the last ones, where known.
    Errors: LayoutError for unknown dimensions.
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
    """Return the states of an SSM layer; states without a name are numbered."""
    names = names or tuple(f"state {number}" for number in range(len(views)))
    return tuple(
        Part(name, view, view.itemsize * BYTE) for name, view in zip(names, views, strict=True)
    )


def _keys_and_values(
    view: View, geometry: CacheGeometry, _rope: int | None = None
) -> tuple[Part, ...]:
    """Return K and V next to each other, with what their type packs into the page."""
    stored = view.shape[view.axes.index(INNER)]
    if geometry.cache_dtype == "nvfp4" and stored != geometry.head_size:
        return tuple(
            part for name, half in halves(view) for part in nvfp4_half(name, half, geometry)
        )
    scaled = geometry.cache_dtype in PER_TOKEN_HEAD_DTYPES and stored > geometry.head_size
    if not scaled:
        return tuple(plain(name, half) for name, half in halves(view))
    return tuple(
        part
        for name, half in halves(view)
        for part in sliced(
            half,
            ((name, geometry.head_size, BYTE), (f"{name} scale", SCALE_BYTES, SCALE_BYTES * BYTE)),
        )
    )


def _cpu(view: View, geometry: CacheGeometry, _rope: int | None = None) -> tuple[Part, ...]:
    """Return the keys of all tokens of a head, then their values.

    The kernel cuts [2 * tokens, head].
    """
    blocks, heads, tokens, _both = view.shape
    size = geometry.head_size
    return tuple(
        plain(
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
    """Return K, then V, in every head of every token."""
    bits = view.itemsize * BYTE
    values = geometry.value_head_size or geometry.head_size
    return sliced(view, (("K", geometry.head_size, bits), ("V", values, bits)))


def _turboquant(view: View, geometry: CacheGeometry, _rope: int | None = None) -> tuple[Part, ...]:
    """Return K with its norm, V with scale and zero point, and one byte where their sum is odd."""
    slot, size = view.shape[-1], geometry.head_size
    if geometry.cache_dtype not in TURBOQUANT_BITS:
        return (plain("K and V", view),)
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
    return sliced(view, (*pieces, (PADDING, rest, BYTE)))


def _latent(view: View, geometry: CacheGeometry, rope: int | None = None) -> tuple[Part, ...]:
    """Return the compressed K and V of a token, and the rotary part of its key."""
    if geometry.cache_dtype == INDEX_KEYS:
        return _index_keys(view)
    if geometry.cache_dtype == "fp8_ds_mla" and view.shape[-1] != geometry.head_size:
        return sliced(view, FP8_DS_MLA)
    bits, size = view.itemsize * BYTE, view.shape[-1]
    return sliced(view, (("latent", size - (rope or 0), bits), ("rope", rope or 0, bits)))


def _index_keys(view: View) -> tuple[Part, ...]:
    """Return the fp8 keys of all tokens of a kernel block, then their float32 scales.

    Source: `indexer_k_quant_and_cache` in `csrc/cache_kernels.cu`, 0.23 and 0.33.
    """
    tokens, token = view.shape[-2:]
    scale = token // (INDEX_SCALE_ELEMENTS + SCALE_BYTES) * SCALE_BYTES
    key = token - scale
    pieces = (("index key", key, 0, BYTE), ("index scale", scale, tokens * key, 32))
    return tuple(
        Part(
            name,
            View(
                view.axes,
                (*view.shape[:-1], size),
                (*view.strides[:-2], size, 1),
                view.offset_elements + first,
                view.dtype,
            ),
            bits,
        )
        for name, size, first, bits in pieces
        if size
    )


def _hidden(view: View, _geometry: CacheGeometry, _rope: int | None = None) -> tuple[Part, ...]:
    return (plain("hidden state", view),)


SPLITTERS: Final[Mapping[tuple[str, ...], Splitter]] = {
    (NUM_BLOCKS, KV, TOKENS, HEADS, INNER): _keys_and_values,
    (KV, NUM_BLOCKS, TOKENS, HEADS, INNER): paged,
    (NUM_BLOCKS, HEADS, TOKENS, "key_and_value"): _cpu,
    (NUM_BLOCKS, TOKENS, HEADS, "key_and_value"): _different_values,
    (NUM_BLOCKS, TOKENS, HEADS, "slot"): _turboquant,
    (NUM_BLOCKS, TOKENS, INNER): _latent,
    (NUM_BLOCKS, TOKENS, HEADS, INNER): _hidden,
    (NUM_BLOCKS, HEADS, TOKENS, "keys_then_values"): keys_then_values,
    (NUM_BLOCKS, KV, TOKENS, "paged_heads"): paged_heads,
    (NUM_BLOCKS, KV, TOKENS, "heads_and_size"): heads_and_size,
    (NUM_BLOCKS, HEADS, TOKENS, "slot"): _turboquant,
    (NUM_BLOCKS, HEADS, TOKENS, INNER): _latent,
    (NUM_BLOCKS, HEADS, TOKENS, "hidden_state"): _hidden,
}
"""Logical dimensions of a cache -> what fills them."""
