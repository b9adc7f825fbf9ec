"""What every backend of vLLM 0.33 keeps in its view [block, head, token, content].

Sources: `customize_spec` of the backend classes, `AttentionSpec.state_content_size_bytes` and
`num_heads` in `kv_cache_interface.py`, 0.33.
"""

from collections.abc import Callable, Mapping
from typing import Final

from workbench.core import packing
from workbench.core.dtypes import INT4_HEADS, NVFP4_DTYPES, ULTRAQUANT
from workbench.core.groups.of_plan import OLD_NAMES
from workbench.core.layouts.shapes import (
    DIMENSIONS,
    HEADS,
    KV,
    NUM_BLOCKS,
    TOKENS,
    CacheGeometry,
    CacheLayout,
    LayoutRules,
)
from workbench.core.packing import FP8_DS_MLA_BYTES_PER_TOKEN, Packing

KEYS_THEN_VALUES: Final = "keys_then_values"
HEADS_OF_ONE_KIND: Final = "heads_and_size"

NAMES: Final = ("LBNHC", "LBHNC", "BLNHC", "BLHNC", "BHLNC", "LHBNC")
"""Every order there is; the default preference comes first."""


def _both(geometry: CacheGeometry) -> int:
    """Return the key and value of one head of one token."""
    return geometry.head_size + (geometry.value_head_size or geometry.head_size)


def _packed(packs: Mapping[str, Packing], slots: int = 1) -> Callable[[CacheGeometry], int]:
    """Return the content of one place of a head: packed, or key and value as they are.

    slots: places that a packed head has.
    """

    def content(geometry: CacheGeometry) -> int:
        pack = packs.get(geometry.cache_dtype)
        return _both(geometry) if pack is None else pack(geometry.head_size) // slots

    return content


NVFP4: Final = dict.fromkeys(NVFP4_DTYPES, packing.nvfp4)
TRITON_PACKS: Final = {**packing.PER_TOKEN_HEAD, INT4_HEADS: packing.four_bits_with_scales}


def _nvfp4_slots(geometry: CacheGeometry) -> int:
    """Return the nvfp4 places: keys and values apart, all keys first."""
    return geometry.num_kv_heads * (2 if geometry.cache_dtype in NVFP4_DTYPES else 1)


def _all_heads(geometry: CacheGeometry) -> int:
    """Return all heads of the keys, or of the values, of one token."""
    return geometry.num_kv_heads * geometry.head_size


def _latent(geometry: CacheGeometry) -> int:
    packed = geometry.cache_dtype == "fp8_ds_mla"
    plain = FP8_DS_MLA_BYTES_PER_TOKEN if packed else geometry.head_size
    return geometry.record_bytes or plain


USUAL: Final = CacheLayout((NUM_BLOCKS, HEADS, TOKENS, KEYS_THEN_VALUES), elements=_both)
TRITON_ATTN: Final = CacheLayout(USUAL.axes, elements=_packed(TRITON_PACKS))
FLASHINFER: Final = CacheLayout(USUAL.axes, elements=_packed(NVFP4, 2), heads=_nvfp4_slots)
ROCM_AITER: Final = CacheLayout(USUAL.axes, elements=_both, block_multiple=16)
SLOT: Final = (NUM_BLOCKS, HEADS, TOKENS, "slot")
TURBOQUANT: Final = CacheLayout(SLOT, elements=_packed(packing.TURBOQUANT))
ULTRAQUANT_SLOT: Final = CacheLayout(SLOT, elements=_packed({ULTRAQUANT: packing.ultraquant}))
CPU_ATTN: Final = CacheLayout((NUM_BLOCKS, HEADS, TOKENS, "key_and_value"), elements=_both)
ROCM_ATTN: Final = CacheLayout((NUM_BLOCKS, KV, TOKENS, "paged_heads"), elements=_all_heads)
B12X: Final = CacheLayout((NUM_BLOCKS, KV, TOKENS, HEADS_OF_ONE_KIND), elements=_all_heads)
LATENT: Final = CacheLayout((NUM_BLOCKS, HEADS, TOKENS, "head_size"), elements=_latent)
COMPRESSED: Final = CacheLayout(
    LATENT.axes, elements=lambda geometry: geometry.record_bytes or geometry.head_size
)
HIDDEN_STATES: Final = CacheLayout((NUM_BLOCKS, HEADS, TOKENS, "hidden_state"))

LAYOUTS: Final = LayoutRules(
    names=NAMES,
    aliases=OLD_NAMES,
    one_view=True,
    rewrites_strides=False,
    tables_hold_manager_blocks=True,
    rounds_rows_by_gcd=True,
)
assert all(sorted(name) == sorted(DIMENSIONS) for name in NAMES)
