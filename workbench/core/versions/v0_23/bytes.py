"""Attention bytes of one token in vLLM 0.23: by the KV-cache dtype alone, whatever the backend is.

Source: `page_size_bytes` of the specs in `vllm/v1/kv_cache_interface.py`, 0.23.
"""

from workbench.core.dtypes import PER_TOKEN_HEAD_DTYPES, TURBOQUANT_BITS, kv_element_bytes
from workbench.core.model import Attention
from workbench.core.packing import (
    FP8_DS_COMPRESSED_BYTES,
    FP8_DS_MLA_BYTES_PER_TOKEN,
    SCALE_BYTES,
    nvfp4,
    turboquant_slot_bytes,
)

PAIRS = "kv_heads * (head_size + value_head_size) * bytes"


def token_bytes(
    attention: Attention,
    kv_heads: int,
    kv_cache_dtype: str,
    model_dtype: str,
    _backend: str | None = None,
) -> tuple[int, str]:
    """Return the bytes per token, layer and rank that the alignment counts, and the formula."""
    # 0.23 queries no backend. MLA is tested first: a packed dtype then counts one byte per element.
    scales = 2 * kv_heads * SCALE_BYTES if kv_cache_dtype in PER_TOKEN_HEAD_DTYPES else 0
    size = attention.head_size
    if attention.is_compressed:
        return layer_token_bytes(attention, kv_heads, kv_cache_dtype, model_dtype)
    if attention.use_mla:
        plain = size * kv_element_bytes(kv_cache_dtype, model_dtype)
        return plain + scales, "head_size * bytes" + (" + 8 of scales" if scales else "")
    if kv_cache_dtype in TURBOQUANT_BITS:
        slot = turboquant_slot_bytes(kv_cache_dtype, size)
        return kv_heads * slot, f"kv_heads * packed slot of {slot}"
    if kv_cache_dtype == "nvfp4":
        return kv_heads * nvfp4(size), "2 * kv_heads * (head/2 + head/16)"
    element = kv_element_bytes(kv_cache_dtype, model_dtype)
    plain = kv_heads * attention.pair_elements * element
    return plain + scales, PAIRS + (" + scales" if scales else "")


def layer_token_bytes(
    attention: Attention,
    kv_heads: int,
    kv_cache_dtype: str,
    model_dtype: str,
    _backend: str | None = None,
) -> tuple[int, str]:
    """Return the bytes of one token in the layer's real page, and the formula."""
    # Differs from `token_bytes` for MLA only: fp8_ds_mla packs 656 bytes, and MLA pages hold no
    # per-token-head scales.
    if not attention.use_mla:
        return token_bytes(attention, kv_heads, kv_cache_dtype, model_dtype)
    if kv_cache_dtype == "fp8_ds_mla" and attention.is_compressed:
        return FP8_DS_COMPRESSED_BYTES, f"packed vector of {FP8_DS_COMPRESSED_BYTES}"
    if kv_cache_dtype == "fp8_ds_mla":
        return FP8_DS_MLA_BYTES_PER_TOKEN, "packed latent of 656"
    return attention.head_size * kv_element_bytes(kv_cache_dtype, model_dtype), "head_size * bytes"
