"""The KV-cache dtype that a quantized checkpoint asks for."""

from __future__ import annotations

from collections.abc import Mapping

from workbench.models.fields import Fields

MODELOPT_KV_DTYPES = {"fp8": "fp8_e4m3", "nvfp4": "nvfp4"}


def checkpoint_kv_cache_dtype(fields: Fields) -> str:
    """What a ModelOpt checkpoint's quantization_config asks for, else "auto".

    Source: vLLM 0.23, resolution of cache_dtype "auto".
    """
    config = fields.top.get("quantization_config")
    if not isinstance(config, Mapping):
        return "auto"
    method = config.get("quant_method")
    if not isinstance(method, str) or not method.startswith("modelopt"):
        return "auto"
    inner = config.get("quantization")
    places = (inner, config) if isinstance(inner, Mapping) else (config,)
    for key in ("kv_cache_scheme", "kv_cache_quant_algo"):
        for place in places:
            asked = place.get(key)
            if not asked:
                continue
            dtype = MODELOPT_KV_DTYPES.get(_algorithm(asked).lower(), "auto")
            fields.note("kv_cache_dtype", dtype, f"quantization_config.{key}")
            return dtype
    return "auto"


def quantization_method(fields: Fields) -> str | None:
    """How the checkpoint's weights are stored, as its quantization_config says; None for plain."""
    config = fields.top.get("quantization_config")
    method = config.get("quant_method") if isinstance(config, Mapping) else None
    return method if isinstance(method, str) else None


def _algorithm(asked: object) -> str:
    """A scheme of static 8-bit floats is fp8; a string is its own name."""
    if isinstance(asked, Mapping):
        static_fp8 = (
            asked.get("dynamic") is False
            and asked.get("num_bits") == 8
            and asked.get("type") == "float"
        )
        return "fp8" if static_fp8 else ""
    return asked if isinstance(asked, str) else ""
