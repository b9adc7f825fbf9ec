"""What every byte of every KV-cache tensor of a plan is, and where everything is.

    pool = byte_map(plan, num_blocks=3)
    pool.at(tensor=0, byte=4711)                    # one meaning for every group that shares it
    pool.bytes_of(layer="model.layers.9.attn", block=1, part="K", token=5, head=0)

A tensor is shared by one layer of every group, and a block of it is attention or state at any time:
so a byte has one meaning a group. Tensors may have pages of several sizes. Where all layers have
one allocation (0.33) a tensor is a place in it: the pages of one layer of every group, block by
block; `ByteMap.address` gives the real position of a byte. Where groups with pages of several sizes
overlap there, a layer's place is its own, and `ByteMap.at` names what else is in the
same bytes. Sources: `cache_plan` for groups and tensors, `plan_layout` for views, `parts` for what
is inside a block.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from workbench.core.byte_map.groups import GroupBytes
from workbench.core.byte_map.parts import attention_parts, state_parts
from workbench.core.byte_map.tensors import ByteMap, TensorBytes
from workbench.core.capacity.cache_plan import CachePlan
from workbench.core.groups.cache_spec import CacheSpec
from workbench.core.groups.layer_specs import stored_as
from workbench.core.layouts.error import LayoutError, require_positive
from workbench.core.layouts.layer_views import V1
from workbench.core.layouts.of_plan import plan_layout
from workbench.core.layouts.packed import layer_places, named_layout, place_views
from workbench.core.layouts.shapes import CacheGeometry
from workbench.core.layouts.shared_tensor import CacheViews
from workbench.core.plan import Plan

__all__ = ["ByteMap", "byte_map"]


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
    cache = plan.cache
    if num_blocks is None:
        num_blocks = None if cache is None else cache.num_blocks
    if num_blocks is None:
        raise LayoutError(
            "num_blocks_unknown",
            "Cache memory is unknown. Pass num_blocks or set kv_cache_memory_bytes.",
            field="num_blocks",
        )
    require_positive(num_blocks, "num_blocks", "block")
    options: dict[str, Any] = {"num_blocks": num_blocks, "runner": runner, "layout": layout}
    options |= {"connector": connector, "rule": rule}
    shown = plan_layout(plan, **options)
    if plan.rules.groups.one_allocation:
        return _packed_map(plan, shown, options)
    assert cache is not None
    layers = _Layers(plan, cache, lambda name: plan_layout(plan, **options, layer=name))
    tensors = tuple(
        TensorBytes(slot.page_size_bytes, num_blocks, tuple(map(layers.bytes_of, slot.shared_by)))
        for slot in cache.grouping.slots
    )
    return ByteMap(tensors, num_blocks, shown)


def _packed_map(plan: Plan, shown: CacheViews, options: Mapping[str, Any]) -> ByteMap:
    """Return the map of one allocation, with every layer's pages counted as consecutive."""
    blocks, layout, connector = (options[name] for name in ("num_blocks", "layout", "connector"))
    plan, _name = named_layout(plan, layout, connector)
    cache = plan.built_cache()
    places = {found.name: found for found in layer_places(plan, blocks)}
    layers = _Layers(plan, cache, lambda name: place_views(plan, places[name], blocks))
    together: dict[object, list[str]] = {}
    for name in layers.specs:
        together.setdefault(places[name].spot, []).append(name)
    tensors = tuple(
        TensorBytes(
            layers.specs[names[0]][1].page_size_bytes, blocks, tuple(map(layers.bytes_of, names))
        )
        for names in together.values()
    )
    return ByteMap(tensors, blocks, shown, places)


class _Layers:
    """The layers of a plan and their bytes; those of one group with one spec have the same views.

    views: the views that a layer has of its tensor.
    """

    def __init__(self, plan: Plan, cache: CachePlan, views: Callable[[str], CacheViews]) -> None:
        self._plan, self._kinds, self._views = plan, [group.kind for group in cache.groups], views
        self.specs = {
            name: (number, spec)
            for number, group in enumerate(cache.groups)
            for name, spec in zip(group.layers, group.layer_specs, strict=True)
        }
        self._known: dict[tuple[int, CacheSpec], GroupBytes] = {}

    def bytes_of(self, name: str) -> GroupBytes:
        """Return the layer as it fills its tensor."""
        number, spec = self.specs[name]
        if (known := self._known.get((number, spec))) is None:
            views, kind = self._views(name), self._kinds[number]
            known = _layer_bytes(self._plan, number, kind, spec, name, views)
            self._known[number, spec] = known
        return replace(known, layer=name)


def _layer_bytes(
    plan: Plan, number: int, kind: str, spec: CacheSpec, name: str, views: CacheViews
) -> GroupBytes:
    page = spec.page_size_bytes
    if spec.is_mamba:
        parts = state_parts(views.states, views.state_names)
        return GroupBytes(
            number=number,
            kind=kind,
            layer=name,
            parts=parts,
            page_bytes=page,
            raw_bytes=views.raw_bytes,
        )
    assert views.attention is not None
    assert views.kernel_block_size is not None
    geometry = CacheGeometry(
        views.kernel_block_size,
        spec.num_kv_heads,
        spec.head_size,
        stored_as(plan, spec),
    )
    attention = plan.model.attention
    rope = None if attention is None or spec.is_indexer else attention.qk_rope_head_dim
    return GroupBytes(
        number=number,
        kind=kind,
        layer=name,
        parts=attention_parts(views.attention, geometry, rope),
        page_bytes=page,
        raw_bytes=views.raw_bytes,
        kernel_blocks=views.kernel_blocks_per_block,
        kernel_tokens=views.kernel_block_size,
        rewritten=views.rewritten,
    )
