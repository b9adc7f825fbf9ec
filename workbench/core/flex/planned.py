"""The masks that the attention layers of a plan really have: what a lab starts with."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from workbench.core.flex.batch import CAUSAL, CHUNKED, WINDOW
from workbench.core.groups.built_layers import window_of
from workbench.core.model import CHUNKED as CHUNKED_LAYER
from workbench.core.model import CROSS, SLIDING, SSM, Attention
from workbench.core.plan import Plan

KIND_OF_LAYER = {SLIDING: WINDOW, CHUNKED_LAYER: CHUNKED}
"""Mask kinds of layers that do not read all tokens before."""
DEFAULT_TOKENS = 64
"""Of a window, prefix or chunk that no layer of the plan has."""


@dataclass(frozen=True, slots=True)
class LayerMask:
    """The mask of some attention layers of the model."""

    kind: str
    """One of `core.flex.batch.KINDS`."""
    tokens: int | None
    """Of its window or chunk, None for a mask without."""
    layers: int
    """How many layers have it."""
    attention: Attention
    """The geometry of the first of these layers, of the whole model."""


def layer_masks(plan: Plan) -> tuple[LayerMask, ...]:
    """Return the masks of the decoder's attention layers, that of most layers first.

    Of as many layers, the mask of the first layer comes first; empty without attention layers.
    """
    attention = plan.model.attention
    if attention is None:
        return ()
    counts: Counter[tuple[str, int | None]] = Counter()
    first: dict[tuple[str, int | None], Attention] = {}
    for layer in plan.model.layers:
        if layer.kind not in {SSM, CROSS} and layer.cache is None:
            mask = KIND_OF_LAYER.get(layer.kind, CAUSAL), window_of(plan, layer, attention)
            counts[mask] += 1
            first.setdefault(mask, attention.of_layer(layer))
    return tuple(LayerMask(*mask, layers, first[mask]) for mask, layers in counts.most_common())


def first_mask(plan: Plan) -> tuple[str, int]:
    """Return the kind and the size, in tokens, of the mask that a lab of this plan starts with."""
    masks = layer_masks(plan)
    sizes = (mask.tokens for mask in masks if mask.tokens is not None)
    return masks[0].kind if masks else CAUSAL, next(sizes, DEFAULT_TOKENS)
