"""Which layers are built, in which order, and which of them a quantized cache omits."""

from functools import lru_cache
from itertools import count

from workbench.core.drafter import Drafter
from workbench.core.dtypes import PACKED_DTYPES
from workbench.core.groups.layer_classes import (
    AS_THE_MODEL,
    LayerClasses,
    layer_classes,
    with_indexers,
)
from workbench.core.model import CROSS, FULL, SLIDING, SSM, Attention, Layer, Model
from workbench.core.plan import Plan

WINDOWS = "sliding_window"
"""What names all sliding layers at once."""
UNQUANTIZED_ENDS = 2
"""Layers at either end that TurboQuant leaves in the model's dtype."""


def cache_layers(plan: Plan) -> tuple[Layer, ...]:
    """Return everything that keeps a cache, as it is constructed: the drafter comes last."""
    shares = plan.rules.groups.shares_indexers
    return _cache_layers(plan.model, plan.drafter, shares, plan.stage_layers)


def cache_classes(plan: Plan, unquantized: frozenset[int]) -> LayerClasses:
    """Return the classes of `cache_layers`, with unquantized ones apart."""
    shares = plan.rules.groups.shares_indexers
    return _cache_classes(plan.model, plan.drafter, shares, plan.stage_layers, unquantized)


# Both are found by the model, whose hash is quick: that of all its layers takes longer than they do
@lru_cache(maxsize=1024)
def _cache_classes(
    model: Model,
    drafter: Drafter | None,
    shares: bool,
    part: range | None,
    unquantized: frozenset[int],
) -> LayerClasses:
    return layer_classes(_cache_layers(model, drafter, shares, part), unquantized)


@lru_cache(maxsize=1024)
def _cache_layers(
    model: Model, drafter: Drafter | None, shares: bool, part: range | None
) -> tuple[Layer, ...]:
    found = _all_layers(model, drafter, shares=shares)
    return found if part is None else tuple(layer for layer in found if layer.number in part)


def _all_layers(model: Model, drafter: Drafter | None, *, shares: bool) -> tuple[Layer, ...]:
    # An indexer is built before the attention that it serves; a drafter's layer always has its own
    # (DeepseekV2MLAAttention, DeepseekV32Attention, 0.23 and 0.33).
    own = model.layers
    if (attention := model.attention) is not None and attention.indexer is not None:
        own = with_indexers(own, attention.indexer.followers if shares else frozenset())
    if drafter is None:
        return own
    indexed = drafter.attention.indexer is not None
    return (*own, *(with_indexers(drafter.layers, frozenset()) if indexed else drafter.layers))


def chooser(plan: Plan, number: int, attention: Attention) -> str:
    """Return what reads a layer that chooses its tokens by keys alongside; empty for the others."""
    if not attention.side_backends:
        return ""
    caches = {(one.number, one.cache.backend) for one in cache_layers(plan) if one.cache}
    readers = {backend for _, backend in caches}
    apart = (name for name in attention.side_backends if name not in readers)
    has_keys = number in {one for one, _ in caches}
    return next(apart, "") if has_keys else ""


def skips_layers(plan: Plan) -> bool:
    """Return whether vLLM has a list of layers to skip, also one that names no attention layer."""
    # Hybrids have so few attention layers that both ends would be a large part of them
    # (TurboQuantConfig.get_boundary_skip_layers).
    ends = plan.kv_cache_dtype in PACKED_DTYPES and not plan.model.is_hybrid
    return ends or bool(plan.settings.kv_cache_dtype_skip_layers)


def unquantized_layers(plan: Plan) -> frozenset[int]:
    """Return the numbers of attention layers in the model's dtype alongside a quantized cache."""
    model, attention = plan.model, plan.model.attention
    if attention is None or plan.kv_cache_dtype in {AS_THE_MODEL, plan.model_dtype}:
        return frozenset()
    if plan.rules.keeps_model_dtype(model):
        return frozenset(layer.number for layer in model.layers)
    # In 0.23 Attention.__init__ alone reads the list, and MLA layers are built by another class;
    # in 0.33 MultiHeadLatentAttention of kimi_k3/nvidia does not.
    here, rules = plan.platform.name, plan.rules.groups
    reads = rules.skips_mla_layers and rules.lists_for_mla.get(model.architecture, here) == here
    if attention.use_mla and not reads:
        return frozenset()
    # --kv-cache-dtype-skip-layers names layers by number or by kind.
    explicit = plan.settings.kv_cache_dtype_skip_layers or ()
    packed = plan.kv_cache_dtype in PACKED_DTYPES
    if not explicit and not packed:
        return frozenset()
    skipped = set(explicit)
    # TurboQuantConfig.get_boundary_skip_layers: both ends of a packed cache, except of hybrids.
    if packed and not model.is_hybrid:
        layers = model.num_hidden_layers
        ends = min(UNQUANTIZED_ENDS, layers // 2)
        skipped.update(map(str, (*range(ends), *range(layers - ends, layers))))
    built = _indexes(plan)
    apart = {layer.number for layer, _ in built if layer.makes_spec}
    return frozenset(
        layer.number
        for layer, index in built
        if not (layer.kind == SSM or layer.number in apart)
        and (str(index) in skipped or (layer.kind == SLIDING and WINDOWS in skipped))
    )


def quantizes_nothing(plan: Plan) -> bool:
    """Return whether all attention layers of a stage keep the model's dtype, whatever is set."""
    unquantized, stage = unquantized_layers(plan), plan.stage_layers
    built = (layer for layer in plan.model.layers if stage is None or layer.number in stage)
    own = [layer.number for layer in built if layer.kind != SSM]
    return bool(own) and unquantized.issuperset(own)


def _indexes(plan: Plan) -> list[tuple[Layer, int]]:
    """Return every layer with the number in vLLM's name."""
    # Some drafters count from 0 again, so that one number names two layers.
    alone = count() if plan.model.model_type in plan.rules.groups.counts_attention else None
    own = [
        (one, one.number if alone is None or one.kind == SSM else next(alone))
        for one in plan.model.layers
    ]
    if (drafter := plan.drafter) is None:
        return own
    shift = drafter.first_index - plan.model.num_hidden_layers
    return [*own, *((layer, layer.number + shift) for layer in drafter.layers)]


def window_of(plan: Plan, layer: Layer, attention: Attention) -> int | None:
    """Return the tokens that a layer reads, its own among them; None for all of them."""
    if layer.kind in {FULL, CROSS}:
        return None
    window = attention.window_tokens
    # CohereAttention of commandr.py and cohere2_moe.py, 0.33
    built = (plan.model.drafter if layer.drafted else None) or plan.model
    before_own = built.model_type in plan.rules.groups.windows_before_own
    return window + 1 if before_own and window is not None else window
