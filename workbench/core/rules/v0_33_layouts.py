"""What every backend of vLLM 0.33 keeps in its view [block, head, token, content].

Sources: `customize_spec` of the backend classes, `AttentionSpec.state_content_size_bytes` and
`num_heads` in `kv_cache_interface.py`, 0.33. Which orders a backend reads is in `v0_33_groups.py`.
"""

from __future__ import annotations

from typing import Final

from workbench.core.dtypes import (
    INT4_HEADS,
    NVFP4_DTYPES,
    PER_TOKEN_HEAD_DTYPES,
    TURBOQUANT_BITS,
    ULTRAQUANT,
)
from workbench.core.groups.of_plan import NAMES_OF_0_23
from workbench.core.layouts.rules import LayoutRules
from workbench.core.layouts.shapes import (
    DIMENSIONS,
    HEADS,
    KV,
    NUM_BLOCKS,
    TOKENS,
    CacheGeometry,
    CacheLayout,
)
from workbench.core.rules.v0_33_bytes import ULTRAQUANT_GROUP
from workbench.core.stages.attention_bytes import (
    FP8_DS_MLA_BYTES_PER_TOKEN,
    SCALE_BYTES,
    turboquant_slot_bytes,
)

KEYS_THEN_VALUES: Final = "keys_then_values"
HEADS_OF_ONE_KIND: Final = "heads_and_size"

NAMES: Final = ("LBNHC", "LBHNC", "BLNHC", "BLHNC", "BHLNC", "LHBNC")
"""Every order there is; the default preference comes first."""


def _both(geometry: CacheGeometry) -> int:
    """Return the key and value of one head of one token."""
    return geometry.head_size + (geometry.value_head_size or geometry.head_size)


def _both_with_scales(geometry: CacheGeometry) -> int:
    """Return the same with a float32 scale after each, counted in one-byte elements."""
    if geometry.cache_dtype == INT4_HEADS:
        return 2 * (geometry.head_size // 2) + 2 * SCALE_BYTES
    scaled = geometry.cache_dtype in PER_TOKEN_HEAD_DTYPES
    return _both(geometry) + (2 * SCALE_BYTES if scaled else 0)


def _is_nvfp4(geometry: CacheGeometry) -> bool:
    return geometry.cache_dtype in NVFP4_DTYPES


def _nvfp4_or_both(geometry: CacheGeometry) -> int:
    """Return one side of a head in nvfp4, two values in a byte and one scale for 16 of them."""
    size = geometry.head_size
    return size // 2 + size // 16 if _is_nvfp4(geometry) else _both(geometry)


def _nvfp4_slots(geometry: CacheGeometry) -> int:
    """Return the nvfp4 places: keys and values apart, all keys first."""
    return geometry.num_kv_heads * (2 if _is_nvfp4(geometry) else 1)


def _all_heads(geometry: CacheGeometry) -> int:
    """Return all heads of the keys, or of the values, of one token."""
    return geometry.num_kv_heads * geometry.head_size


def _turboquant_slot(geometry: CacheGeometry) -> int:
    if geometry.cache_dtype == ULTRAQUANT:
        return geometry.head_size + 2 * (geometry.head_size // ULTRAQUANT_GROUP)
    if geometry.cache_dtype not in TURBOQUANT_BITS:
        return _both(geometry)
    return turboquant_slot_bytes(geometry.cache_dtype, geometry.head_size)


def _latent(geometry: CacheGeometry) -> int:
    packed = geometry.cache_dtype == "fp8_ds_mla"
    return FP8_DS_MLA_BYTES_PER_TOKEN if packed else geometry.head_size


USUAL: Final = CacheLayout((NUM_BLOCKS, HEADS, TOKENS, KEYS_THEN_VALUES), elements=_both)
TRITON_ATTN: Final = CacheLayout(USUAL.axes, elements=_both_with_scales)
FLASHINFER: Final = CacheLayout(USUAL.axes, elements=_nvfp4_or_both, heads=_nvfp4_slots)
ROCM_AITER: Final = CacheLayout(USUAL.axes, elements=_both, block_multiple=16)
TURBOQUANT: Final = CacheLayout((NUM_BLOCKS, HEADS, TOKENS, "slot"), elements=_turboquant_slot)
CPU_ATTN: Final = CacheLayout((NUM_BLOCKS, HEADS, TOKENS, "key_and_value"), elements=_both)
ROCM_ATTN: Final = CacheLayout((NUM_BLOCKS, KV, TOKENS, "paged_heads"), elements=_all_heads)
B12X: Final = CacheLayout((NUM_BLOCKS, KV, TOKENS, HEADS_OF_ONE_KIND), elements=_all_heads)
LATENT: Final = CacheLayout((NUM_BLOCKS, HEADS, TOKENS, "head_size"), elements=_latent)
HIDDEN_STATES: Final = CacheLayout((NUM_BLOCKS, HEADS, TOKENS, "hidden_state"))

CACHES: Final = {
    "": USUAL,
    "mla": LATENT,
    "hidden": HIDDEN_STATES,
    "B12X": B12X,
    "CPU_ATTN": CPU_ATTN,
    "FLASHINFER": FLASHINFER,
    "ROCM_AITER_FA": ROCM_AITER,
    "ROCM_AITER_UNIFIED_ATTN": ROCM_AITER,
    "ROCM_ATTN": ROCM_ATTN,
    "TRITON_ATTN": TRITON_ATTN,
    "TURBOQUANT": TURBOQUANT,
    "ULTRAQUANT": TURBOQUANT,
}
"""Backend -> view; "mla" and "hidden" by what is kept, "" for all other backends."""

LAYOUTS: Final = LayoutRules(
    names=NAMES,
    aliases=NAMES_OF_0_23,
    caches=CACHES,
    rewrites_strides=False,
    tables_hold_manager_blocks=True,
    rounds_rows_by_gcd=True,
    v2_runner_checkpoints=True,
)
assert all(sorted(name) == sorted(DIMENSIONS) for name in NAMES)
