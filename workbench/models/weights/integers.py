"""The formats of AWQ and GPTQ: integers in groups that share a scale and a zero point."""

import re
from collections.abc import Mapping
from typing import Any

from workbench.core.formats import Format
from workbench.models.quantization import dynamic_rules
from workbench.models.weights.stored import (
    Excludes,
    Formats,
    Scheme,
    Unknown,
    expressions,
    texts,
    unlisted,
    wildcards,
)

ORDER, SORTED = 4, 8
"""Bytes per input in 0.23, whether a file orders groups by their activations or not: of the order
of a linear layer, and of that of experts and its inverse."""
SIGN = re.compile(r"^([-+]:)?(\^?language_model\\?\.)?")
"""How a rule of `dynamic` begins, with the part of a path that is not in ours."""


def integers(config: Mapping[str, Any]) -> Scheme:
    """Return AWQ or GPTQ: groups of inputs share a scale and a zero point."""
    bits, size = config.get("bits", config.get("w_bit")), config.get("group_size", 128)
    if not isinstance(bits, int) or not isinstance(size, int):
        raise Unknown("bits or group_size are not described")
    if config.get("quant_method") != "gptq":
        stored = _grouped(bits, size)._replace(packs_outputs=True)
        ignored = wildcards(texts(config.get("modules_to_not_convert")))
        return Scheme(
            linear=stored,
            excludes=ignored,
            excludes_part=ignored,
            gates_experts=True,
            biases_experts=False,
        )
    (linear, experts), earlier = _gptq_formats(config)
    listed = config.get("modules_in_block_to_quantize")
    blocks = listed if isinstance(listed, list) else []  # names, or a list of them per block
    modules = [one for entry in blocks for one in (entry if isinstance(entry, list) else [entry])]
    overrides = _overrides(config, earlier)
    return Scheme(
        linear=linear,
        experts=experts,
        excludes=unlisted(texts(modules)),
        overrides=overrides,
        earlier=earlier,
        gates_experts=True,
        biases_experts=False,  # but for that which every expert has, see _gptq_formats
        quantizes_head=bool(config.get("lm_head")),  # get_linear_quant_method of gptq_utils.py
    )


def _grouped(bits: int, size: int) -> Format:
    return Format(bits, block=(1, max(size, 0)), scale_bytes=2, zero_bits=bits, is_integer=True)


def _gptq_formats(
    config: Mapping[str, Any],
) -> tuple[Formats, dict[Format | None, Format | None]]:
    """Return the formats of a file, or of it under a rule, and how 0.23 builds them."""
    bits, size = config.get("bits"), config.get("group_size")
    if not isinstance(bits, int) or not isinstance(size, int):
        raise Unknown("bits or group_size of a rule of `dynamic` are not described")
    stored = _grouped(bits, size)
    experts = stored._replace(row_bytes=2)  # a bias for every expert
    # AutoGPTQLinearMethod and AutoGPTQMoEMethod of 0.23, whose packed zeros of experts have 16 bits
    earlier = stored._replace(repeats_scales=bool(config.get("desc_act")))
    return (stored, experts), {
        stored: earlier._replace(input_bytes=ORDER),
        experts: earlier._replace(zero_bits=bits // 2, input_bytes=SORTED),
    }


def _overrides(
    config: Mapping[str, Any], earlier: dict[Format | None, Format | None]
) -> tuple[tuple[Excludes, Formats], ...]:
    """Return what the rules of GPTQ's `dynamic` say; `earlier` has their formats, too."""
    # get_dynamic_override: the first rule that matches vLLM's name of a layer, 0.23 and 0.33
    found: list[tuple[Excludes, Formats]] = []
    for pattern, rule in dynamic_rules(config):
        formats: Formats = (None, None)
        if rule is not None:
            formats, others = _gptq_formats(rule)
            earlier |= others
        found.append((expressions([f"re:{SIGN.sub('', pattern)}"]), formats))
    return tuple(found)
