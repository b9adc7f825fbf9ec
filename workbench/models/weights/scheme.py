"""Which layers a checkpoint stores quantized, and in which format: one reader per method."""

from collections.abc import Callable, Mapping
from typing import Any

from workbench.core.described import COMPRESSED
from workbench.core.formats import Format
from workbench.core.online import FP8_BLOCK, MXFP4, MXFP4_MULTIPLE, MXFP8, PER_CHANNEL
from workbench.models.fields import Fields
from workbench.models.quantization import (
    modelopt_place,
    quantization_method,
    stated_quantization,
)
from workbench.models.weights.bits_and_bytes import bits_and_bytes
from workbench.models.weights.integers import integers
from workbench.models.weights.merged import ALWAYS_UNMAPPED, OWN
from workbench.models.weights.quark import quark
from workbench.models.weights.rounded import auto_round
from workbench.models.weights.stored import (
    EXPERTS,
    EXPERTS_STATIC,
    FP4_ALONE,
    FP8,
    FP8_STATIC,
    LATENT,
    MAX_LISTED,
    NVFP4,
    PLAIN,
    WHOLE,
    Formats,
    Scheme,
    Unknown,
    exact,
    renamed,
    texts,
    wildcards,
)
from workbench.models.weights.tensors import compressed_tensors

MIXED_FORMATS: dict[str, Formats] = {
    "FP8": (FP8_STATIC, EXPERTS_STATIC),
    "NVFP4": (NVFP4, NVFP4),
    "W4A16_NVFP4": (FP4_ALONE, NVFP4),
    "MXFP8": (MXFP8, MXFP8),
}
"""Algorithm of a layer of ModelOpt -> the formats of linear layers and of routed experts."""
MODELOPT_FORMATS: dict[str, Formats] = {
    **MIXED_FORMATS,
    "FP8_PER_CHANNEL_PER_TOKEN": (PER_CHANNEL, EXPERTS_STATIC),
    "FP8_PB_WO": (FP8_BLOCK, EXPERTS_STATIC),
}
"""The same of a whole file: ModelOptFp8MoEMethod gives every kind of FP8 a scale per tensor."""
EARLIER_FORMATS: dict[Format | None, Format | None] = {FP4_ALONE: FP4_ALONE._replace(halves=2)}
"""The place for the scale of inputs has 32 bits in 0.23."""
DEEPSEEK_V4 = "deepseek_v4"
FOUR = ((4, None),)
MODELOPT_TOWERS = ("vision_tower", "vision_model", "vit_large_projector")
"""Parts of names that it never quantizes (`ModelOptQuantConfigBase.get_quant_method`)."""
MODELOPT_SCALES = {PLAIN: FOUR, LATENT: FOUR}


def read_scheme(fields: Fields) -> Scheme:
    """Return the formats of a checkpoint's layers. Errors: Unknown for a method without them."""
    scheme = _read(fields)
    if fields.model_type in ALWAYS_UNMAPPED:
        return scheme._replace(merged=WHOLE)
    own = OWN.get(fields.model_type, {})
    return scheme._replace(merged={**scheme.merged, **own}) if own else scheme


def _read(fields: Fields) -> Scheme:
    config, method = stated_quantization(fields), quantization_method(fields)
    if not config or method is None:
        return Scheme()
    if method == COMPRESSED:
        return compressed_tensors(config, fields)
    reader = METHODS.get(method)
    if reader is None:
        raise Unknown(f"the format of quant_method {method[:40]!r} is not described")
    if fields.raw("model_type") == DEEPSEEK_V4:
        return _deepseek_v4(fields, config)
    return reader(config)


def _deepseek_v4(fields: Fields, config: Mapping[str, Any]) -> Scheme:
    """Return the formats of DeepSeek-V4: 8 bits everywhere, the experts as the file says."""
    # DeepseekV4FP8Config: scales of one byte, powers of two.
    stored = Format(8, block=(128, 128), scale_bytes=1)
    if config.get("moe_quant_algo") == "NVFP4":
        return Scheme(linear=stored, experts=NVFP4)
    is_fp4 = fields.raw("expert_dtype") in {None, "fp4"}
    return Scheme(linear=stored, experts=MXFP4 if is_fp4 else stored)


