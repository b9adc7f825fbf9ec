"""The layout of a resolved plan: which views its layers get of a tensor of some blocks."""

from workbench.core.errors import cut
from workbench.core.groups.layer_backend import layer_backend
from workbench.core.kv_connectors import requested_layout
from workbench.core.layouts.error import layout_error, require_known
from workbench.core.layouts.hybrid_rewrite import NEVER
from workbench.core.layouts.layer_pages import (
    attention_pages,
    earlier_failure,
    kernel_block,
    state_pages,
)
from workbench.core.layouts.layer_views import V1
from workbench.core.layouts.packed import packed_plan_layout
from workbench.core.layouts.shapes import LayoutName
from workbench.core.layouts.shared_tensor import CacheViews, cache_views, layout_name
from workbench.core.plan import Plan


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
    cache = plan.kept_cache
    if cache is None:
        if plan.cache is not None:
            raise layout_error("keeps_no_cache", plan=plan)
        raise earlier_failure(plan, "pages_not_equal", "The pages cannot be made equal.")
    layers = cache.grouping.layers
    if layer is not None:
        require_known("layer", layer, layers, "layer")
    if plan.rules.groups.one_allocation:
        if rule not in {None, NEVER}:
            raise layout_error("no_rewrite", given=cut(repr(rule)), plan=plan)
        return packed_plan_layout(plan, num_blocks, runner, (layout, connector), (group, layer))
    specs = [spec for _group, spec in layers.values() if spec.is_mamba]
    states = state_pages(plan, specs[0]) if specs and plan.model.state is not None else None
    shown = cache.grouping.shown_attention(group, layer)
    if shown is None:
        if layer is None and (layout is not None or rule is not None):
            raise layout_error("no_attention", plan=plan)
        return cache_views(None, None, states, num_blocks=num_blocks, runner=runner)
    number, spec = layers[shown]
    backend = layer_backend(plan, spec, shown)
    if backend is None:
        raise earlier_failure(plan, "no_valid_backend", "No attention backend can be used.")
    return cache_views(
        plan.rules.backends[backend].cache,
        attention_pages(plan, spec),
        states,
        num_blocks=num_blocks,
        kernel_block_size=kernel_block(plan, number),
        name=_name(plan, layout, connector),
        runner=runner,
        rule=rule,
    )


def _name(plan: Plan, layout: str | None, connector: str | None) -> LayoutName:
    # One backend that forces a name does so for the layers of the other, too.
    names = plan.attention_backends
    return layout_name(
        [plan.rules.backends[name] for name in names],
        plan.platform.name,
        plan.capability,
        environment=layout or plan.settings.kv_cache_layout,
        connector=connector or requested_layout(plan),
    )
