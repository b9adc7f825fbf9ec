"""The layout of a resolved plan where all layers are in one allocation (0.33).

Source: `resolve_kv_cache_layout` in `vllm/v1/attention/backends/utils.py` and
`get_kv_cache_config_from_groups` in `vllm/v1/core/kv_cache_planning.py`, 0.33.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from workbench.core.block_sizes import common_kernel_block
from workbench.core.groups.cache_spec import HIDDEN_SPEC, CacheSpec
from workbench.core.groups.layer_backend import layer_backend, read_blocks
from workbench.core.groups.layer_specs import stored_as
from workbench.core.groups.of_plan import cache_layout, layout_refusal_text, possible_layouts
from workbench.core.layouts.error import LayoutError, require_positive
from workbench.core.layouts.hybrid_rewrite import RUNNER_RULES
from workbench.core.layouts.layer_views import V1, AttentionPages, StatePages, stored_dtype
from workbench.core.layouts.packed_views import check_group_split, packed_states, packed_view
from workbench.core.layouts.placed import PagePlacement, packed_order
from workbench.core.layouts.shapes import CacheGeometry, CacheLayout, LayoutName
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
    rules, possible = plan.rules.layouts, possible_layouts(plan)
    requested = plan.settings.kv_cache_layout if layout is None else layout
    name, reason = cache_layout(plan), f"preferred by {plan.backend or 'default'}"
    if requested is not None:
        name, reason = rules.aliases.get(requested, requested), "VLLM_KV_CACHE_LAYOUT"
        packed_order(name)
        if name not in possible:
            raise LayoutError(
                "layout_not_supported",
                f"VLLM_KV_CACHE_LAYOUT = {requested} does not suit every layer and backend here. "
                f"Allowed: {', '.join(possible)}.",
                field="layout",
                operands={"layout": requested, "allowed": possible},
                vllm_exception="ValueError",
                vllm_text=layout_refusal_text(requested, possible),
            )
    elif connector is not None:
        wish = rules.aliases.get(connector, connector)
        packed_order(wish)
        fits = wish in possible
        name = wish if fits else name
        reason = f"wish of the KV connector{'' if fits else f' ({wish}) is not available'}"
    if name is None:
        return plan, LayoutName(rules.names[0], "nothing to lay out")
    if name != cache_layout(plan):
        settings = replace(plan.settings, kv_cache_layout=name)
        plan = resolve(plan.model, settings)
    return plan, LayoutName(name, reason)


def layout_of(plan: Plan, spec: CacheSpec) -> CacheLayout:
    """Return what the layer's view holds, as its backend's record has it."""
    name = layer_backend(plan, spec)
    assert name is not None
    found = plan.rules.backends[name].cache
    assert found is not None
    return found


def attention_pages(plan: Plan, spec: CacheSpec) -> AttentionPages:
    """Return the geometry that a layer with this spec requests."""
    kept = stored_as(plan, spec)
    return AttentionPages(
        CacheGeometry(spec.block_size, spec.num_kv_heads, spec.head_size, kept),
        stored_dtype(kept, plan.model_dtype),
        spec.content_bytes,
        spec.page_size_bytes if spec.padding_bytes else None,
    )


def state_pages(plan: Plan, spec: CacheSpec) -> StatePages:
    """Return the states of an SSM layer."""
    assert plan.model.state is not None
    return StatePages(
        plan.mamba_state_shapes,
        plan.mamba_state_dtypes,
        spec.page_size_bytes,
        plan.model.state.parts,
    )


def layer_places(
    plan: Plan, num_blocks: int, *, layout: str | None = None, connector: str | None = None
) -> tuple[LayerPlace, ...]:
    """Return where every layer is in the allocation of `num_blocks` blocks, group by group.

    Every group starts again at byte 0: the groups overlap. Errors: LayoutError.
    """
    require_positive(num_blocks, "num_blocks", "block")
    plan, _name = named_layout(plan, layout, connector)
    return tuple(
        LayerPlace(name, placed.group, placed.spec, placed.where, index)
        for placed in plan.built_cache().grouping.placements(num_blocks)
        for index, name in enumerate(placed.layers)
    )


def layer_kernel_block(plan: Plan, name: str, group: int, spec: CacheSpec) -> int:
    """Return the kernel block of a layer's view. Errors: LayoutError where there is none."""
    kernel = plan.built_cache().kernel_block_sizes[group]
    if kernel is None:
        problem = next((p for p in plan.errors if p.code == "no_common_block_size"), None)
        raise LayoutError(
            "no_common_block_size",
            f"No kernel block divides {spec.block_size} tokens. vLLM stops before it builds a "
            "view.",
            field="block_size",
            vllm_text=None if problem is None else problem.vllm_text,
        )
    if name.startswith("B") and not spec.is_mamba and spec.kind != HIDDEN_SPEC:
        wanted = common_kernel_block(read_blocks(plan, (spec,)), spec.block_size)
        check_group_split(
            name, layer_backend(plan, spec) or "", spec.block_size, wanted or spec.block_size
        )
    return kernel


