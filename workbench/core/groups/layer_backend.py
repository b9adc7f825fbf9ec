"""Which backend reads the cache of a layer: not all layers of a model have the same one."""

from collections.abc import Iterable

from workbench.core.block_sizes import BlockSize
from workbench.core.groups.built_layers import chooser
from workbench.core.groups.cache_spec import HIDDEN_SPEC, RING_SPEC, SLIDING_MLA_SPEC, CacheSpec
from workbench.core.groups.grouping import Group
from workbench.core.groups.layer_classes import AS_THE_MODEL, LayerVariant, layer_number
from workbench.core.groups.layer_specs import backend_of
from workbench.core.layer_query import LayerQuery
from workbench.core.model import FLOAT32_STATE, INDEX_KEY, SLIDING
from workbench.core.plan import Plan

CACHE_ONLY = "CACHE_ONLY_ATTN"
"""What keeps hidden states; it reads blocks of any size."""
COMPANIONS = frozenset({SLIDING_MLA_SPEC, RING_SPEC})
"""Specs of what layers of compressed attention keep alongside what they attend to."""


def is_plain(plan: Plan, spec: CacheSpec) -> bool:
    """Return whether some attention layer keeps the model's dtype alongside a quantized cache."""
    return spec.stored == AS_THE_MODEL != plan.kv_cache_dtype


def is_drafted(plan: Plan, name: str | None) -> bool:
    """Return whether the layer of this name is the drafter's; None is some layer of the model."""
    return name is not None and layer_number(name) >= plan.model.num_hidden_layers


def layer_backend(plan: Plan, spec: CacheSpec, name: str | None = None) -> str | None:
    """Return the backend that reads the layer of this name; None where there is none."""
    # Attention.__init__: a layer asks get_attn_backend with the dtype of its own cache.
    if spec.is_mamba:
        return None if plan.model.state is None else plan.model.state.backend
    if spec.companion or spec.kind == HIDDEN_SPEC:
        return spec.companion or CACHE_ONLY
    drafter = plan.drafter if is_drafted(plan, name) else None
    attention = plan.model.attention if drafter is None else drafter.attention
    assert attention is not None
    if spec.is_indexer:
        return plan.rules.companions(attention).get(INDEX_KEY)
    own = "" if name is None else chooser(plan, layer_number(name), attention)
    if spec.kind in COMPANIONS and not own:
        # Windows of compressed attention, and the states from which it is compressed.
        assert plan.model.attention is not None
        kind = FLOAT32_STATE if spec.stored == FLOAT32_STATE else SLIDING
        return plan.rules.companions(plan.model.attention)[kind]
    main = plan.draft_backend
    if drafter is None:
        main = backend_of(plan, LayerVariant.of_spec(plan, spec))[0]
    return own or main


def read_equally(plan: Plan) -> bool:
    """Return whether all attention layers have one backend that takes the same blocks of each.

    Most models have: then no layer has to be looked at.
    """
    attention, drafted = plan.model.attention, plan.draft_supported
    alone = attention is None or not plan.rules.companions(attention)
    alone = alone and not plan.layer_backends and plan.draft_backend in {None, plan.backend}
    return alone and drafted in {(), plan.supported_kernel_block_sizes}


def read_blocks(plan: Plan, group: Group) -> tuple[tuple[BlockSize, ...], ...]:
    """Return the kernel block sizes of each backend that reads attention layers of this group."""
    if read_equally(plan):
        return (plan.supported_kernel_block_sizes,)
    return blocks_of_layers(plan, zip(group.layers, group.layer_specs, strict=True))


def blocks_of_layers(
    plan: Plan, layers: Iterable[tuple[str, CacheSpec]]
) -> tuple[tuple[BlockSize, ...], ...]:
    """Return the kernel block sizes of each backend that reads these layers."""
    read = {}
    for layer, spec in _read_differently(plan, layers):
        # A state is never cut, and what keeps hidden states reads any block: neither limits it.
        if spec.is_mamba or spec.kind == HIDDEN_SPEC:
            continue
        name, sizes = layer_backend(plan, spec, layer), plan.supported_kernel_block_sizes
        if spec.is_indexer or spec.kind in COMPANIONS:
            assert name is not None
            sizes = plan.rules.backends[name].supported_for(
                platform=plan.platform.name, query=LayerQuery.of(plan)
            )
        elif is_drafted(plan, layer):
            sizes = plan.draft_supported or sizes
        else:
            sizes = backend_of(plan, LayerVariant.of_spec(plan, spec))[1]
        read[name, sizes] = sizes
    return tuple(read.values())


def _read_differently(
    plan: Plan, layers: Iterable[tuple[str, CacheSpec]]
) -> Iterable[tuple[str, CacheSpec]]:
    """Return one layer of each spec, or all of them where the name of a layer decides as well."""
    attention = plan.model.attention
    if attention is not None and attention.side_backends:
        return layers
    # Layers of one class have one and the same spec, which is cheaper than to compare specs.
    if plan.drafter is None:
        return {id(layer[1]): layer for layer in layers}.values()
    return {(id(spec), is_drafted(plan, name)): (name, spec) for name, spec in layers}.values()
