"""The groups of a resolved model: its specs, the layout of the cache, and the decision list."""

from collections.abc import Collection
from functools import lru_cache

from workbench.core.groups.cache_spec import RING_SPEC, CacheSpec
from workbench.core.groups.decision import group_layers
from workbench.core.groups.group_rules import GroupRules
from workbench.core.groups.grouping import Grouping
from workbench.core.groups.layer_specs import LayerSpecs, layer_specs
from workbench.core.kv_connectors import connector_of, requested_layout
from workbench.core.model import CHUNKED
from workbench.core.plan import Plan
from workbench.core.speculation import OF_HIDDEN_STATES

OLD_NAMES = {"NHD": "LBNHC", "HND": "LBHNC"}
"""The two old layout names, and what they mean since 0.33."""
OWN_ORDER = ("LBHNC", "LBNHC", "LHBNC", "BLHNC", "BLNHC", "BHLNC")
"""vLLM's enumeration order of layouts, used if no backend has a preference."""


def grouping_of(plan: Plan) -> Grouping:
    """Return the groups of a resolved model. Errors: PagesNotUnifiableError, NoSingleTypeError."""
    specs = layer_specs(plan)
    layout = cache_layout(plan, specs)
    return _grouping(specs, plan.rules.groups, layout, has_hybrid_manager(plan))


def has_hybrid_manager(plan: Plan) -> bool:
    """Return whether groups of different layers are managed (VllmConfig.__post_init__)."""
    is_off = plan.settings.disable_hybrid_kv_cache_manager or _chunks_drafted(plan)
    return connector_of(plan).supports_hybrid and not is_off


def _chunks_drafted(plan: Plan) -> bool:
    """Return whether a drafter of hidden states works alongside layers that attend in chunks."""
    if plan.speculative_method not in OF_HIDDEN_STATES:
        return False
    return any(layer.kind == CHUNKED for layer in plan.model.layers)


@lru_cache(maxsize=1024)
def _grouping(
    specs: LayerSpecs, rules: GroupRules, layout: str | None, hybrid_manager: bool
) -> Grouping:
    return group_layers(specs.by_name(), rules, layout=layout, hybrid_manager=hybrid_manager)


def cache_layout(plan: Plan, specs: LayerSpecs | None = None) -> str | None:
    """Return the order of the one allocation: the requested one if it suits, else the best."""
    # resolve_kv_cache_layout, 0.33. Versions with one tensor per slot have none.
    possible = possible_layouts(plan, specs)
    if not possible:
        return None
    requested = requested_layout(plan)
    name = None if requested is None else OLD_NAMES.get(requested, requested)
    # An explicit one that is not possible stops vLLM, which `cache_layout_choice` reports; a
    # connector's is dropped. The sizes are then those of vLLM's own choice.
    return name if name in possible else possible[0]


def layout_refusal_text(requested: str, possible: tuple[str, ...]) -> str:
    """Return what vLLM raises for an explicit layout that is not possible (0.33)."""
    return (
        f"VLLM_KV_CACHE_LAYOUT={requested} does not satisfy every supported set; "
        f"valid layouts: {list(possible)}."
    )


def possible_layouts(plan: Plan, specs: LayerSpecs | None = None) -> tuple[str, ...]:
    """Return the orders that the backend reads and that suit all layers of `specs`, best first."""
    if not plan.rules.groups.layouts:
        return ()
    # The backend of layers left in the model's dtype reads the same cache. Where the two have no
    # order in common vLLM stops, and the orders are those of the first.
    orders = common_layouts(plan) or layouts_of_backends(plan)[0]
    return _suiting(orders, (specs or layer_specs(plan)).different)


@lru_cache(maxsize=1024)
def _suiting(orders: tuple[str, ...], specs: tuple[CacheSpec, ...]) -> tuple[str, ...]:
    """Return the orders in which pages that differ are one run of bytes each."""
    shapes = {(*spec.view_shape[:2], spec.page_size_bytes) for spec in specs}
    if len(shapes) > 1:
        orders = tuple(order for order in orders if order[:2] in {"LB", "BL"})
    # Where there are none of these vLLM stops, which `cache_layout_choice` reports.
    packed = tuple(order for order in orders if order[0] == "B")
    return packed or orders if packs_whole_drafts(specs) else orders


def packs_whole_drafts(specs: Collection[CacheSpec]) -> bool:
    """Return whether layers that each rank has whole need pages of their own size (0.33)."""
    # resolve_kv_cache_layout: their groups are apart from those that ranks share
    tokens = [spec for spec in specs if not (spec.is_mamba or spec.kind == RING_SPEC)]
    pages = {spec.page_size_bytes for spec in specs}
    return len({spec.context_ranks for spec in tokens}) > 1 and len(pages) > 1


def layouts_read_by(plan: Plan, backend: str) -> tuple[str, ...]:
    """Return the orders that one backend reads, best first; none where each slot has a tensor."""
    own = plan.rules.backends[backend].orders_for(plan.capability)
    return plan.rules.groups.layouts if own is None else own


def layouts_of_backends(plan: Plan) -> tuple[tuple[str, ...], ...]:
    """Return the declarations of the backends, or vLLM's preference if there is none (0.33)."""
    default = plan.rules.groups.layouts
    attention = plan.model.attention
    besides = () if attention is None else plan.rules.companions(attention).values()
    names = dict.fromkeys((*plan.attention_backends, *besides))
    if plan.stage_layers is not None and (plan.backends or plan.backend is None):
        # a stage has some of them, or none
        names = {name: None for name in names if name in dict(plan.backends)}
    declared = (layouts_read_by(plan, name) for name in names)
    return tuple(orders for orders in declared if orders is not default) or (default,)


def common_layouts(plan: Plan) -> tuple[str, ...]:
    """Return what all backends read, in vLLM's own order where they differ; empty: vLLM stops."""
    # get_supported_kv_cache_layouts, 0.33.
    first, *others = lists = layouts_of_backends(plan)
    if all(orders == first for orders in others):
        return first
    shared = [order for order in OWN_ORDER if all(order in orders for orders in lists)]
    # What more backends like best comes first.
    favourites = [orders[0] for orders in lists]
    return tuple(sorted(shared, key=favourites.count, reverse=True))
