"""Which layers a checkpoint stores quantized, and in which format."""

import re
from collections.abc import Callable, Iterable, Mapping
from fnmatch import translate
from types import MappingProxyType
from typing import Any, NamedTuple

from workbench.core.online import MXFP4
from workbench.core.weights import Format
from workbench.models.fields import Fields
from workbench.models.quantization import (
    modelopt_place,
    quantization_method,
    stated_quantization,
)

Excludes = Callable[[str], bool]
"""Whether a module of a checkpoint, by its path, keeps the model's dtype."""
MERGED = {
    "qkv_proj": ("q_proj", "k_proj", "v_proj"),
    "gate_up_proj": ("gate_proj", "up_proj"),
    "fused_qkv_a_proj": ("q_a_proj", "kv_a_proj_with_mqa"),
    "in_proj_qkvz": ("in_proj_qkvz", "in_proj_qkv"),
    "in_proj_ba": ("in_proj_ba", "in_proj_b"),
    "w13": ("w1", "w3"),
}
"""Last name of vLLM's layer -> names in a checkpoint."""
RENAMED = (("language_model.", ""), ("backbone.", "model."))
"""Parts of paths that vLLM and checkpoints have in other places, or under other names."""
PLAIN, LATENT = ".attn", ".mla_attn"
"""Ends of the names of attention layers."""
FP8, FP8_STATIC = Format(bits=8, scalars=1), Format(bits=8, scalars=2)
EXPERTS_STATIC = Format(bits=8, scalars=1, fixed_bytes=4)
"""Experts share the scale of their inputs among merged outputs."""
NVFP4 = Format(4, block=(1, 16), scale_bytes=1, scalars=2)
MIXED_FORMATS = {"FP8": (FP8_STATIC, EXPERTS_STATIC), "NVFP4": (NVFP4, NVFP4)}
"""Algorithm of ModelOpt -> the formats of linear layers and of routed experts."""
EXPERTS = ".experts."
DEEPSEEK_V4 = "deepseek_v4"
MAX_ENTRIES, MAX_STARS, MAX_LISTED = 20_000, 4, 200_000
WILD = re.compile(r"[*?\[]")
SIMPLE = re.compile(r"(?:\w|\\?\.\*?|[|^$-]|\((?:\?:)?[\w.|-]*\))*")
"""Expressions without nested repetition, whose time has no useful limit."""
FOUR = ((4, None),)
MODELOPT_SCALES = {PLAIN: FOUR, LATENT: FOUR}


class Scheme(NamedTuple):
    """How the linear layers of a checkpoint are stored."""

    linear: Format | None = None
    experts: Format | None = None
    """Of routed experts; None is that of the other layers."""
    excludes: Excludes = lambda _path: False
    cache_scales: Mapping[str, tuple[tuple[int, str | None], ...]] = MappingProxyType({})
    """What attention layers with these ends of their names have for a quantized cache, as numbers
    of a dtype; None is the model's."""
    multiple: int = 1
    """To which each rank's share of an expert is rounded up."""
    listed: Mapping[str, tuple[Format, Format]] | None = None
    """The formats of a linear layer and of experts by their path, where the file lists them all."""

    def format_of(self, path: str, *, is_expert: bool) -> Format | None:
        """Return the format of a linear layer of vLLM, or of its routed experts; None for plain."""
        stored = (self.linear, self.experts or self.linear)
        both = (path, *paths(path))
        if self.listed is not None:
            stored = next((self.listed[one] for one in both if one in self.listed), (None, None))
        found = stored[is_expert]
        return None if found is None or any(map(self.excludes, both)) else found


class Unknown(Exception):  # noqa: N818  (an answer, not a failure)
    """What keeps the parameters of a checkpoint from being known."""


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
    ignored = _texts(config.get("ignored_layers") or config.get("modules_to_not_convert"))
    return Scheme(
        linear=FP8_STATIC if is_static and not block else stored,
        experts=EXPERTS_STATIC if is_static and not block else None,
        excludes=_exact(ignored),
        cache_scales={PLAIN: FOUR},
    )


def _modelopt(config: Mapping[str, Any]) -> Scheme:
    place = modelopt_place(config)
    algorithm = str(place.get("quant_algo", "")).upper()
    stored = {"FP8": FP8_STATIC, "NVFP4": NVFP4}.get(algorithm)
    if stored is None:
        raise Unknown(f"ModelOpt's quant_algo {algorithm[:40]!r} is not described")
    return Scheme(
        linear=stored,
        experts=EXPERTS_STATIC if algorithm == "FP8" else None,
        excludes=_modelopt_excludes(place),
        cache_scales=MODELOPT_SCALES,
    )


