"""Attention bytes of one token in 0.33, where the backend packs the layer's spec.

Source: AttentionSpec.unpadded_page_size_bytes and `customize_spec` of the backends, 0.33.
"""

from workbench.core.dtypes import (
    INT4_HEADS,
    PER_TOKEN_HEAD_DTYPES,
    TURBOQUANT_BITS,
    ULTRAQUANT,
    kv_element_bytes,
)
from workbench.core.model import Attention
from workbench.core.packing import NVFP4_DS, NVFP4_MLA_BYTES, SCALE_BYTES
from workbench.core.versions.v0_23 import bytes as v0_23
from workbench.core.versions.v0_33.backends import BACKENDS

PER_TOKEN_HEAD = (*PER_TOKEN_HEAD_DTYPES, INT4_HEADS)
"""KV dtypes with a float32 scale of keys and one of values stored with every token's data."""
PACKERS = {**dict.fromkeys(TURBOQUANT_BITS, "TURBOQUANT"), ULTRAQUANT: "ULTRAQUANT"}
"""KV dtype -> the backend whose packing the alignment takes for granted."""


def token_bytes(
    attention: Attention, kv_heads: int, kv_cache_dtype: str, model_dtype: str, backend: str | None
) -> tuple[int, str]:
    """Return the bytes per token, layer and rank that the alignment counts, and the formula."""
    # The packed formats of TurboQuant and UltraQuant are counted whatever the backend is.
    element = kv_element_bytes(kv_cache_dtype, model_dtype)
    if attention.is_compressed:
        return layer_token_bytes(attention, kv_heads, kv_cache_dtype, model_dtype, backend)
    if attention.use_mla:
        return attention.head_size * element, "head_size * bytes"
    packer = PACKERS.get(kv_cache_dtype, backend)
    return _bytes(attention, kv_heads, kv_cache_dtype, element, packer)


def layer_token_bytes(
    attention: Attention, kv_heads: int, kv_cache_dtype: str, model_dtype: str, backend: str | None
) -> tuple[int, str]:
    """Return the bytes of one token in the layer's page, as its backend packs it."""
    element = kv_element_bytes(kv_cache_dtype, model_dtype)
    if attention.use_mla:
        if kv_cache_dtype == NVFP4_DS and not attention.compression:
            return NVFP4_MLA_BYTES, f"packed latent of {NVFP4_MLA_BYTES}"
        if kv_cache_dtype in PER_TOKEN_HEAD and not attention.is_sparse:
            data = attention.head_size // 2 if kv_cache_dtype == INT4_HEADS else attention.head_size
            return data + 2 * SCALE_BYTES, "head_size * bytes + scales"
        return v0_23.layer_token_bytes(attention, kv_heads, kv_cache_dtype, model_dtype)
    return _bytes(attention, kv_heads, kv_cache_dtype, element, backend)


def _bytes(
    attention: Attention, kv_heads: int, kv_cache_dtype: str, element: int, backend: str | None
) -> tuple[int, str]:
    pack = None if backend is None else BACKENDS[backend].packs.get(kv_cache_dtype)
    if pack is None:
        return kv_heads * attention.pair_elements * element, v0_23.PAIRS
    packed = pack(attention.head_size)
    return kv_heads * packed, f"kv_heads * packed slot of {packed}"


def gathered_keys(length: int) -> int:
    """Return the keys in the workspace of a sparse indexer; fewer of a token beyond 256 K."""
    # get_max_prefill_buffer_size, with sparse_mla_prefill_workspace_factor as VllmConfig sets it
    return 8 * (5 if length <= 256 * 1024 else 2) * length
