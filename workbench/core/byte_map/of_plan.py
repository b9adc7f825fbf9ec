"""What every byte of every KV-cache tensor of a plan is, and where everything lies.

    pool = byte_map(plan, num_blocks=3)
    pool.at(tensor=0, byte=4711)                    # one meaning for every group that shares it
    pool.bytes_of(layer="model.layers.9.attn", block=1, part="K", token=5, head=0)

A tensor is shared by one layer of every group, and a block of it is attention or state at any time:
so a byte has one meaning a group. Where all layers have one allocation (0.33) a tensor is a place
in it: the pages of one layer of every group, block by block; `ByteMap.address` tells where a byte
really lies. Sources: `cache_plan` for groups and tensors, `plan_layout` for views,
`byte_map_parts` for what lies inside a block.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from workbench.core.byte_map.groups import GroupBytes, Meaning
from workbench.core.byte_map.parts import attention_parts, state_parts
from workbench.core.capacity.blocks import CachePlan
from workbench.core.errors import unknown_name_message
from workbench.core.groups.decision import Group
from workbench.core.groups.layer_specs import CacheSpec
from workbench.core.layouts.error import LayoutError, require_positive
from workbench.core.layouts.layer_views import V1
from workbench.core.layouts.of_plan import plan_layout
from workbench.core.layouts.packed import (
    LayerPlace,
    layer_places,
    named_layout,
    place_views,
)
from workbench.core.layouts.shapes import CacheGeometry
from workbench.core.layouts.shared_tensor import CacheViews
from workbench.core.plan import Plan


@dataclass(frozen=True, slots=True)
class ByteMeaning:
    """One byte of one tensor: whose page it lies in, and what it is to each group.

    page: the manager block whose bytes these are; page_byte: counted from the page's first.
    """

    tensor: int
    byte: int
    page: int
    page_byte: int
    meanings: tuple[Meaning, ...]

    def of_group(self, group: int) -> Meaning:
        """What the byte is to `group`. Errors: KeyError where the group does not see the tensor."""
        return {meaning.group: meaning for meaning in self.meanings}[group]


@dataclass(frozen=True)
class ByteMap:
    """The bytes of all tensors of a plan; all tensors are laid out alike.

    groups: in the order of the plan. tensors: how many there are, raw_bytes each. views: of the
    first attention group (of the states where there is none), with layout name and rewrite.
    places: where each layer lies in the one allocation; empty where every tensor is one.
    """

    groups: tuple[GroupBytes, ...]
    tensors: int
    num_blocks: int
    raw_bytes: int
    views: CacheViews
    places: Mapping[str, LayerPlace] = field(default_factory=dict)

    def address(self, layer: str, byte: int) -> int:
        """Where a byte of the layer's tensor lies: in the one allocation, else in the tensor.

        Errors: LayoutError for a layer or a byte that does not exist.
        """
        self._find(layer)
        _check("byte", byte, self.raw_bytes)
        if layer not in self.places:
            return byte
        return self.places[layer].address(*divmod(byte, self.page_bytes))

    @property
    def page_bytes(self) -> int:
        """Bytes of one manager block in one tensor."""
        return self.raw_bytes // self.num_blocks

    @property
    def misplaced_bytes(self) -> int:
        """Bytes of a tensor's blocks that lie in another block's page, attention and states."""
        return self.views.misplaced_attention_bytes + self.views.misplaced_state_bytes

    @cached_property
    def layers(self) -> dict[str, tuple[GroupBytes, int]]:
        """Layer -> its group and its tensor."""
        return {
            layer: (group, tensor)
            for group in self.groups
            for tensor, layer in enumerate(group.layers)
        }

    def sharing(self, tensor: int) -> tuple[GroupBytes, ...]:
        """The groups that have a layer in `tensor`. Errors: LayoutError."""
        _check("tensor", tensor, self.tensors)
        return tuple(group for group in self.groups if group.layer(tensor) is not None)

    def at(self, tensor: int, byte: int) -> ByteMeaning:
        """What `byte` of `tensor` is. Errors: LayoutError for one that does not exist."""
        sharing = self.sharing(tensor)
        _check("byte", byte, self.raw_bytes)
        page, page_byte = divmod(byte, self.page_bytes)
        meanings = tuple(group.meaning(byte, tensor) for group in sharing)
        return ByteMeaning(tensor, byte, page, page_byte, meanings)

    def tensor_of(self, layer: str) -> int:
        """The tensor that `layer` sees. Errors: LayoutError names the nearest layers."""
        return self._find(layer)[1]

    def bytes_of(
        self,
        *,
        layer: str,
        block: int,
        kernel_block: int | None = None,
        part: str | None = None,
        token: int | None = None,
        head: int | None = None,
        value: int | None = None,
    ) -> tuple[range, ...]:
        """The bytes of `layer`'s tensor that hold this, ascending; the inverse of `at`.

        token: in the kernel block where one is named, else in the manager block. value: of one
        token and head, or of one state, counted over all of its dimensions.
        Errors: LayoutError for a layer, part or number that does not exist.
        """
        group, _tensor = self._find(layer)
        _check("block", block, self.num_blocks)
        names = (*(known.name for known in group.parts), "padding")
        if part is not None and part not in names:
            raise LayoutError("unknown_part", unknown_name_message("part", part, names))
        if kernel_block is not None:
            _check("kernel_block", kernel_block, group.kernel_blocks)
        if token is not None:
            if group.kernel_tokens is None:
                raise LayoutError("no_tokens", f"{layer} keeps a state, no tokens.", field="token")
            tokens = group.kernel_tokens * (1 if kernel_block is not None else group.kernel_blocks)
            _check("token", token, tokens)
        if value is not None:
            chosen = [known.values for known in group.parts if part in {None, known.name}]
            _check("value", value, max(chosen, default=0))
        return group.ranges(
            block, kernel_block=kernel_block, part=part, token=token, head=head, value=value
        )

    def _find(self, layer: str) -> tuple[GroupBytes, int]:
        if layer not in self.layers:
            message = unknown_name_message("layer", layer, self.layers)
            raise LayoutError("unknown_layer", message, field="layer")
        return self.layers[layer]


def byte_map(
    plan: Plan,
    *,
    num_blocks: int | None = None,
    runner: str = V1,
    layout: str | None = None,
    connector: str | None = None,
    rule: str | None = None,
) -> ByteMap:
    """The byte map of `plan` for `num_blocks` manager blocks; the plan's own where it has some.

    The other options are those of `plan_layout`. Errors: LayoutError, also where vLLM stops before
    it lays out anything, and where a wrong rule gives views that have no single meaning.
    """
    cache = plan.cache
    if num_blocks is None:
        num_blocks = None if cache is None else cache.num_blocks
    if num_blocks is None:
        raise LayoutError(
            "num_blocks_unknown",
            "The plan does not know how much memory the cache has: say num_blocks, or set "
            "kv_cache_memory_bytes.",
            field="num_blocks",
        )
    require_positive(num_blocks, "num_blocks", "block")
    options: dict[str, Any] = {"num_blocks": num_blocks, "runner": runner, "layout": layout}
    options |= {"connector": connector, "rule": rule}
    if cache is None or not cache.groups:
        views = plan_layout(plan, **options)  # raises: nothing can be laid out
        raise LayoutError("no_cache", f"No group has a layer: nothing to map in {views}.")
    _check_equal_pages(cache)
    if plan.rules.groups.one_allocation:
        return _packed_map(plan, options)
    by_spec: dict[CacheSpec, CacheViews] = {}
    for number, group in enumerate(cache.groups):
        if group.spec not in by_spec:
            attention = None if group.spec.is_mamba else number
            by_spec[group.spec] = plan_layout(plan, **options, group=attention)
    groups = tuple(
        _group_bytes(plan, number, group, by_spec[group.spec])
        for number, group in enumerate(cache.groups)
    )
    shown = next(
        (by_spec[group.spec] for group in cache.groups if not group.spec.is_mamba),
        by_spec[cache.groups[0].spec],
    )
    return ByteMap(groups, cache.grouping.group_size, num_blocks, shown.raw_bytes, shown)


def _check_equal_pages(cache: CachePlan) -> None:
    if cache.grouping.has_equal_pages:
        return
    pages = sorted({slot.page_size_bytes for slot in cache.grouping.slots})
    raise LayoutError(
        "pages_differ",
        f"The layers have pages of {', '.join(f'{page:,}' for page in pages)} bytes; the byte map "
        "takes layers with equal pages. The views of each layer can be had all the same.",
        field="block_size",
        operands={"page_size_bytes": pages},
    )


def _packed_map(plan: Plan, options: Mapping[str, Any]) -> ByteMap:
    """The map of one allocation: every layer's pages counted as if they followed each other."""
    blocks, layout, connector = (options[name] for name in ("num_blocks", "layout", "connector"))
    shown = plan_layout(plan, **options)
    plan, _name = named_layout(plan, layout, connector)
    cache = plan.built_cache()
    _check_equal_pages(cache)
    places = {found.name: found for found in layer_places(plan, blocks)}
    groups = []
    for number, group in enumerate(cache.groups):
        views = place_views(plan, places[group.layers[0]], blocks)
        groups.append(_group_bytes(plan, number, group, views))
    raw_bytes = cache.grouping.page_size_bytes * blocks
    return ByteMap(
        tuple(groups), max(len(g.layers) for g in groups), blocks, raw_bytes, shown, places
    )


