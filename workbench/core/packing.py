"""How many bytes a packed KV-cache format takes: keys, values and scales of a token and head."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from workbench.core.arithmetic import cdiv
from workbench.core.dtypes import PER_TOKEN_HEAD_DTYPES, TURBOQUANT_BITS

Packing = Callable[[int], int]
"""Head size in elements -> bytes of one token's keys, values and scales of one head."""
SCALE_BYTES: Final = 4
# 512 latent elements in fp8, 4 float32 scales, and 64 rotary elements in bfloat16 for accuracy
# (flashmla_sparse.py).
FP8_DS_MLA_BYTES_PER_TOKEN: Final = 656
NVFP4_DS: Final = "nvfp4_ds_mla"
RECORD_DTYPES: Final = frozenset({"fp8_ds_mla", NVFP4_DS})
"""KV-cache dtypes that store a latent vector as one packed record."""
NVFP4_MLA_BYTES: Final = 352
"""Of a latent: 512 in 4 bits, 64 rotary ones in fp8 and 32 scales."""
FP8_V41_BYTES, NVFP4_V41_BYTES = 528, 288
"""Of a vector of DeepSeek-V4.1: 512 in fp8 and 16 scales; 512 in 4 bits and 32 scales."""
FP8_DS_COMPRESSED_BYTES: Final = 584
"""Of a vector of compressed attention: 448 in fp8, 64 in 16 bits, 8 of scales."""
FP8_DS_ALIGNMENT_BYTES: Final = 576
"""What pages of that format are rounded up to."""
NVFP4_GROUP: Final = 16
"""Elements that share a scale byte in nvfp4."""
ULTRAQUANT_GROUP: Final = 32


def turboquant_slot_bytes(kv_cache_dtype: str, head_size: int) -> int:
    """Return the bytes of one token's packed K and V of one head, rounded up to an even number."""
    # Keys of 8 bits are fp8 without a scale, fewer bits come with a 16-bit norm; values have a
    # scale and a zero. Even, since the shape halves the slot (TurboQuantConfig.slot_size_aligned).
    key_bits, value_bits = TURBOQUANT_BITS[kv_cache_dtype]
    key = head_size if key_bits == 8 else cdiv(head_size * key_bits, 8) + 2
    value = cdiv(head_size * value_bits, 8) + 4
    return key + value + (key + value) % 2


def ultraquant(head_size: int) -> int:
    """Return four bits per element, and a scale byte for each of keys and values in a group."""
    return head_size + 2 * (head_size // ULTRAQUANT_GROUP)


def nvfp4(head_size: int) -> int:
    """Return two elements per byte and one scale byte per group, for keys and for values."""
    # Rounded down, as nvfp4_kv_cache_full_dim does: heads below a group have no scale at all.
    return 2 * (head_size // 2 + head_size // NVFP4_GROUP)


def one_byte_with_scales(head_size: int) -> int:
    """Return one byte per element, and a float32 scale of the keys and one of the values."""
    return 2 * head_size + 2 * SCALE_BYTES


def four_bits_with_scales(head_size: int) -> int:
    """Return two elements per byte, and a float32 scale of the keys and one of the values."""
    return 2 * (head_size // 2) + 2 * SCALE_BYTES


TURBOQUANT: Final[Mapping[str, Packing]] = {
    dtype: partial(turboquant_slot_bytes, dtype) for dtype in TURBOQUANT_BITS
}
PER_TOKEN_HEAD: Final[Mapping[str, Packing]] = dict.fromkeys(
    PER_TOKEN_HEAD_DTYPES, one_byte_with_scales
)


def record_bytes(kv_cache_dtype: str, *, slides: bool) -> int:
    """Return the bytes of one of DeepSeek-V4.1's own records; windows never have 4 bits."""
    return NVFP4_V41_BYTES if kv_cache_dtype == NVFP4_DS and not slides else FP8_V41_BYTES
