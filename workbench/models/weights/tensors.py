"""The formats of compressed-tensors, and which layers a file excludes from them."""

from collections.abc import Callable, Mapping
from typing import Any

from workbench.core.formats import MX_BLOCK, Format
from workbench.core.online import MXFP4, MXFP8
from workbench.core.weights import EARLIER, LATER
from workbench.models.fields import Fields
from workbench.models.quantization import config_groups
from workbench.models.weights.integers import ORDER, SORTED
from workbench.models.weights.stored import (
    EXPERTS,
    EXPERTS_STATIC,
    FP8,
    FP8_STATIC,
    NVFP4,
    PLAIN,
    Excludes,
    Scheme,
    Unknown,
    expressions,
    texts,
)

FOUR_BITS_IN_FP8 = Format(
    4, block=(1, 128), scale_bytes=8, row_bytes=4, fixed_bytes=16, is_integer=True
)
"""Integers whose inputs are in fp8: CompressedTensorsW4A8Fp8 makes scales of fp8 of those of the
file, eight times, and one in float32 per output."""
SMALL = {(4, True): MXFP4, (8, True): MXFP8, (4, False): NVFP4}
"""Bits of floats, and whether 32 of them share a scale -> their format."""
GPT_OSS = "gpt_oss"
LINEAR = "Linear"
"""Target of compressed-tensors: the class of every linear layer."""
PROJECTIONS = ("gate_proj", "up_proj", "down_proj")
EXPERT_NAMES = {
    **dict.fromkeys(("lfm2_moe", "minimax_m2", "mixtral", "phimoe"), ("w1", "w2", "w3")),
    "nemotron_h": ("up_proj", "down_proj", "None"),
}
"""model_type -> names of an expert's projections in 0.33 (`ckpt_names` of its class)."""
FP4_PLAIN_INPUTS = NVFP4._replace(scalars=1)
"""Linear layers in NVFP4 of compressed-tensors whose inputs stay as they are."""


def _built(fields: Fields) -> Callable[[str], str]:
    """Return what makes the path of a module in vLLM of its path here."""
    # hf_to_vllm_mapper of gpt_oss.py, and of the wrappers, whose towers begin paths
    inside = "language_model." * bool(fields.prefix)
    is_gpt_oss = fields.raw("model_type") == GPT_OSS

    def built(path: str) -> str:
        path = path.replace(".self_attn.", ".attn.") if is_gpt_oss else path
        return inside + path if path.startswith(("model.", "lm_head")) else path

    return built


def compressed_tensors(config: Mapping[str, Any], fields: Fields) -> Scheme:
    """Return the formats of compressed-tensors, whose groups and exceptions may be expressions."""
    built, names = _built(fields), EXPERT_NAMES.get(fields.model_type, PROJECTIONS)

    def named(listed: object) -> Excludes:
        given = [one for one in listed if isinstance(one, str)] if isinstance(listed, list) else []
        # CompressedTensorsConfig.apply_vllm_mapper leaves expressions as they are, 0.23 and 0.33
        expressed = [one for one in given if one.startswith("re:")]
        paths = texts([one for one in given if one not in expressed])
        return expressions([*paths, *expressed], built)

    found = config_groups(config)
    # find_matched_target, 0.23 and 0.33: what a layer is called comes before its class, and a layer
    # with neither is plain
    some = [one for one in found if LINEAR not in one.get("targets", LINEAR)]
    rest = [one for one in found if one not in some]
    if len(rest) > 1 or not found:
        raise Unknown("these config_groups of compressed-tensors are not described")
    others = [_compressed_formats(one) for one in some]
    linear, experts = next(map(_compressed_formats, rest), (None, None))
    all_experts = [one for _, one in others] + ([experts] if experts else [])
    tests = (_of_group(named(one["targets"])) for one in some)
    ignored = named(config.get("ignore"))
    return Scheme(
        linear=linear,
        experts=experts,
        chosen=tuple(zip(tests, others, strict=True)),
        # CompressedTensorsWNA16MarlinMoEMethod
        earlier={one: one._replace(input_bytes=SORTED) for one in all_experts if one.is_packed},
        excludes=lambda path: all(ignored(one) for one in _projections(path, names)),
        excludes_part=ignored,
        # get_moe_method of 0.23 looks the same names up in every class
        excludes_experts={
            EARLIER: lambda path: _differ(ignored, _projections(path, PROJECTIONS)),
            LATER: lambda path: _differ(ignored, _projections(path, names)),
        },
        cache_scales={PLAIN: ((3, "float32"), (3, None))},
        gates_experts=MXFP4 in all_experts,
        # only CompressedTensorsWNA16MoEMethod of 0.33 makes a bias
        biases_experts=any(one.is_integer for one in all_experts),
        biases_later=True,
    )


def _projections(path: str, names: tuple[str, ...]) -> list[str]:
    """Return the paths of the first one's projections, of routed experts; a layer is its own."""
    is_experts = path.endswith(EXPERTS.rstrip("."))
    return [f"{path}.0.{one}" for one in names] if is_experts else [path]


def _differ(ignored: Excludes, paths: list[str]) -> bool:
    return len(set(map(ignored, paths))) > 1


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
    if stored == FP8_STATIC:
        return stored, EXPERTS_STATIC
    if stored == FP4_PLAIN_INPUTS:
        return stored, NVFP4  # with a place for the scale of inputs
    return stored, stored._replace(fixed_bytes=stored.fixed_bytes // 4)


def _compressed_format(weights: Mapping[str, Any], inputs: Mapping[str, Any]) -> Format:
    bits, kind, strategy = (weights.get(key) for key in ("num_bits", "type", "strategy"))
    group, block = weights.get("group_size") or 0, weights.get("block_structure")
    if kind == "int" and bits in {4, 8} and not inputs:
        # the original shape is stored as two 64-bit integers
        zeros = 0 if weights.get("symmetric", True) else bits
        grouped = Format(bits, block=(1, group), scale_bytes=2, zero_bits=zeros, is_integer=True)
        if weights.get("actorder") in {"group", True}:  # 0.33 refuses the order of inputs
            grouped = grouped._replace(input_bytes=ORDER, repeats_scales=True)
        return grouped._replace(fixed_bytes=16)
    if kind == "int" and bits == 4 and inputs.get("type") == "float":
        return FOUR_BITS_IN_FP8
    if kind == "float" and (bits, group == MX_BLOCK) in SMALL:
        found = SMALL[bits or 0, group == MX_BLOCK]
        return FP4_PLAIN_INPUTS if found == NVFP4 and not inputs else found
    if bits == 8 and strategy == "channel":
        stored = Format(8, block=(1, 0), scale_bytes=4, is_integer=kind == "int")
        return stored._replace(scalars=int(inputs.get("dynamic") is False))
    if bits == 8 and kind == "float" and strategy == "block" and block:
        return Format(8, block=(block[0], block[1]), scale_bytes=4)
    if bits == 8 and kind == "float" and strategy == "tensor":
        return FP8 if inputs.get("dynamic", True) else FP8_STATIC
    raise Unknown(f"compressed-tensors with {bits} bits by {strategy} is not described")
