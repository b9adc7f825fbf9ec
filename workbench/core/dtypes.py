"""Element types: what may be requested, and how many bytes one element takes."""

from typing import Final

FLOAT_BYTES: Final[dict[str, int]] = {"bfloat16": 2, "float16": 2, "float32": 4}
"""Bytes per element of the types that a model or an SSM state may have."""

MODEL_DTYPES: Final = ("auto", *FLOAT_BYTES)
STATE_DTYPES: Final = ("auto", *FLOAT_BYTES)

TURBOQUANT_BITS: Final[dict[str, tuple[int, int]]] = {
    "turboquant_k8v4": (8, 4),
    "turboquant_4bit_nc": (4, 4),
    "turboquant_k3v4_nc": (3, 4),
    "turboquant_3bit_nc": (3, 3),
}
"""Preset -> (key bits, value bits) of the packed TurboQuant cache."""

FP8_DTYPES: Final = ("fp8", "fp8_e4m3", "fp8_e5m2", "fp8_inc")
PER_TOKEN_HEAD_DTYPES: Final = ("int8_per_token_head", "fp8_per_token_head")

NVFP4_DTYPES: Final = ("nvfp4", "nvfp4_4over6")
INT4_HEADS: Final = "int4_per_token_head"
ULTRAQUANT: Final = "ultraquant_4bit"
PACKED_DTYPES: Final = frozenset((*TURBOQUANT_BITS, ULTRAQUANT))


def kv_element_bytes(kv_cache_dtype: str, model_dtype: str) -> int:
    """Return the bytes of one stored key or value element."""
    # Packed types count their storage type (1). `auto` stores in the model's dtype.
    if kv_cache_dtype == "auto":
        return FLOAT_BYTES[model_dtype]
    return FLOAT_BYTES.get(kv_cache_dtype, 1)
