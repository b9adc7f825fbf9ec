"""The KV-cache dtype that a quantized checkpoint requests."""

from collections.abc import Iterator, Mapping
from typing import Any

from workbench.core.described import (
    AUTO_ROUND,
    AWQ,
    COMPRESSED,
    GPTQ,
    MODELOPT,
    Compressed,
    Description,
    Numbers,
)
from workbench.core.model import Attention
from workbench.models.fields import Fields

MODELOPT_METHODS = {
    "NVFP4": "modelopt_fp4",
    "MXFP8": "modelopt_mxfp8",
    "MIXED_PRECISION": "modelopt_mixed",
}
"""Part of quant_algo -> method; everything else is plain."""
PLAIN_BITS = 16
"""From so many on, AutoRound leaves a layer as it is."""
KIMI_K3, PACKED_MXFP4 = "kimi_k3", "mxfp4-pack-quantized"
"""A model whose experts in this format of compressed-tensors run as mxfp4
(`KimiK3ForConditionalGenerationConfig`, 0.33)."""
STATED_AS = ("quantization_config", "compression_config")
"""Keys of a config.json; compressed-tensors once wrote the second one."""
NEEDED_KEYS = {
    AWQ: (("w_bit", "bits"), ("q_group_size", "group_size"), ("zero_point",)),
    GPTQ: (("bits",), ("group_size",), ("desc_act",), ("sym",)),
}
"""Method -> keys of which `from_config` reads one of each."""
MARLIN_GROUPS = (-1, 32, 64, 128)
"""MARLIN_SUPPORTED_GROUP_SIZES."""
ORDERED = ("group", "dynamic")
"""Orders of groups that an input's place depends on (`ActivationOrdering`)."""
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
    if (stated_quantization(fields) or {}).get("kv_cache_scheme") is None:
        return "auto"
    fields.note("kv_cache_dtype", "fp8", "quantization_config.kv_cache_scheme")
    return "fp8"


def stated_quantization(fields: Fields) -> Mapping[str, Any] | None:
    """Return what the whole file says of its quantization, else what its text part says."""
    # ModelArchConfigConvertorBase.get_quantization_config
    places = ((part, key) for part in (fields.top, fields.text) for key in STATED_AS)
    found = (part[key] for part, key in places if part.get(key) is not None)
    config = next(found, None)
    return config if isinstance(config, Mapping) else None


def quantization_method(fields: Fields) -> str | None:
    """Return how the checkpoint stores its weights, from quantization_config; None for plain."""
    if (config := stated_quantization(fields)) is None:
        return None
    if (algorithm := modelopt_algorithm(config)) is not None:
        return _modelopt_method(algorithm)
    method = config.get("quant_method")
    if method == MODELOPT:
        return _modelopt_method(modelopt_place(config).get("quant_algo"))
    if fields.top.get("model_type") == KIMI_K3 and config.get("format") == PACKED_MXFP4:
        return "mxfp4"
    return (
        method.lower().replace("compressed_tensors", COMPRESSED)
        if isinstance(method, str)
        else None
    )


