"""How Quark stores weights: what it says of all layers, and of layers by their names.

Source: `QuarkConfig` and the schemes of `quantization/quark`, 0.23 and 0.33.
"""

import re
from collections.abc import Mapping
from fnmatch import translate
from typing import Any

from workbench.core.formats import Format
from workbench.core.online import MX_BLOCK, MXFP4
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
)

Spec = Mapping[str, Any]
FP8_DTYPE = "fp8_e4m3"
MICRO = {"fp4": MXFP4, "fp6_e2m3": MXFP4._replace(bits=6), "fp6_e3m2": MXFP4._replace(bits=6)}
"""Small floats in groups of 32 that share a power of two."""
BITS = {FP8_DTYPE: 8, **{name: one.bits for name, one in MICRO.items()}}
PER_TENSOR, PER_CHANNEL, PER_BLOCK = "per_tensor", "per_channel", "per_block"


def quark(config: Spec) -> Scheme:
    """Return the formats of a checkpoint. Errors: Unknown for numbers that are not described."""
    linear, experts = _formats(config.get("global_quant_config") or {})
    ignored = texts(config.get("exclude"))
    listed, inside = expressions(ignored), exact(ignored)
    layers = config.get("layer_quant_config") or {}
    return Scheme(
        linear=linear,
        experts=experts,
        chosen=tuple((_names(renamed(name)), _formats(one)) for name, one in layers.items()),
        # 0.23 builds experts of which a part is excluded; no part of them is loaded then
        excludes=lambda path: listed(path) or ("experts" in path and inside(path)),
        cache_scales={PLAIN: ((4, None),)},
        gates_experts=True,
    )


def _names(pattern: str) -> Excludes:
    """Return a test for the layers of an entry: by its wildcards, or a part of its name."""
    if "*" not in pattern:
        return lambda path: path in pattern
    found = re.compile(translate(pattern))
    return lambda path: found.match(path) is not None


def _formats(entry: Spec) -> Formats:
    """Return the formats of linear layers and of routed experts."""
    weight, inputs = (_single(entry.get(key)) for key in ("weight", "input_tensors"))
    if isinstance(weight, list) and isinstance(inputs, list):
        if [one.get("dtype") for one in weight] == ["fp4", FP8_DTYPE]:
            return NVFP4, NVFP4
    elif isinstance(weight, Mapping) and not isinstance(inputs, list):
        found = _format(weight, inputs or {})
        if found is not None:
            return found
    raise Unknown("these numbers of Quark are not described")


def _single(spec: Any) -> Any:
    return spec[0] if isinstance(spec, list) and len(spec) == 1 else spec


def _format(weight: Spec, inputs: Spec) -> Formats | None:
    dtype, scheme = weight.get("dtype"), weight.get("qscheme")
    is_static = bool(inputs) and not inputs.get("is_dynamic")
    if dtype in MICRO and weight.get("group_size") == MX_BLOCK:
        stored = MICRO[dtype]._replace(activation_bits=BITS.get(str(inputs.get("dtype")), 0))
        return stored._replace(scalars=int(is_static)), stored._replace(fixed_bytes=4 * is_static)
    if dtype != FP8_DTYPE or not inputs:
        return None
    if scheme == PER_TENSOR:
        return (FP8_STATIC, EXPERTS_STATIC) if is_static else (FP8, FP8)
    if scheme == PER_CHANNEL:
        stored = Format(8, block=(1, 0), scale_bytes=4)
        return stored._replace(scalars=int(is_static)), stored._replace(fixed_bytes=4 * is_static)
    block: list[int] = weight.get("block_size") or []
    if scheme == PER_BLOCK and len(block) == 2:
        squares = Format(8, block=(block[0], block[1]), scale_bytes=4)
        return squares, squares
    return None
