"""Attention bytes of one token in 0.33, where the backend packs the layer's spec.

Source: AttentionSpec.unpadded_page_size_bytes and `customize_spec` of the backends, 0.33.
"""

from __future__ import annotations

from workbench.core.dtypes import (
    INT4_HEADS,
    NVFP4_DTYPES,
    PER_TOKEN_HEAD_DTYPES,
    TURBOQUANT_BITS,
    ULTRAQUANT,
    kv_element_bytes,
)
from workbench.core.model import Attention
from workbench.core.stages import attention_bytes as v0_23

ULTRAQUANT_GROUP = 32
"""Elements that share a scale byte."""
PER_TOKEN_HEAD = (*PER_TOKEN_HEAD_DTYPES, INT4_HEADS)
"""KV dtypes with a float32 scale of keys and one of values stored with every token's data."""
PACKERS = {**dict.fromkeys(TURBOQUANT_BITS, "TURBOQUANT"), ULTRAQUANT: "ULTRAQUANT"}
"""KV dtype -> the backend whose packing the alignment takes for granted."""


def token_bytes(
    attention: Attention,
    kv_heads: int,
    kv_cache_dtype: str,
    model_dtype: str,
    backend: str | None,
) -> tuple[int, str]:
    """Return the bytes per token, layer and rank that the alignment counts, and the formula.

    The packed formats of TurboQuant and UltraQuant are counted whatever the backend is.
    """
    element = kv_element_bytes(kv_cache_dtype, model_dtype)
    if attention.use_mla:
        return attention.head_size * element, "head_size * bytes"
    packer = PACKERS.get(kv_cache_dtype, backend)
    return _bytes(attention.head_size, kv_heads, kv_cache_dtype, element, packer)


def layer_token_bytes(
    attention: Attention,
    kv_heads: int,
    kv_cache_dtype: str,
    model_dtype: str,
    backend: str | None,
) -> tuple[int, str]:
    """Return the bytes of one token in the layer's page, as its backend packs it."""
    element = kv_element_bytes(kv_cache_dtype, model_dtype)
    if attention.use_mla:
        if kv_cache_dtype in PER_TOKEN_HEAD and not attention.is_sparse:
            data = attention.head_size // 2 if kv_cache_dtype == INT4_HEADS else attention.head_size
            return data + 2 * v0_23.SCALE_BYTES, "head_size * bytes + scales"
        return v0_23.layer_token_bytes(attention, kv_heads, kv_cache_dtype, model_dtype)
    return _bytes(attention.head_size, kv_heads, kv_cache_dtype, element, backend)


def _bytes(
    size: int, kv_heads: int, kv_cache_dtype: str, element: int, backend: str | None
) -> tuple[int, str]:
    packed = _packed(size, kv_cache_dtype, backend)
    if packed is None:
        return kv_heads * 2 * size * element, "kv_heads * 2 * head_size * bytes"
    return kv_heads * packed, f"kv_heads * packed slot of {packed}"


def _packed(size: int, kv_cache_dtype: str, backend: str | None) -> int | None:
    """Return the bytes of a token's K, V and scales of a head; None if nothing is packed."""
    scales = 2 * v0_23.SCALE_BYTES
    if backend == "TURBOQUANT" and kv_cache_dtype in TURBOQUANT_BITS:
        return v0_23.turboquant_slot_bytes(kv_cache_dtype, size)
    if backend == "ULTRAQUANT" and kv_cache_dtype == ULTRAQUANT:
        return size + 2 * (size // ULTRAQUANT_GROUP)
    if backend == "FLASHINFER" and kv_cache_dtype in NVFP4_DTYPES:
        return 2 * (size // 2 + size // 16)
    if backend == "TRITON_ATTN" and kv_cache_dtype == INT4_HEADS:
        return 2 * (size // 2) + scales
    if backend == "TRITON_ATTN" and kv_cache_dtype in PER_TOKEN_HEAD_DTYPES:
        return 2 * size + scales
    return None
