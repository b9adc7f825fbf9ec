"""The KV-cache dtype that a quantized checkpoint requests."""

from collections.abc import Mapping

from workbench.core.model import Attention
from workbench.models.fields import Fields

MODELOPT, COMPRESSED = "modelopt", "compressed-tensors"
MODELOPT_METHODS = {
    "NVFP4": "modelopt_fp4",
    "MXFP8": "modelopt_mxfp8",
    "MIXED_PRECISION": "modelopt_mixed",
}
"""Part of quant_algo -> method; everything else is plain."""
KIMI_K3, PACKED_MXFP4 = "kimi_k3", "mxfp4-pack-quantized"
"""A model whose experts in this format of compressed-tensors run as mxfp4
(`KimiK3ForConditionalGenerationConfig`, 0.33)."""
MODELOPT_KV_DTYPES = {"fp8": "fp8_e4m3", "nvfp4": "nvfp4"}


def checkpoint_kv_cache_dtype(fields: Fields, attention: Attention | None) -> str:
    """Return what a checkpoint's quantization_config requests for these layers, else "auto"."""
    config = fields.top.get("quantization_config")
    method = quantization_method(fields)
    if method == COMPRESSED:
        return _compressed_kv_cache_dtype(fields, attention)
    if not isinstance(config, Mapping) or method is None or not method.startswith(MODELOPT):
        return "auto"
    inner = config.get("quantization")
    places = (inner, config) if isinstance(inner, Mapping) else (config,)
    for key in ("kv_cache_scheme", "kv_cache_quant_algo"):
        for place in places:
            requested = place.get(key)
            if not requested:
                continue
            dtype = MODELOPT_KV_DTYPES.get(_algorithm(requested).lower(), "auto")
            fields.note("kv_cache_dtype", dtype, f"quantization_config.{key}")
            return dtype
    return "auto"


def _compressed_kv_cache_dtype(fields: Fields, attention: Attention | None) -> str:
    # Attention.__init__, 0.23 and 0.33: whatever the scheme says; layers of MLA do not ask for it.
    if attention is None or attention.use_mla:
        return "auto"
    if (_stated(fields) or {}).get("kv_cache_scheme") is None:
        return "auto"
    fields.note("kv_cache_dtype", "fp8", "quantization_config.kv_cache_scheme")
    return "fp8"


def _stated(fields: Fields) -> Mapping[str, object] | None:
    """Return the quantization_config of the whole file, else that of its text part."""
    config = fields.top.get("quantization_config")
    if config is None:
        config = fields.text.get("quantization_config")
    return config if isinstance(config, Mapping) else None


def quantization_method(fields: Fields) -> str | None:
    """Return how the checkpoint stores its weights, from quantization_config; None for plain."""
    if (config := _stated(fields)) is None:
        return None
    if (algorithm := modelopt_algorithm(config)) is not None:
        return _modelopt_method(algorithm)
    method, inner = config.get("quant_method"), config.get("quantization")
    if method == MODELOPT:
        place = inner if isinstance(inner, Mapping) else config
        return _modelopt_method(place.get("quant_algo"))
    if fields.top.get("model_type") == KIMI_K3 and config.get("format") == PACKED_MXFP4:
        return "mxfp4"
    return method if isinstance(method, str) else None


def modelopt_algorithm(config: object) -> str | None:
    """Return the algorithm of a file that ModelOpt wrote itself: it names no method."""
    if not isinstance(config, Mapping):
        return None
    producer, inner = config.get("producer"), config.get("quantization")
    if not isinstance(producer, Mapping) or producer.get("name") != MODELOPT:
        return None
    algorithm = inner.get("quant_algo") if isinstance(inner, Mapping) else None
    return algorithm if isinstance(algorithm, str) else None


def _modelopt_method(algorithm: object) -> str:
    """Return what vLLM calls ModelOpt's method (`override_quantization_method`)."""
    given = algorithm.upper() if isinstance(algorithm, str) else ""
    found = (method for part, method in MODELOPT_METHODS.items() if part in given)
    return next(found, MODELOPT)


def _algorithm(requested: object) -> str:
    """Return fp8 for static 8-bit floats, nvfp4 for 4-bit floats; a string is its own name."""
    if isinstance(requested, Mapping):
        bits = requested.get("num_bits") if requested.get("type") == "float" else None
        if bits == 4:
            return "nvfp4"
        return "fp8" if bits == 8 and requested.get("dynamic") is False else ""
    return requested if isinstance(requested, str) else ""
