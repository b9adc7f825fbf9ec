"""How each backend of vLLM 0.23 lays out its cache, and which platform or device forces a name.

Sources: `get_kv_cache_shape` and `get_kv_cache_stride_order` of the backend classes in 0.23.
"""

from typing import Final

from workbench.core.dtypes import PER_TOKEN_HEAD_DTYPES, TURBOQUANT_BITS
from workbench.core.layouts.shapes import (
    HEADS,
    HND,
    KV,
    NHD,
    NUM_BLOCKS,
    TOKENS,
    CacheGeometry,
    CacheLayout,
)
from workbench.core.packing import (
    FP8_DS_MLA_BYTES_PER_TOKEN,
    SCALE_BYTES,
    nvfp4,
    turboquant_slot_bytes,
)

BLOCK_FIRST: Final = (NUM_BLOCKS, KV, TOKENS, HEADS, "head_size")
KV_FIRST: Final = (KV, NUM_BLOCKS, TOKENS, HEADS, "head_size")

BY_NAME: Final = {NHD: (0, 1, 2, 3, 4), HND: (0, 1, 3, 2, 4)}
BY_NAME_WITH_LAYERS: Final = {NHD: (1, 0, 2, 3, 4, 5), HND: (1, 4, 0, 2, 3, 5)}


def _whatever_the_name(*order: int) -> dict[str, tuple[int, ...]]:
    return dict.fromkeys((NHD, HND), order)


def _with_scale(geometry: CacheGeometry) -> int:
    """Return the head size plus the float32 scale of per-token-head types, in one-byte elements."""
    scaled = geometry.cache_dtype in PER_TOKEN_HEAD_DTYPES
    return geometry.head_size + (SCALE_BYTES if scaled else 0)


def _nvfp4(geometry: CacheGeometry) -> int:
    """Return the bytes of a packed head: two values per byte, one byte of scale per 16 values."""
    size = geometry.head_size
    return nvfp4(size) // 2 if geometry.cache_dtype == "nvfp4" else size


def _turboquant_slot(geometry: CacheGeometry) -> int:
    if geometry.cache_dtype not in TURBOQUANT_BITS:
        return geometry.head_size
    return turboquant_slot_bytes(geometry.cache_dtype, geometry.head_size)


def _fp8_ds_mla(geometry: CacheGeometry) -> int:
    packed = geometry.cache_dtype == "fp8_ds_mla"
    return FP8_DS_MLA_BYTES_PER_TOKEN if packed else geometry.head_size


FLASH_ATTN = CacheLayout(
    BLOCK_FIRST, orders=BY_NAME, orders_with_layers=BY_NAME_WITH_LAYERS, block_multiple=16
)
TRITON_ATTN = CacheLayout(
    BLOCK_FIRST,
    elements=_with_scale,
    orders=BY_NAME,
    orders_with_layers=BY_NAME_WITH_LAYERS,
    block_multiple=16,
)
FLASHINFER = CacheLayout(
    BLOCK_FIRST,
    elements=_nvfp4,
    orders=BY_NAME,
    orders_with_layers={NHD: (1, 0, 2, 3, 4, 5), HND: (1, 2, 4, 0, 3, 5)},
)
# Blocks and tokens are side by side, so that both flatten into one axis without a copy.
FLEX_ATTENTION = CacheLayout(
    BLOCK_FIRST,
    orders=_whatever_the_name(0, 2, 1, 3, 4),
    orders_with_layers=_whatever_the_name(1, 0, 3, 2, 4, 5),
)
ROCM_ATTN = CacheLayout(KV_FIRST, block_multiple=16)
ROCM_AITER = CacheLayout(BLOCK_FIRST, block_multiple=16)
TURBOQUANT = CacheLayout((NUM_BLOCKS, TOKENS, HEADS, "slot"), elements=_turboquant_slot)
CPU_ATTN = CacheLayout(
    (NUM_BLOCKS, HEADS, TOKENS, "key_and_value"), elements=lambda geometry: 2 * geometry.head_size
)
LATENT = CacheLayout(
    (NUM_BLOCKS, TOKENS, "head_size"),
    orders=_whatever_the_name(0, 1, 2),
    orders_with_layers=_whatever_the_name(0, 1, 2, 3),
)
SPARSE_LATENT = CacheLayout(LATENT.axes)
"""As `LATENT` in memory; the sparse backends of MLA declare no order."""


def _record(geometry: CacheGeometry) -> int:
    return geometry.record_bytes or geometry.head_size


COMPRESSED = CacheLayout(LATENT.axes, elements=_record)
"""Vectors of compressed attention, packed or not."""
PACKED_LATENT = CacheLayout(LATENT.axes, elements=_fp8_ds_mla)
FLASH_ATTN_DIFFERENT_VALUES = CacheLayout(
    (NUM_BLOCKS, TOKENS, HEADS, "key_and_value"),
    elements=lambda geometry: geometry.head_size + (geometry.value_head_size or geometry.head_size),
    orders={NHD: (0, 1, 2, 3), HND: (0, 2, 1, 3)},
    orders_with_layers={NHD: (1, 0, 2, 3, 4), HND: (1, 3, 0, 2, 4)},
    block_multiple=16,
)
"""FlashAttention for layers whose values have a different head size from their keys."""

HIDDEN_STATES = CacheLayout((NUM_BLOCKS, TOKENS, HEADS, "head_size"))
"""Hidden states that a draft model keeps; one of each token, no K/V."""
