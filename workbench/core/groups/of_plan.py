"""The groups of a resolved model: its specs, the layout of the cache, and the decision list."""

from __future__ import annotations

from workbench.core.equality import different, remembered
from workbench.core.groups.cache_spec import CacheSpec
from workbench.core.groups.decision import group_layers
from workbench.core.groups.grouping import Grouping
from workbench.core.groups.layer_specs import LayerSpecs, layer_specs
from workbench.core.groups.rules import GroupRules
from workbench.core.layer_query import capability_of
from workbench.core.sized import Sized, backend_name

NAMES_OF_0_23 = {"NHD": "LBNHC", "HND": "LBHNC"}
"""The two old layout names, and what they mean since 0.33."""
OWN_ORDER = ("LBHNC", "LBNHC", "LHBNC", "BLHNC", "BLNHC", "BHLNC")
"""In which vLLM counts the orders up, where no backend's preference decides."""


def grouping_of(sized: Sized) -> Grouping:
    """Return the groups of a resolved model. Errors: PagesNotUnifiableError, NoSingleTypeError."""
    specs = layer_specs(sized)
    return _grouping(
        specs,
        sized.rules.groups,
        cache_layout(sized, specs),
        not sized.settings.disable_hybrid_kv_cache_manager,
    )


@remembered(1024)
def _grouping(
    specs: LayerSpecs, rules: GroupRules, layout: str | None, hybrid_manager: bool
) -> Grouping:
    return group_layers(specs.by_name(), rules, layout=layout, hybrid_manager=hybrid_manager)


def cache_layout(sized: Sized, specs: LayerSpecs | None = None) -> str | None:
    """Return the order of the one allocation: the requested one if available, else the best.

    None in versions with one tensor per slot. specs: of `sized`, where they exist.
    Source: `resolve_kv_cache_layout`, 0.33.
    """
    possible = possible_layouts(sized, specs)
    if not possible:
        return None
    requested = sized.settings.kv_cache_layout
    name = None if requested is None else NAMES_OF_0_23.get(requested, requested)
    return name if name in possible else possible[0]


def layout_refusal_text(requested: str, possible: tuple[str, ...]) -> str:
    """Return what vLLM raises for an explicit layout that is not possible.

    Source: the same, 0.33.
    """
    return (
        f"VLLM_KV_CACHE_LAYOUT={requested} does not satisfy every supported set; "
        f"valid layouts: {list(possible)}."
    )


def possible_layouts(sized: Sized, specs: LayerSpecs | None = None) -> tuple[str, ...]:
    """Return the orders that the backend reads and that suit all layers, best first.

    Layers whose blocks differ in heads, tokens or bytes need pages that are one run of bytes. The
    backend of layers left in the model's dtype reads the same cache; where the two have no order in
    common vLLM stops, and the orders are those of the first. specs: of `sized`, where they
    exist.
    """
    if not sized.rules.groups.layouts:
        return ()
    found = common_layouts(sized) or layouts_of_backends(sized)[0]
    shapes = different(map(_shape, (specs or layer_specs(sized)).different))
    if len(shapes) > 1:
        found = tuple(order for order in found if order[:2] in {"LB", "BL"})
    return found


def layouts_read_by(sized: Sized, backend: str) -> tuple[str, ...]:
    """Return the orders that one backend reads, best first; none before 0.33."""
    layouts = sized.rules.groups.layouts
    capability = capability_of(sized.settings)
    major = None if capability is None else capability[0]
    keys = (f"{backend}:{major}", backend, "")
    return next((layouts[key] for key in keys if key in layouts), ())


def layouts_of_backends(sized: Sized) -> tuple[tuple[str, ...], ...]:
    """Return the declarations of the backends, or vLLM's preference if there is none (0.33)."""
    default = sized.rules.groups.layouts[""]
    names = map(backend_name, (sized.backend, sized.plain_backend))
    declared = (layouts_read_by(sized, name) for name in names if name is not None)
    return tuple(orders for orders in declared if orders is not default) or (default,)


def common_layouts(sized: Sized) -> tuple[str, ...]:
    """Return what all backends read; where their lists differ, in vLLM's own order.

    Empty: vLLM stops.

    Source: `get_supported_kv_cache_layouts`, 0.33.
    """
    first, *others = lists = layouts_of_backends(sized)
    if all(orders == first for orders in others):
        return first
    shared = [order for order in OWN_ORDER if all(order in orders for orders in lists)]
    favourites = [orders[0] for orders in lists]
    return tuple(sorted(shared, key=favourites.count, reverse=True))


def _shape(spec: CacheSpec) -> tuple[int, int, int]:
    if spec.is_mamba:
        return 1, 1, spec.page_size_bytes
    return spec.num_heads, spec.block_size, spec.page_size_bytes
