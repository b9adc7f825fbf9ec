"""Adapters (LoRA): the room that vLLM makes for them next to the weights of a rank.

Source: `create_lora_weights` of the layers in vllm/lora/layers, 0.23 and 0.33, with the default
arguments: adapters of the language model alone, divided among ranks as its layers are.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from workbench.core.architectures import ANY_LANGUAGE_MODEL
from workbench.core.capacity.draft_weights import copies_of
from workbench.core.dtypes import FLOAT_BYTES
from workbench.core.ranks import Split, split_of
from workbench.core.weights import EMBEDDING

if TYPE_CHECKING:
    from workbench.core.plan import Plan
    from workbench.core.weights import Part

HEAD, CONVOLUTION = "lm_head", "conv1d"
RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""What `--max-lora-rank` takes (`MaxLoRARanks`)."""


def adapter_bytes(plan: Plan, layers: range | None = None) -> int:
    """Return the bytes of all adapters of a step on one rank; layers: of a pipeline stage."""
    settings, weights = plan.settings, plan.model.weights
    if not settings.enable_lora or settings.weights_bytes is not None or weights.unknown:
        return 0
    split, copies = split_of(plan), copies_of(plan)
    adapted = _adapts_vocabulary(plan)
    numbers = sum(
        count * copies.get(part.kind, 1) * _numbers(part, split, with_vocabulary=adapted)
        for part, count in weights.counts(layers, 0)
    )
    return settings.max_loras * settings.max_lora_rank * numbers * FLOAT_BYTES[plan.model_dtype]


def _adapts_vocabulary(plan: Plan) -> bool:
    """Return whether the language model has adapters of its vocabularies.

    Classes that build whichever model a file names are taken to have one of most, which have.
    """
    name, registry = plan.model.architecture, plan.rules.model_registry
    inner = registry.wrappers[name].language_models if name in registry.wrappers else frozenset()
    return ANY_LANGUAGE_MODEL in inner or bool({name, *inner} & registry.adapts_vocabulary)


def _numbers(part: Part, split: Split, *, with_vocabulary: bool) -> int:
    """Return the numbers of an adapter of rank 1: a vector into it, and one out of it."""
    if part.name in {EMBEDDING, HEAD}:  # whole on every rank
        rows, width = sum(units * size for units, size in part.outputs), part.inputs
        return (rows + width) if with_vocabulary else 0
    is_convolution = part.name.endswith(CONVOLUTION)
    if not (part.is_linear or part.experts > 1 or is_convolution):
        return 0
    outputs, inputs = part.share(split._replace(paddings=()))
    if is_convolution:  # a linear layer of one output
        return inputs + sum(outputs)
    experts = ceil(part.experts / split.of_experts) if split.keeps_experts else part.experts
    return experts * (len(outputs) * inputs + sum(outputs))
