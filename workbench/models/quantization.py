"""The KV-cache dtype that a quantized checkpoint asks for."""

from __future__ import annotations

from collections.abc import Mapping

from workbench.models.fields import Fields

MODELOPT_METHODS = {"NVFP4": "modelopt_fp4", "MIXED_PRECISION": "modelopt_mixed"}
"""quant_algo -> method; everything else is plain "modelopt"."""
MODELOPT_KV_DTYPES = {"fp8": "fp8_e4m3", "nvfp4": "nvfp4"}


def checkpoint_kv_cache_dtype(fields: Fields) -> str:
    """What a ModelOpt checkpoint's quantization_config asks for, else "auto".

    Source: vLLM 0.23, resolution of cache_dtype "auto".
    """
    config = fields.top.get("quantization_config")
    method = quantization_method(fields)
    if not isinstance(config, Mapping) or method is None or not method.startswith("modelopt"):
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
    """How the checkpoint's weights are stored, as its quantization_config says; None for plain.

    Files that ModelOpt wrote by itself name their producer and the algorithm, not the method.
    """
    config = fields.top.get("quantization_config")
    if config is None:
        config = fields.text.get("quantization_config")
    if not isinstance(config, Mapping):
        return None
    producer, inner = config.get("producer"), config.get("quantization")
    if isinstance(producer, Mapping) and producer.get("name") == "modelopt":
        algorithm = inner.get("quant_algo") if isinstance(inner, Mapping) else None
        if isinstance(algorithm, str):
            return MODELOPT_METHODS.get(algorithm.upper(), "modelopt")
    method = config.get("quant_method")
    return method if isinstance(method, str) else None


def _algorithm(asked: object) -> str:
    """A scheme of static 8-bit floats is fp8, one of 4-bit floats nvfp4; a string names itself."""
    if isinstance(asked, Mapping):
        if asked.get("num_bits") == 4 and asked.get("type") == "float":
            return "nvfp4"
        static_fp8 = (
            asked.get("dynamic") is False
            and asked.get("num_bits") == 8
            and asked.get("type") == "float"
        )
        return "fp8" if static_fp8 else ""
    return asked if isinstance(asked, str) else ""
