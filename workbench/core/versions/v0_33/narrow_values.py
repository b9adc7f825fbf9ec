"""Layers of 0.33 whose values are narrower than their keys: the model itself names their backend.

Sources: `MiMoV2Attention`, `get_flash_attn_version` and the constructors of `FlashAttentionImpl`
and `TritonAttentionDiffKVImpl`, 0.33.
"""

from workbench.core.backends import FP8_E4M3, UNQUANTIZED, LayerQuery
from workbench.core.versions.v0_23.narrow_values import FLASH, needs_newer_flash
from workbench.core.versions.v0_33.conditions import triton_reads_no_fp8

TRITON = "TRITON_ATTN_DIFFKV"
WIDE, NARROW, ON_SM10X = 192, 128, 128
"""The pair of sizes above 128 that version 4 reads on SM10x, and its largest head otherwise."""


def flash_or_triton(query: LayerQuery) -> tuple[str, ...]:
    """Return the backends, the one that is set first; one of both may be requested."""
    if query.platform == "cpu":
        return ()
    reads = query.platform == "cuda" and _flash_reads(query)
    return (FLASH, TRITON) if reads else (TRITON, FLASH)


def _flash_reads(query: LayerQuery) -> bool:
    """Return whether version 3 or 4 reads these heads on the device; sinks make it version 4."""
    attention, invariant = query.attention, query.batch_invariant
    if query.turboquant:  # it sets version 2 for all layers
        return False
    if query.major == 9:
        return not (attention.has_sinks and invariant)
    wide = (attention.head_size, attention.value_head_size) == (WIDE, NARROW)
    return query.major == 10 and not invariant and (wide or attention.head_size <= ON_SM10X)


def flash_is_not_built(query: LayerQuery) -> str | None:
    """Return why layers of FlashAttention cannot be built."""
    dtype, small = query.kv_cache_dtype, query.attention.head_size <= ON_SM10X
    reads = query.major == 9 or (query.major == 10 and small and not query.batch_invariant)
    reads |= query.platform == "xpu"
    if dtype not in UNQUANTIZED and (dtype == "fp8_e5m2" or not reads):
        return f"FlashAttention does not support {dtype} kv-cache on this device."
    return needs_newer_flash(query)


def triton_is_not_built(query: LayerQuery) -> str | None:
    """Return why layers of Triton cannot be built."""
    if refusal := triton_reads_no_fp8(query):
        return refusal
    if query.kv_cache_dtype in {*UNQUANTIZED, *FP8_E4M3}:
        return None
    return "TritonAttentionDiffKVBackend supports only fp8/fp8_e4m3 quantized KV cache"
