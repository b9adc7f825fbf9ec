"""Which layers a checkpoint stores quantized, and in which format: one reader per method."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from workbench.core.formats import MX_BLOCK, Format
from workbench.core.online import FP8_BLOCK, MXFP4, MXFP4_MULTIPLE, MXFP8, PER_CHANNEL
from workbench.models.fields import Fields
from workbench.models.quantization import (
    config_groups,
    modelopt_place,
    quantization_method,
    stated_quantization,
)
from workbench.models.weights.integers import SORTED, integers
from workbench.models.weights.quark import quark
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
    Excludes,
    Formats,
    Scheme,
    Unknown,
    exact,
    expressions,
    renamed,
    texts,
    wildcards,
)

FOUR_BITS_IN_FP8 = Format(
    4, block=(1, 128), scale_bytes=8, row_bytes=4, fixed_bytes=16, is_integer=True
)
"""Integers whose inputs are in fp8: CompressedTensorsW4A8Fp8 makes scales of fp8 of those of the
file, eight times, and one in float32 per output."""
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
PACKINGS = {"auto_round:auto_gptq": "gptq", "auto_round:auto_awq": "awq"}
"""How AutoRound packs integers -> the method that has the same format."""
PLAIN_BITS = 16
SPECIAL = re.compile(r"[*+?^$()\[\]{}|\\]")
"""What makes a name of AutoRound's an expression."""
LINEAR = "Linear"
"""Target of compressed-tensors: the class of every linear layer."""
DEEPSEEK_V4 = "deepseek_v4"
FOUR = ((4, None),)
MODELOPT_TOWERS = ("vision_tower", "vision_model", "vit_large_projector")
"""Parts of names that it never quantizes (`ModelOptQuantConfigBase.get_quant_method`)."""
MODELOPT_SCALES = {PLAIN: FOUR, LATENT: FOUR}


def read_scheme(fields: Fields) -> Scheme:
    """Return the formats of a checkpoint's layers. Errors: Unknown for a method without them."""
    config, method = stated_quantization(fields), quantization_method(fields)
    if not config or method is None:
        return Scheme()
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


def _auto_round(config: Mapping[str, Any]) -> Scheme:
    """Return the formats of AutoRound: GPTQ or AWQ, but for the layers that the file excepts."""
    # INCConfig.get_layer_config, 0.23 and 0.33
    packing = config.get("packing_format", "auto_round:auto_gptq")
    if packing not in PACKINGS:
        raise Unknown(f"AutoRound's packing_format {str(packing)[:40]!r} is not described")
    extra = config.get("extra_config") or {}
    differ = {
        name: one for name, one in extra.items() if one.get("bits", config["bits"]) < PLAIN_BITS
    }
    if any(config.get(key) != value for one in differ.values() for key, value in one.items()):
        raise Unknown("AutoRound's formats of single layers are not described")
    plain = [f"re:.*{one}" if SPECIAL.search(one) else one for one in extra.keys() - differ.keys()]
    blocks = config.get("block_name_to_quantize") or config.get("to_quant_block_names") or []
    within = tuple(texts(blocks.split(",") if isinstance(blocks, str) else blocks))
    is_plain = expressions(texts(plain))
    experts = exact(texts([one for one in plain if "experts" in one]))
    return integers({**config, "quant_method": PACKINGS[packing]})._replace(
        excludes=lambda path: is_plain(path) or experts(path) or not path.startswith(within or "")
    )


def _compressed(config: Mapping[str, Any]) -> Scheme:
    found = config_groups(config)
    # find_matched_target, 0.23 and 0.33: what a layer is called comes before its class, and a layer
    # with neither is plain
    named = [one for one in found if LINEAR not in one.get("targets", LINEAR)]
    rest = [one for one in found if one not in named]
    if len(rest) > 1 or not found:
        raise Unknown("these config_groups of compressed-tensors are not described")
    others = [_compressed_formats(one) for one in named]
    linear, experts = next(map(_compressed_formats, rest), (None, None))
    all_experts = [one for _, one in others] + ([experts] if experts else [])
    tests = (_of_group(expressions(texts(one["targets"]))) for one in named)
    ignored = expressions(texts(config.get("ignore")))
    return Scheme(
        linear=linear,
        experts=experts,
        chosen=tuple(zip(tests, others, strict=True)),
        # CompressedTensorsWNA16MarlinMoEMethod
        earlier={one: one._replace(input_bytes=SORTED) for one in all_experts if one.fixed_bytes},
        excludes=ignored,
        excludes_part=ignored,
        cache_scales={PLAIN: ((3, "float32"), (3, None))},
        gates_experts=MXFP4 in all_experts,
        # only the methods of integers make a bias, 0.23 and 0.33
        biases_experts=any(one.is_integer for one in all_experts),
    )


def _of_group(test: Excludes) -> Excludes:
    """Return a test for layers of a group: of routed experts, the first of the first one counts."""
    # CompressedTensorsMoEMethod.get_moe_method, which refuses experts of several groups
    firsts = tuple(f".0.{name}" for name in ("gate_proj", "w1"))
    return lambda path: (
        test(path)
        or (path.endswith(EXPERTS.rstrip(".")) and any(test(path + one) for one in firsts))
    )


def _compressed_formats(group: Mapping[str, Any]) -> tuple[Format, Format]:
    stored = _compressed_format(group.get("weights") or {}, group.get("input_activations") or {})
    return stored, stored._replace(fixed_bytes=stored.fixed_bytes // 4)


def _compressed_format(weights: Mapping[str, Any], inputs: Mapping[str, Any]) -> Format:
    bits, kind, strategy = (weights.get(key) for key in ("num_bits", "type", "strategy"))
    group, block = weights.get("group_size") or 0, weights.get("block_structure")
    if kind == "int" and bits in {4, 8} and not inputs:
        # the original shape is stored as two 64-bit integers
        zeros = 0 if weights.get("symmetric", True) else bits
        grouped = Format(bits, block=(1, group), scale_bytes=2, zero_bits=zeros, is_integer=True)
        return grouped._replace(fixed_bytes=16)
    if kind == "int" and bits == 4 and inputs.get("type") == "float":
        return FOUR_BITS_IN_FP8
    if kind == "float" and bits == 4:
        small = NVFP4 if inputs else NVFP4._replace(scalars=1)
        return MXFP4 if group == MX_BLOCK else small
    if bits == 8 and strategy == "channel":
        stored = Format(8, block=(1, 0), scale_bytes=4, is_integer=kind == "int")
        return stored._replace(scalars=int(inputs.get("dynamic") is False))
    if bits == 8 and kind == "float" and strategy == "block" and block:
        return Format(8, block=(block[0], block[1]), scale_bytes=4)
    if bits == 8 and kind == "float" and strategy == "tensor":
        return FP8 if inputs.get("dynamic", True) else FP8_STATIC
    raise Unknown(f"compressed-tensors with {bits} bits by {strategy} is not described")


METHODS: dict[str, Callable[[Mapping[str, Any]], Scheme]] = {
    "fp8": _fp8,
    "modelopt": _modelopt,
    "modelopt_fp4": _modelopt,
    "modelopt_mxfp8": _modelopt,
    "modelopt_mixed": _mixed,
    "mxfp4": _mxfp4,
    "awq": integers,
    "gptq": integers,
    "auto-round": _auto_round,
    "compressed-tensors": _compressed,
    "quark": quark,
}
"""quant_method -> its reader."""