def modelopt_place(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return where a file of ModelOpt describes its layers."""
    inner = config.get("quantization")
    return inner if isinstance(inner, Mapping) else config


def modelopt_algorithm(config: object) -> str | None:
    """Return the algorithm of a file that ModelOpt wrote itself: it names no method."""
    if not isinstance(config, Mapping):
        return None
    producer, inner = config.get("producer"), config.get("quantization")
    if not isinstance(producer, Mapping) or producer.get("name") != MODELOPT:
        return None
    algorithm = inner.get("quant_algo") if isinstance(inner, Mapping) else None
    return algorithm if isinstance(algorithm, str) else None


def _named_algorithm(config: Mapping[str, Any]) -> str:
    """Return the algorithm that a file of ModelOpt names together with its method, else nothing."""
    method, given = config.get("quant_method"), modelopt_place(config).get("quant_algo")
    named = isinstance(method, str) and method.startswith(MODELOPT)
    return given if named and modelopt_algorithm(config) is None and isinstance(given, str) else ""


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


def read_description(fields: Fields) -> Description:
    """Return what quantization_config says of integers and their groups."""
    config, method = stated_quantization(fields) or {}, quantization_method(fields)
    if method == COMPRESSED:
        return Description(
            follows_activations=_ordered_groups(config), compressed=_compressed(config)
        )
    needed = NEEDED_KEYS.get(method or "", ())
    missing = next((keys for keys in needed if not config.keys() & set(keys)), ())
    bits = next((config[key] for key in ("w_bit", "bits") if key in config), None)
    return Description(
        is_stated=method is not None,
        bits=bits if isinstance(bits, int) else None,
        is_symmetric=config.get("sym") is not False,
        follows_activations="desc_act" if _is_ordered(config) else "",
        is_for_marlin=_is_for_marlin(config),
        packing=str(config.get("packing_format", "gptq")) if method == AUTO_ROUND else "",
        layers=tuple(_excepted_integers(config)) if method == AUTO_ROUND else (),
        algorithm=_named_algorithm(config),
        missing=", ".join(map(repr, missing)),
    )


def _excepted_integers(config: Mapping[str, Any]) -> Iterator[tuple[int, bool]]:
    """Yield bits of the layers that a file of AutoRound excepts, and whether they are symmetric."""
    # INCConfig.get_layer_config, 0.23 and 0.33
    extra = config.get("extra_config")
    for one in extra.values() if isinstance(extra, Mapping) else ():
        found = {**config, **one} if isinstance(one, Mapping) else config
        bits = found.get("bits")
        if isinstance(bits, int) and bits < PLAIN_BITS:
            yield bits, found.get("sym") is not False


def _is_ordered(config: Mapping[str, Any]) -> bool:
    """Return whether groups follow the activations, in all layers or under a rule for some."""
    # normalize_and_validate_gptq_desc_act, 0.33
    rules = (rule for _, rule in dynamic_rules(config) if rule is not None)
    return any(one.get("desc_act") and one.get("group_size") != -1 for one in (config, *rules))


def dynamic_rules(
    config: Mapping[str, Any],
) -> Iterator[tuple[str, Mapping[str, Any] | None]]:
    """Yield the patterns of GPTQ's `dynamic`, and the file under each rule; None: plain layers."""
    dynamic = config.get("dynamic")
    for pattern, rule in dynamic.items() if isinstance(dynamic, Mapping) else ():
        changes = rule if isinstance(rule, Mapping) else {}
        yield pattern, None if pattern.startswith("-:") else {**config, **changes}


def _is_for_marlin(config: Mapping[str, Any]) -> bool:
    # AWQMarlinConfig.is_awq_marlin_compatible, 0.23
    has_zeros, size = config.get("zero_point"), config.get("group_size")
    return bool(has_zeros) and config.get("bits") == 4 and size in MARLIN_GROUPS


def config_groups(config: Mapping[str, Any]) -> list[Any]:
    """Return the groups of layers of compressed-tensors, as a file has them; none without any."""
    groups = config.get("config_groups")
    return list(groups.values()) if isinstance(groups, Mapping) else []


def _ordered_groups(config: Mapping[str, Any]) -> str:
    """Return the order of the first group of layers that has one."""
    for group in config_groups(config):
        weights = group.get("weights") if isinstance(group, Mapping) else None
        order = weights.get("actorder") if isinstance(weights, Mapping) else None
        if order is True or order in ORDERED:
            return repr("group" if order is True else order)
    return ""


def _compressed(config: Mapping[str, Any]) -> Compressed | None:
    """Return what the one group of layers says of their numbers."""
    found = config_groups(config)
    if len(found) != 1 or not isinstance(found[0], Mapping):
        return None
    (group,) = found
    weights, inputs = _numbers(group.get("weights")), _numbers(group.get("input_activations"))
    stored = group.get("format") or config.get("format")
    if weights is None or (inputs is None and group.get("input_activations")):
        return None
    return Compressed(weights, inputs, stored if isinstance(stored, str) else "")


def _numbers(given: object) -> Numbers | None:
    if not isinstance(given, Mapping):
        return None
    kind, bits, strategy = (given.get(key) for key in ("type", "num_bits", "strategy"))
    group = given.get("group_size")
    if not (isinstance(kind, str) and isinstance(bits, int) and isinstance(strategy, str)):
        return None
    return Numbers(
        kind=kind,
        bits=bits,
        strategy=strategy,
        group=group if isinstance(group, int) else None,
        is_dynamic=bool(given.get("dynamic")),
        is_symmetric=given.get("symmetric") is not False,
    )