def packed_plan_layout(
    plan: Plan,
    *,
    num_blocks: int,
    runner: str = V1,
    layout: str | None = None,
    connector: str | None = None,
    group: int | None = None,
    layer: str | None = None,
) -> CacheViews:
    """Return the views of the first attention layer and of the first SSM layer in the allocation.

    group: of the attention layer; layer: another one than the first. Errors: LayoutError.
    """
    if runner not in RUNNER_RULES:
        raise LayoutError(
            "unknown_runner", f"runner must be one of {', '.join(RUNNER_RULES)}.", field="runner"
        )
    require_positive(num_blocks, "num_blocks", "block")
    plan, name = named_layout(plan, layout, connector)
    if plan.model.attention is not None and plan.backend is None:
        raise LayoutError(
            "no_valid_backend",
            "No attention backend can be used. vLLM stops before it builds a view.",
            field="backend",
        )
    places = layer_places(plan, num_blocks)
    if not places:
        raise LayoutError("no_cache", "Neither attention nor SSM layers: nothing to lay out.")
    shown = [found for found in places if layer in {None, found.name}]
    attention = next(
        (
            f
            for f in shown
            if not f.spec.is_mamba
            and group in {None, f.group}
            and (layer is not None or not f.spec.is_indexer)
        ),
        None,
    )
    state = next((found for found in shown if found.spec.is_mamba), None)
    first = attention or state
    assert first is not None
    built = CacheViews(
        runner=runner,
        layout=name,
        raw_bytes=first.where.allocation_bytes,
        num_blocks=num_blocks,
        attention=None,
        states=(),
        attention_page_bytes=None if attention is None else attention.spec.page_size_bytes,
        state_page_bytes=None if state is None else state.spec.page_size_bytes,
    )
    if attention is not None:
        built = _with_attention(built, plan, attention)
    if state is None:
        return built
    pages = state_pages(plan, state.spec)
    return replace(
        built,
        states=packed_states(pages, state.where, layer=state.index),
        state_names=pages.names,
        state_place=state.where,
    )


def _with_attention(built: CacheViews, plan: Plan, found: LayerPlace) -> CacheViews:
    kernel = layer_kernel_block(plan, built.layout.name, found.group, found.spec)
    view = packed_view(
        layout_of(plan, found.spec),
        attention_pages(plan, found.spec),
        found.where,
        kernel_block_size=kernel,
        layer=found.index,
    )
    order = packed_order(built.layout.name)
    return replace(
        built,
        attention=view,
        kernel_block_size=kernel,
        kernel_blocks_per_block=found.spec.block_size // kernel,
        block_dim=0,
        order=tuple(axis - 1 for axis in order if axis),
        order_is_declared=True,
        attention_place=found.where,
    )


def place_views(plan: Plan, found: LayerPlace, num_blocks: int) -> CacheViews:
    """Return the layer's pages as if consecutive: page b in [b * page, (b + 1) * page).

    This is what a byte map counts; `LayerPlace.address` gives where a byte of a page really is.
    """
    inside = "LBNHC" if found.where.name.endswith("NHC") else "LBHNC"
    page = found.spec.page_size_bytes
    alone = PagePlacement(
        name=inside,
        num_blocks=num_blocks,
        layers=1,
        offset=0,
        layer_stride=page * num_blocks,
        block_stride=page,
        page_bytes=page,
        allocation_bytes=page * num_blocks,
    )
    built = CacheViews(
        runner=V1,
        layout=LayoutName(inside),
        raw_bytes=alone.allocation_bytes,
        num_blocks=num_blocks,
        attention=None,
        states=(),
        attention_page_bytes=None if found.spec.is_mamba else page,
        state_page_bytes=page if found.spec.is_mamba else None,
    )
    if found.spec.is_mamba:
        pages = state_pages(plan, found.spec)
        states = packed_states(pages, alone)
        return replace(built, states=states, state_names=pages.names)
    kernel = layer_kernel_block(plan, found.where.name, found.group, found.spec)
    view = packed_view(
        layout_of(plan, found.spec),
        attention_pages(plan, found.spec),
        alone,
        kernel_block_size=kernel,
    )
    return replace(
        built,
        attention=view,
        kernel_block_size=kernel,
        kernel_blocks_per_block=found.spec.block_size // kernel,
    )
