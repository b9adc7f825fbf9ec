"""The layout of a resolved plan where all layers are in one allocation (0.33)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from workbench.core.block_sizes import common_kernel_block
from workbench.core.groups.cache_spec import HIDDEN_SPEC, CacheSpec
from workbench.core.groups.layer_backend import blocks_of_layers, layer_backend
from workbench.core.groups.of_plan import cache_layout, layout_refusal_text, possible_layouts
from workbench.core.kv_connectors import requested_layout
from workbench.core.layouts.error import LayoutError, layout_error, require_known, require_positive
from workbench.core.layouts.layer_pages import (
    attention_pages,
    earlier_failure,
    kernel_block,
    state_pages,
)
from workbench.core.layouts.layer_views import RUNNERS, V1, packed_states
from workbench.core.layouts.packed_views import check_group_split, packed_view
from workbench.core.layouts.placed import PagePlacement, packed_order, place
from workbench.core.layouts.shapes import CacheLayout, LayoutName
from workbench.core.layouts.shared_tensor import CacheViews
from workbench.core.plan import Plan
from workbench.core.resolve import resolve


@dataclass(frozen=True, slots=True)
class LayerPlace:
    """One layer in the allocation: its group, its spec, and which of the placed layers it is."""

    name: str
    group: int
    spec: CacheSpec
    where: PagePlacement
    index: int

    @property
    def spot(self) -> tuple[int, ...]:
        """Return what layers have in common that overlap byte by byte, in every block."""
        where = self.where
        pages = (where.page_bytes, where.block_stride, where.pieces, where.piece_stride)
        return self.address(0), *pages

    def address(self, block: int, page_byte: int = 0) -> int:
        """Return the byte of the allocation that holds a byte of the layer's page of `block`."""
        return self.where.address(self.index, block, page_byte)


def named_layout(plan: Plan, layout: str | None, connector: str | None) -> tuple[Plan, LayoutName]:
    """Return the order that holds, and the plan with it: pages are grouped by it.

    Errors: LayoutError (vLLM: ValueError) for an explicit name that does not suit every backend.
    """
    # resolve_kv_cache_layout in v1/attention/backends/utils.py.
    rules, possible = plan.rules.layouts, possible_layouts(plan)
    requested = plan.settings.kv_cache_layout if layout is None else layout
    name, reason = cache_layout(plan), f"preferred by {plan.backend or 'default'}"
    if requested is not None:
        name, reason = rules.aliases.get(requested, requested), "VLLM_KV_CACHE_LAYOUT"
        packed_order(name)
        if name not in possible:
            raise layout_error(
                "layout_not_supported",
                operands={"layout": requested, "allowed": possible},
                variant="of_layout",
                vllm_text=layout_refusal_text(requested, possible),
                listed=", ".join(possible),
            )
    elif connector := connector or requested_layout(plan):
        # Unlike the variable, a connector's wish that does not suit is dropped in silence.
        wish = rules.aliases.get(connector, connector)
        packed_order(wish)
        fits = wish in possible
        name = wish if fits else name
        reason = f"wish of the KV connector{'' if fits else f' ({wish}) is not available'}"
    if name is None:
        return plan, LayoutName(rules.names[0], "nothing to lay out")
    # Groups depend on the order, so another one may give other groups and other blocks.
    if name != cache_layout(plan):
        plan = resolve(plan.model, replace(plan.settings, kv_cache_layout=name))
    return plan, LayoutName(name, reason)


def layer_places(
    plan: Plan, num_blocks: int, *, layout: str | None = None
) -> tuple[LayerPlace, ...]:
    """Return where every layer is in the allocation, group by group. Errors: LayoutError."""
    # Every group starts again at byte 0: the groups overlap (get_kv_cache_config_from_groups in
    # v1/core/kv_cache_planning.py).
    require_positive(num_blocks, "num_blocks", "block")
    plan, _name = named_layout(plan, layout, None)
    return tuple(
        LayerPlace(name, placed.group, placed.spec, placed.where, index)
        for placed in plan.built_cache().grouping.placements(num_blocks)
        for index, name in enumerate(placed.layers)
    )