def _fp8(config: Mapping[str, Any]) -> Scheme:
    block, is_static = config.get("weight_block_size"), config.get("activation_scheme") == "static"
    stored = Format(8, block=(block[0], block[1]), scale_bytes=4) if block else FP8
    ignored = exact(texts(config.get("ignored_layers") or config.get("modules_to_not_convert")))
    return Scheme(
        linear=FP8_STATIC if is_static and not block else stored,
        experts=EXPERTS_STATIC if is_static and not block else None,
        excludes=ignored,
        excludes_part=ignored,
        cache_scales={PLAIN: FOUR},
        gates_experts=True,
    )


def _modelopt(config: Mapping[str, Any]) -> Scheme:
    place = modelopt_place(config)
    algorithm = str(place.get("quant_algo", "")).upper()
    if algorithm not in MODELOPT_FORMATS:
        raise Unknown(f"ModelOpt's quant_algo {algorithm[:40]!r} is not described")
    linear, experts = MODELOPT_FORMATS[algorithm]
    return _of_modelopt(place)._replace(linear=linear, experts=experts)


def _mxfp8(config: Mapping[str, Any]) -> Scheme:
    """Return MXFP8 as files of MiniMax name it (`ModelOptMxFp8Config.from_config`, 0.33)."""
    if "quantization" in config or config.get("quant_algo"):
        return _modelopt(config)
    found = _of_modelopt({"exclude_modules": config.get("ignored_layers")})
    return found._replace(linear=MXFP8, experts=MXFP8)


def _of_modelopt(place: Mapping[str, Any]) -> Scheme:
    """Return what all files of ModelOpt have in common."""
    ignored = texts(place.get("exclude_modules") or place.get("ignore"))
    listed = wildcards(ignored)
    return Scheme(
        excludes=lambda path: listed(path) or any(one in path for one in MODELOPT_TOWERS),
        excludes_part=exact(ignored),
        cache_scales=MODELOPT_SCALES,
        biases_experts=False,
        quantizes_head=True,
        earlier=EARLIER_FORMATS,
    )


def _mixed(config: Mapping[str, Any]) -> Scheme:
    """Return the formats that a file of ModelOpt lists, layer by layer."""
    # ModelOptMixedPrecisionConfig._resolve_quant_algo: experts have the algorithm of any of them.
    place = modelopt_place(config)
    table = place.get("quantized_layers")
    layers = table.items() if isinstance(table, Mapping) else ()
    known = ((path, one) for path, one in layers if isinstance(one, Mapping))
    names = {path: str(one.get("quant_algo")).upper() for path, one in known}
    if len(set(names.values())) < 2 or len(names) > MAX_LISTED:
        raise Unknown("a part of ModelOpt's quantized_layers is missing")
    if unread := sorted(set(names.values()) - MIXED_FORMATS.keys()):
        raise Unknown(f"ModelOpt's quant_algo {unread[0][:40]!r} of a layer is not described")
    listed: dict[str, Formats] = {}
    for path, name in names.items():
        stem, inside, _one = path.partition(EXPERTS)
        listed.setdefault(renamed(stem + inside.rstrip(".")), MIXED_FORMATS[name])
    # other attention than with latents has scales, if the cache is quantized
    has_scales = bool(
        place.get("kv_cache_quant_algo" if place is not config else "kv_cache_scheme")
    )
    return _of_modelopt(place)._replace(
        listed=listed,
        earlier={**EARLIER_FORMATS, MXFP8: None},
        cache_scales={PLAIN: FOUR} if has_scales else {},
    )


def _mxfp4(_config: Mapping[str, Any]) -> Scheme:
    """Return MXFP4 of the routed experts; every other layer is plain."""
    # Mxfp4MoEMethod of 0.23 makes two outputs of every expert
    return Scheme(experts=MXFP4, multiple=MXFP4_MULTIPLE, gates_experts=True)


METHODS: dict[str, Callable[[Mapping[str, Any]], Scheme]] = {
    "fp8": _fp8,
    "modelopt": _modelopt,
    "modelopt_fp4": _modelopt,
    "modelopt_mxfp8": _modelopt,
    "modelopt_mixed": _mixed,
    "mxfp4": _mxfp4,
    "mxfp8": _mxfp8,
    "awq": integers,
    "bitsandbytes": bits_and_bytes,
    "gptq": integers,
    "auto-round": auto_round,
    "quark": quark,
}
"""quant_method -> its reader, but for compressed-tensors."""
