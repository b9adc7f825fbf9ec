"""The layout of a resolved plan: which views its layers get of a tensor of some blocks."""

from __future__ import annotations

from workbench.core.capacity.cache_plan import CachePlan
from workbench.core.errors import unknown_name_message
from workbench.core.groups.cache_spec import CacheSpec
from workbench.core.groups.layer_backend import layer_backend
from workbench.core.groups.layer_specs import stored_as
from workbench.core.layouts.error import LayoutError
from workbench.core.layouts.hybrid_rewrite import NEVER
from workbench.core.layouts.layer_views import V1, AttentionPages, StatePages, stored_dtype
from workbench.core.layouts.packed import packed_plan_layout
from workbench.core.layouts.shapes import CacheGeometry
from workbench.core.layouts.shared_tensor import CacheViews, LayoutName, cache_views, layout_name
from workbench.core.plan import Plan
from workbench.core.platforms import PLATFORMS, capability_of


def plan_layout(
    plan: Plan,
    *,
    num_blocks: int,
    runner: str = V1,
    layout: str | None = None,
    connector: str | None = None,
    rule: str | None = None,
    group: int | None = None,
    layer: str | None = None,
) -> CacheViews:
    """Return the views of one tensor of `num_blocks` manager blocks of `plan`.

    layout: the environment variable VLLM_KV_CACHE_LAYOUT, which code may overrule; the plan's own
    `kv_cache_layout` where nothing is said. connector and rule: see `layout_name` and
    `cache_views`. layer: whose tensor it is; group: of which group the attention layer is, its
    place in `plan.cache.groups`; the first one where nothing is said. Where all layers have one
    allocation (0.33) the views are of that layer in it. Errors: LayoutError, also where vLLM stops
    before it lays out anything.
    """
    cache = plan.cache
    if cache is None:
        raise _earlier_failure(plan, "pages_not_equal", "The pages cannot be made equal.")
    if layer is not None and layer not in (names := layer_names(cache)):
        raise LayoutError(
            "unknown_layer", unknown_name_message("layer", layer, names), field="layer"
        )
    if plan.rules.groups.one_allocation:
        _check_rule(plan, rule)
        return packed_plan_layout(
            plan,
            num_blocks=num_blocks,
            runner=runner,
            layout=layout,
            connector=connector,
            group=group,
            layer=layer,
        )
    shown, states = _shown(cache, group, layer), _states(plan, cache)
    if shown is None:
        if layer is None and (layout is not None or rule is not None):
            raise LayoutError(
                "no_attention",
                f"{plan.model.name} has no attention layer: a layout name and a rewrite rule mean "
                "nothing. Leave both out.",
                field="layout",
            )
        return cache_views(None, None, states, num_blocks=num_blocks, runner=runner)
    number, spec = shown
    name = layer_backend(plan, spec)
    if name is None:
        raise _earlier_failure(plan, "no_valid_backend", "No attention backend can be used.")
    return cache_views(
        plan.rules.backends[name].cache,
        _attention(plan, spec),
        states,
        num_blocks=num_blocks,
        kernel_block_size=_kernel_block(plan, cache, number),
        name=_name(plan, layout, connector),
        runner=runner,
        rule=rule,
    )


def _check_rule(plan: Plan, rule: str | None) -> None:
    if rule in {None, NEVER}:
        return
    raise LayoutError(
        "no_rewrite",
        f"rule = {rule!r}: {plan.rules.title} has no rewrite of strides, since all its views count "
        "blocks first. Omit it.",
        field="rule",
    )


def layer_names(cache: CachePlan) -> tuple[str, ...]:
    """Return every layer that keeps a cache, group by group."""
    return tuple(name for group in cache.groups for name in group.layers)


def _shown(
    cache: CachePlan, requested: int | None, layer: str | None
) -> tuple[int, CacheSpec] | None:
    """Return group and spec of the attention layer that is meant; None for states, and without one.

    An indexer is shown only where it is named.
    """
    return next(
        (
            (number, spec)
            for number, group in enumerate(cache.groups)
            for name, spec in zip(group.layers, group.layer_specs, strict=True)
            if not spec.is_mamba
            and requested in {None, number}
            and (name == layer if layer is not None else not spec.is_indexer)
        ),
        None,
    )


def _name(plan: Plan, layout: str | None, connector: str | None) -> LayoutName:
    """Return the layout name of all layers.

    One backend that forces it does so for the others too.
    """
    names = dict.fromkeys(filter(None, (plan.backend, plan.plain_backend)))
    return layout_name(
        [plan.rules.backends[name] for name in names],
        PLATFORMS[plan.settings.platform].name,
        capability_of(plan.settings),
        environment=layout or plan.settings.kv_cache_layout,
        connector=connector,
    )


def _attention(plan: Plan, spec: CacheSpec) -> AttentionPages:
    """Return the geometry of the layer.

    Its backend gets the cache dtype of the other layers all the same.
    """
    geometry = CacheGeometry(
        spec.block_size, spec.num_kv_heads, spec.head_size, plan.kv_cache_dtype
    )
    return AttentionPages(
        geometry,
        stored_dtype(stored_as(plan, spec), plan.model_dtype),
        spec.content_bytes,
        spec.page_size_bytes if spec.padding_bytes else None,
    )


def _kernel_block(plan: Plan, cache: CachePlan, group: int) -> int:
    kernel = cache.kernel_block_sizes[group]
    if kernel is None:
        block = cache.groups[group].spec.block_size
        raise _earlier_failure(
            plan, "no_common_block_size", f"No kernel block divides {block} tokens."
        )
    return kernel


def _states(plan: Plan, cache: CachePlan) -> StatePages | None:
    specs = [group.spec for group in cache.groups if group.spec.is_mamba]
    if not specs or plan.model.state is None:
        return None
    return StatePages(
        plan.mamba_state_shapes,
        plan.mamba_state_dtypes,
        specs[0].page_size_bytes,
        plan.model.state.parts,
    )


def _earlier_failure(plan: Plan, code: str, otherwise: str) -> LayoutError:
    """Return the plan's own problem that stops vLLM before any tensor exists."""
    problem = next((found for found in plan.errors if found.code == code), None)
    return LayoutError(
        code,
        f"{otherwise if problem is None else problem.message} vLLM stops before it builds a view.",
        field="block_size" if problem is None else problem.field,
        vllm_text=None if problem is None else problem.vllm_text,
    )
