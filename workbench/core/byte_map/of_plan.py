"""What every byte of every KV-cache tensor of a plan is, and where everything is.

    pool = byte_map(plan, num_blocks=3)
    pool.at(tensor=0, byte=4711)                    # one meaning for every group that shares it
    pool.bytes_of(layer="model.layers.9.attn", block=1, part="K", token=5, head=0)

A tensor is shared by one layer of every group, so a byte has one meaning per group. In the one
allocation of 0.33 a tensor is a place: the pages of one layer of every group, block by block.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from workbench.core.byte_map.cuts import plain
from workbench.core.byte_map.groups import GroupBytes
from workbench.core.byte_map.parts import attention_parts
from workbench.core.byte_map.tensors import ByteMap, TensorBytes
from workbench.core.groups.cache_spec import CacheSpec
from workbench.core.groups.layer_specs import cache_geometry, stored_as
from workbench.core.layouts.error import layout_error, require_positive
from workbench.core.layouts.layer_pages import earlier_failure
from workbench.core.layouts.layer_views import V1
from workbench.core.layouts.of_plan import plan_layout
from workbench.core.layouts.packed import LayerPlace, layer_places, named_layout, place_views
from workbench.core.layouts.shared_tensor import CacheViews
from workbench.core.plan import Plan


def byte_map(
    plan: Plan,
    *,
    num_blocks: int | None = None,
    runner: str = V1,
    layout: str | None = None,
    connector: str | None = None,
    rule: str | None = None,
) -> ByteMap:
    """Return the byte map of `plan` for `num_blocks` manager blocks, by default the plan's own.

    The other options are those of `plan_layout`. Errors: LayoutError, also where vLLM stops before
    it lays out anything, and where a wrong rule gives views with ambiguous bytes.
    """
    if num_blocks is None and plan.cache is not None:
        num_blocks = plan.cache.num_blocks
    if num_blocks is None:
        raise layout_error("num_blocks_unknown")
    require_positive(num_blocks, "num_blocks", "block")
    if (code := "draft_backend_not_valid") in {found.code for found in plan.errors}:
        raise earlier_failure(plan, code, "")
    options: dict[str, Any] = {"num_blocks": num_blocks, "runner": runner, "layout": layout}
    options |= {"connector": connector, "rule": rule}
    shown = plan_layout(plan, **options)
    places: dict[str, LayerPlace] = {}
    if plan.rules.groups.one_allocation:
        plan, _name = named_layout(plan, layout, connector)
        places = {found.name: found for found in layer_places(plan, num_blocks)}
    known: dict[tuple[int, CacheSpec], GroupBytes] = {}
    layers = plan.built_cache().grouping.layers

    def bytes_of(name: str) -> GroupBytes:
        # Layers of one group with one spec have the same views.
        if (key := layers[name]) not in known:
            at = places.get(name)
            views = place_views(plan, at) if at else plan_layout(plan, **options, layer=name)
            known[key] = _layer_bytes(plan, *key, name, views)
        return replace(known[key], layer=name)

    tensors = tuple(
        TensorBytes(layers[names[0]][1].page_size_bytes, num_blocks, tuple(map(bytes_of, names)))
        for names in _sharing(plan, places)
    )
    return ByteMap(tensors, num_blocks, shown, places)


def _sharing(plan: Plan, places: dict[str, LayerPlace]) -> Iterable[tuple[str, ...]]:
    """Return the layers of each tensor: of one slot, or of one place in the one allocation."""
    grouping = plan.built_cache().grouping
    if not places:
        return [slot.shared_by for slot in grouping.slots]
    # Where groups with pages of several sizes overlap, a layer's place is its own, and
    # `ByteMap.at` names what else is in the same bytes.
    together: dict[tuple[int, ...], tuple[str, ...]] = {}
    for name in grouping.layers:
        spot = places[name].spot
        together[spot] = (*together.get(spot, ()), name)
    return together.values()


def _layer_bytes(
    plan: Plan, number: int, spec: CacheSpec, name: str, views: CacheViews
) -> GroupBytes:
    found = GroupBytes(
        number=number,
        kind=plan.built_cache().groups[number].kind,
        layer=name,
        parts=(),
        page_bytes=spec.page_size_bytes,
        raw_bytes=views.raw_bytes,
    )
    if spec.is_mamba:
        return replace(found, parts=tuple(plain(*state) for state in views.named_states))
    assert views.attention is not None
    assert views.kernel_block_size is not None
    attention = plan.model.attention
    rope = None if attention is None or spec.is_indexer else attention.qk_rope_head_dim
    geometry = cache_geometry(plan, spec, stored_as(plan, spec))
    return replace(
        found,
        parts=attention_parts(views.attention, geometry, rope),
        tokens_per_state=spec.tokens_per_state,
        kernel_blocks=views.kernel_blocks_per_block,
        kernel_tokens=views.kernel_block_size,
        rewritten=views.rewritten,
    )
