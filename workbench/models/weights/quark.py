"""How Quark stores weights: what it says of all layers, and of layers by their names.

Source: `QuarkConfig` and the schemes of `quantization/quark`, 0.23 and 0.33.
"""

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from workbench.core.formats import MX_BLOCK, Format
from workbench.core.online import FP8_BLOCK, MXFP4, PER_CHANNEL
from workbench.models.weights.stored import (
    EXPERTS_STATIC,
    FP8,
    FP8_STATIC,
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

Spec = Mapping[str, Any]
FP8_DTYPE = "fp8_e4m3"
MICRO = {"fp4": MXFP4, "fp6_e2m3": MXFP4._replace(bits=6), "fp6_e3m2": MXFP4._replace(bits=6)}
"""Small floats in groups of 32 that share a power of two."""
INT4_IN_FP8 = Format(4, block=(1, 0), scale_bytes=4, scalars=1, is_integer=True)
BITS = {FP8_DTYPE: 8, **{name: one.bits for name, one in MICRO.items()}}
OF_TENSOR, OF_CHANNEL, OF_BLOCK = "per_tensor", "per_channel", "per_block"


def quark(config: Spec) -> Scheme:
    """Return the formats of a checkpoint. Errors: Unknown for numbers that are not described."""
    layers = _object(config.get("layer_quant_config"))
    linear, experts = _formats(config.get("global_quant_config"))
    if (linear, experts) == (None, None) and not layers:
        raise Unknown("Quark's description says nothing of any layer")
    ignored = texts(config.get("exclude"))
    listed, inside = expressions(ignored), exact(ignored)
    return Scheme(
        linear=linear,
        experts=experts,
        chosen=tuple(_chosen(layers)),
        # as in 0.33: experts of which a part is excluded are plain
        excludes=lambda path: listed(path) or inside(path),
        excludes_part=listed,
        cache_scales={PLAIN: ((4, None),)},
        gates_experts=True,
    )


def _chosen(layers: Spec) -> Iterator[tuple[Excludes, Formats]]:
    """Yield tests for the layers of entries, and their formats; the first that holds counts."""
    known = ((renamed(name), _formats(entry)) for name, entry in layers.items())
    for (formats, is_wild), entries in groupby(known, lambda one: (one[1], "*" in one[0])):
        names = [name for name, _ in entries]
        yield (wildcards(names) if is_wild else _within(names)), formats


def _within(names: list[str]) -> Excludes:
    """Return a test for a layer that is a part of any name, as experts are of each one's."""
    text = "\n".join(names)
    return lambda path: path in text


def _object(given: object) -> Spec:
    """Return an object of the file, an empty one where it has none. Errors: Unknown."""
    if given is not None and not isinstance(given, Mapping):
        raise Unknown("this part of Quark's description is not an object")
    return given or {}


def _formats(entry: object) -> Formats:
    """Return the formats of linear layers and of routed experts; none without numbers."""
    weight, inputs = (_specs(_object(entry).get(key)) for key in ("weight", "input_tensors"))
    if not weight:
        return None, None
    dtypes = tuple(one.get("dtype") for one in weight)
    if dtypes == ("fp4", FP8_DTYPE):
        return NVFP4, NVFP4
    if dtypes == (FP8_DTYPE, "int4"):  # QuarkW4A8Fp8MoEMethod; no linear layer has one
        return None, INT4_IN_FP8
    if len(weight) == 1 and len(inputs) < 2:
        found = _format(weight[0], inputs[0] if inputs else {})
        if found is not None:
            return found
    raise Unknown("these numbers of Quark are not described")


def _specs(given: object) -> list[Spec]:
    """Return how a tensor is quantized, step by step; nothing where it is not."""
    listed = given if isinstance(given, list) else [given]
    return [_object(one) for one in listed if one is not None]


def _format(weight: Spec, inputs: Spec) -> Formats | None:
    dtype, scheme = str(weight.get("dtype")), weight.get("qscheme")
    is_static = bool(inputs) and not inputs.get("is_dynamic")
    if dtype in MICRO and weight.get("group_size") == MX_BLOCK:
        stored = MICRO[dtype]._replace(activation_bits=BITS.get(str(inputs.get("dtype")), 0))
        return stored._replace(scalars=int(is_static)), stored._replace(fixed_bytes=4 * is_static)
    if dtype != FP8_DTYPE or not inputs:
        return None
    if scheme == OF_TENSOR:
        return (FP8_STATIC, EXPERTS_STATIC) if is_static else (FP8, FP8)
    if scheme == OF_CHANNEL:
        static = PER_CHANNEL._replace(scalars=int(is_static))
        return static, PER_CHANNEL._replace(fixed_bytes=4 * is_static)
    # QuarkConfig._is_fp8_w8a8 of 0.33 takes no other block
    if scheme == OF_BLOCK and weight.get("block_size") == [128, 128]:
        return FP8_BLOCK, FP8_BLOCK
    return None