def packed_plan_layout(
    plan: Plan,
    num_blocks: int,
    runner: str,
    wishes: tuple[str | None, str | None],
    shown: tuple[int | None, str | None],
) -> CacheViews:
    """Return the views of the first attention layer and of the first SSM layer in the allocation.

    wishes: layout and connector; shown: group and layer, as of `plan_layout`. Errors: LayoutError.
    """
    require_known("runner", runner, RUNNERS, "runner")
    require_positive(num_blocks, "num_blocks", "block")
    plan, name = named_layout(plan, *wishes)
    group, layer = shown
    if plan.model.attention is not None and plan.backend is None:
        raise earlier_failure(plan, "no_valid_backend", "No attention backend can be used.")
    grouping = plan.built_cache().grouping
    states = (one for one, (_group, spec) in grouping.layers.items() if spec.is_mamba)
    names = {
        grouping.shown_attention(group, layer),
        next((one for one in states if layer in {None, one}), None),
    }
    found = [place for place in layer_places(plan, num_blocks) if place.name in names]
    if not found:
        raise LayoutError("no_cache", "Neither attention nor SSM layers: nothing to lay out.")
    return _views(plan, found, name, runner)


def place_views(plan: Plan, found: LayerPlace) -> CacheViews:
    """Return the layer's pages as if consecutive: page b in [b * page, (b + 1) * page)."""
    # A byte map counts so; `LayerPlace.address` gives where a byte of a page really is.
    # Only the order inside of a page is kept.
    inside = "LBNHC" if found.where.name.endswith("NHC") else "LBHNC"
    spec, page = found.spec, found.spec.page_size_bytes
    blocks = found.where.num_blocks
    alone = place(
        inside, spec.view_shape, layers=1, num_blocks=blocks, page_bytes=page, block_bytes=page
    )
    _check_split(plan, found)
    return _views(plan, [replace(found, where=alone, index=0)], LayoutName(inside), V1)


def layout_of(plan: Plan, spec: CacheSpec, layer: str | None = None) -> CacheLayout:
    """Return what the view of a layer holds, as its backend's record has it."""
    name = layer_backend(plan, spec, layer)
    assert name is not None
    found = plan.rules.backends[name].cache
    assert found is not None
    return found


def _views(plan: Plan, found: Sequence[LayerPlace], name: LayoutName, runner: str) -> CacheViews:
    """Return the views of an attention layer, of an SSM layer, or of one of each."""
    where = found[0].where
    built = CacheViews(
        runner=runner, layout=name, raw_bytes=where.allocation_bytes, num_blocks=where.num_blocks
    )
    for one in found:
        add = _with_states if one.spec.is_mamba else _with_attention
        built = add(built, plan, one)
    return built


def _with_states(built: CacheViews, plan: Plan, found: LayerPlace) -> CacheViews:
    pages = state_pages(plan, found.spec)
    return replace(
        built,
        states=packed_states(pages, found.where, layer=found.index),
        state_names=pages.names,
        state_page_bytes=found.spec.page_size_bytes,
        state_place=found.where,
    )


def _with_attention(built: CacheViews, plan: Plan, found: LayerPlace) -> CacheViews:
    kernel = kernel_block(plan, found.group)
    _check_split(plan, found)
    view = packed_view(
        layout_of(plan, found.spec, found.name),
        attention_pages(plan, found.spec),
        found.where,
        kernel_block_size=kernel,
        layer=found.index,
    )
    return replace(
        built,
        attention=view,
        attention_page_bytes=found.spec.page_size_bytes,
        kernel_block_size=kernel,
        kernel_blocks_per_block=found.spec.block_size // kernel,
        block_dim=0,
        order=tuple(axis - 1 for axis in packed_order(built.layout.name) if axis),
        order_is_declared=True,
        attention_place=found.where,
    )


def _check_split(plan: Plan, found: LayerPlace) -> None:
    """Check that the layer's own backend takes the block, where it is next to other layers'."""
    spec, name = found.spec, found.where.name
    if not found.where.is_block_outermost or spec.is_mamba or spec.kind == HIDDEN_SPEC:
        return
    sizes = blocks_of_layers(plan, [(found.name, spec)])
    wanted = common_kernel_block(sizes, spec.block_size)
    backend = layer_backend(plan, spec, found.name) or ""
    check_group_split(name, backend, spec.block_size, wanted or spec.block_size)
