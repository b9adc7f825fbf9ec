"""The layout of a resolved plan: which views its layers get of a tensor of some blocks."""

from __future__ import annotations

from workbench.core.backends import Backend
from workbench.core.capacity.blocks import CachePlan
from workbench.core.groups.cache_spec import HIDDEN_SPEC
from workbench.core.layer_query import capability_of
from workbench.core.layouts.error import LayoutError
from workbench.core.layouts.hybrid_rewrite import NEVER
from workbench.core.layouts.layer_views import V1, AttentionPages, StatePages, stored_dtype
from workbench.core.layouts.packed import packed_plan_layout
from workbench.core.layouts.shapes import CacheGeometry
from workbench.core.layouts.shared_tensor import CacheViews, LayoutName, cache_views, layout_name
from workbench.core.plan import Plan
from workbench.core.platforms import PLATFORMS


def plan_layout(
    plan: Plan,
    *,
    num_blocks: int,
    runner: str = V1,
    layout: str | None = None,
    connector: str | None = None,
    rule: str | None = None,
    group: int | None = None,
) -> CacheViews:
    """The views of one tensor of `num_blocks` manager blocks of `plan`.

    layout: the environment variable VLLM_KV_CACHE_LAYOUT, which code may overrule; the plan's own
    `kv_cache_layout` where nothing is said. connector and rule: see `layout_name` and
    `cache_views`. group: which attention group is shown, its place in `plan.cache.groups`; the
    first one where nothing is said. Where all layers have one allocation (0.33) the views are of
    the first layer in it. Errors: LayoutError, also where vLLM stops before it lays out anything.
    """
    cache = plan.cache
    if cache is None:
        raise _earlier_failure(plan, "pages_not_equal", "The pages cannot be made equal.")
    if plan.rules.groups.one_allocation:
        _check_rule(plan, rule)
        return packed_plan_layout(
            plan,
            num_blocks=num_blocks,
            runner=runner,
            layout=layout,
            connector=connector,
            group=group,
        )
    if any(found.spec.kind == HIDDEN_SPEC for found in cache.groups) or (
        not cache.grouping.has_equal_pages
    ):
        raise LayoutError(
            "pages_differ",
            "Layers of this plan have pages of several sizes, or keep hidden states: there is no "
            "one tensor whose views could be shown. The groups and their bytes are in plan.cache.",
            field="hidden_state_layers" if plan.settings.hidden_state_layers else "model",
        )
    states = _states(plan, cache)
    if plan.model.attention is None or plan.attention_page_size_bytes is None:
        if layout is not None or rule is not None:
            raise LayoutError(
                "no_attention",
                f"{plan.model.name} has no attention layer: a layout name and a rewrite rule mean "
                "nothing. Leave both out.",
                field="layout",
            )
        return cache_views(None, None, states, num_blocks=num_blocks, runner=runner)
    if plan.backend is None:
        raise _earlier_failure(plan, "no_valid_backend", "No attention backend can be used.")
    backend = plan.rules.backends[plan.backend]
    attention, kernel = _attention(plan, cache, group)
    return cache_views(
        backend.cache,
        attention,
        states,
        num_blocks=num_blocks,
        kernel_block_size=kernel,
        name=_name(plan, backend, layout, connector),
        runner=runner,
        rule=rule,
    )


def _check_rule(plan: Plan, rule: str | None) -> None:
    if rule in {None, NEVER}:
        return
    raise LayoutError(
        "no_rewrite",
        f"rule = {rule!r}: {plan.rules.title} has no rewrite of strides, since all its views count "
        "blocks first. Leave it out.",
        field="rule",
    )


def _name(plan: Plan, backend: Backend, layout: str | None, connector: str | None) -> LayoutName:
    platform = PLATFORMS[plan.settings.platform]
    capability = capability_of(plan.settings)
    environment = layout or plan.settings.kv_cache_layout
    return layout_name(
        backend, platform.name, capability, environment=environment, connector=connector
    )


def _attention(plan: Plan, cache: CachePlan, asked: int | None) -> tuple[AttentionPages, int]:
    assert plan.model.attention is not None
    spec, kernel = next(
        (group.spec, kernel)
        for number, (group, kernel) in enumerate(
            zip(cache.groups, cache.kernel_block_sizes, strict=True)
        )
        if not group.spec.is_mamba and asked in {None, number}
    )
    if kernel is None:
        raise _earlier_failure(
            plan, "no_common_block_size", f"No kernel block divides {spec.block_size} tokens."
        )
    geometry = CacheGeometry(
        spec.block_size,
        plan.model.attention.kv_heads_per_rank(plan.settings.tensor_parallel),
        plan.model.attention.head_size,
        plan.kv_cache_dtype,
    )
    dtype = stored_dtype(plan.kv_cache_dtype, plan.model_dtype)
    return AttentionPages(geometry, dtype, spec.page_size_bytes), kernel


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
    """What stops vLLM before any tensor exists, in the words of the plan's own problem."""
    problem = next((found for found in plan.errors if found.code == code), None)
    return LayoutError(
        code,
        f"{otherwise if problem is None else problem.message} vLLM stops before it builds a view.",
        field="block_size" if problem is None else problem.field,
        vllm_text=None if problem is None else problem.vllm_text,
    )