def _modelopt_excludes(place: Mapping[str, Any]) -> Excludes:
    return _wildcards(_texts(place.get("exclude_modules") or place.get("ignore")))


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
    listed: dict[str, tuple[Format, Format]] = {}
    for path, name in names.items():
        stem, inside, _one = path.partition(EXPERTS)
        listed.setdefault(_renamed(stem + inside.rstrip(".")), MIXED_FORMATS[name])
    return Scheme(
        excludes=_modelopt_excludes(place),
        cache_scales=MODELOPT_SCALES,
        listed=listed,
    )


def _mxfp4(_config: Mapping[str, Any]) -> Scheme:
    """Return MXFP4 of the routed experts; every other layer is plain."""
    return Scheme(experts=MXFP4, multiple=64)


def _integer(config: Mapping[str, Any]) -> Scheme:
    """Return AWQ or GPTQ: groups of inputs share a scale and a zero point."""
    bits, size = config.get("bits", config.get("w_bit")), config.get("group_size", 128)
    if not isinstance(bits, int) or not isinstance(size, int) or config.get("dynamic"):
        raise Unknown("bits, group_size or the rules of `dynamic` are not described")
    stored = Format(bits, block=(1, max(size, 0)), scale_bytes=2, zero_bits=bits, is_integer=True)
    is_gptq = config.get("quant_method") == "gptq"
    ignored = _texts(config.get("modules_to_not_convert"))
    return Scheme(
        linear=stored,
        # a bias for every expert
        experts=stored._replace(row_bytes=2) if is_gptq else None,
        excludes=_wildcards(ignored),
    )


def _compressed(config: Mapping[str, Any]) -> Scheme:
    groups = config.get("config_groups")
    if not isinstance(groups, Mapping) or len(groups) != 1:
        raise Unknown("compressed-tensors with several config_groups are not described")
    [group] = groups.values()
    weights, inputs = group.get("weights") or {}, group.get("input_activations") or {}
    ignored = _texts(config.get("ignore"))
    stored = _compressed_format(weights, inputs)
    return Scheme(
        linear=stored,
        experts=stored._replace(fixed_bytes=stored.fixed_bytes // 4),
        excludes=_expressions(ignored),
        cache_scales={PLAIN: ((3, "float32"), (3, None))},
    )


def _compressed_format(weights: Mapping[str, Any], inputs: Mapping[str, Any]) -> Format:
    bits, kind, strategy = (weights.get(key) for key in ("num_bits", "type", "strategy"))
    group, block = weights.get("group_size") or 0, weights.get("block_structure")
    if kind == "int" and bits in {4, 8} and not inputs:
        # the original shape is stored as two 64-bit integers
        zeros = 0 if weights.get("symmetric", True) else bits
        grouped = Format(bits, block=(1, group), scale_bytes=2, zero_bits=zeros, is_integer=True)
        return grouped._replace(fixed_bytes=16)
    if kind == "float" and bits == 4:
        return NVFP4 if inputs else NVFP4._replace(scalars=1)
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
    "modelopt_mixed": _mixed,
    "mxfp4": _mxfp4,
    "awq": _integer,
    "gptq": _integer,
    "compressed-tensors": _compressed,
}
"""quant_method -> its reader."""


def paths(name: str) -> Iterable[str]:
    """Return the paths in a checkpoint of one of vLLM's layers, which may be merged of several."""
    stem, _, last = name.rpartition(".")
    return [f"{stem}.{one}" for one in MERGED.get(last, (last,))]


def _texts(listed: object) -> list[str]:
    """Return the entries of a list of modules, under the paths that vLLM has."""
    found = [one for one in listed if isinstance(one, str)] if isinstance(listed, list) else []
    if len(found) > MAX_ENTRIES:
        raise Unknown(f"more than {MAX_ENTRIES:,} modules are excluded from quantization")
    return [_renamed(one) for one in found]


def _renamed(path: str) -> str:
    for old, new in RENAMED:
        path = path.replace(old, new)
    return path


def _exact(ignored: list[str]) -> Excludes:
    """Return a test for listed paths; experts are excluded by any path inside of them, too."""
    known, inside = frozenset(ignored), [one for one in ignored if "experts" in one]
    return lambda path: path in known or ("experts" in path and any(path in one for one in inside))


def _wildcards(ignored: list[str]) -> Excludes:
    """Return a test for paths that contain an entry, or match its wildcards."""
    if not ignored:
        return lambda _path: False
    patterns = [translate(one) if WILD.search(one) else f".*{re.escape(one)}" for one in ignored]
    found = re.compile("|".join(f"(?:{one})" for one in patterns))
    return lambda path: found.match(path) is not None


def _expressions(ignored: list[str]) -> Excludes:
    """Return a test for listed paths, and for regular expressions, which begin with "re:"."""
    known = frozenset(ignored)
    patterns = [one.removeprefix("re:") for one in ignored if one.startswith("re:")]
    if any(not SIMPLE.fullmatch(one) or one.count("*") > MAX_STARS for one in patterns):
        raise Unknown("an expression that excludes modules is not a simple one")
    found = [re.compile(one) for one in patterns]
    return lambda path: path in known or any(one.match(path) for one in found)