def _group_bytes(plan: Plan, number: int, group: Group, views: CacheViews) -> GroupBytes:
    page = views.raw_bytes // views.num_blocks
    if group.spec.is_mamba:
        parts = state_parts(views.states, views.state_names)
        return GroupBytes(number, group.spec.kind, group.layers, parts, page, views.raw_bytes)
    attention = plan.model.attention
    assert attention is not None
    assert views.attention is not None
    assert views.kernel_block_size is not None
    geometry = CacheGeometry(
        views.kernel_block_size,
        group.spec.num_kv_heads or attention.kv_heads_per_rank(plan.settings.tensor_parallel),
        group.spec.head_size or attention.head_size,
        group.spec.stored or plan.kv_cache_dtype,
    )
    return GroupBytes(
        number,
        group.kind,
        group.layers,
        attention_parts(views.attention, geometry, attention.qk_rope_head_dim),
        page,
        views.raw_bytes,
        views.kernel_blocks_per_block,
        views.kernel_block_size,
    )


def _check(field: str, number: int, count: int) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < count:
        nearest = 0 if not isinstance(number, int) or number < 0 else count - 1
        raise LayoutError(
            "index_outside",
            f"{field} = {number!r} does not exist: there are {count:,}, counted from 0. "
            f"Nearest valid: {nearest}.",
            field=field,
            operands={"index": number, "size": count},
        )
