"""The groups that the layers of a model end up in, and where their pages are."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from math import gcd, lcm
from typing import TypeVar

from workbench.core.arithmetic import round_up
from workbench.core.groups.cache_spec import CacheSpec
from workbench.core.layouts.placed import PagePlacement, place

Value = TypeVar("Value")

UNIFORM_KIND = "UniformTypeKVCacheSpecs"
"""vLLM's class for layers of one type whose pages differ."""


@dataclass(frozen=True)
class Group:
    """Layers that share one block table. `padding_layers`: slots without a layer.

    spec: of every layer; where the layers have a spec each (`own_specs`, in their order), that of
    the first, which is the one that vLLM's scheduler goes by.
    """

    # Most groups have one spec, and a resolution asks for their sizes again and again: they are
    # then a product, not a sum over the layers.
    spec: CacheSpec
    layers: tuple[str, ...]
    padding_layers: int = 0
    own_specs: tuple[CacheSpec, ...] = ()

    @property
    def kind(self) -> str:
        """Return the class of the group's spec, as vLLM names it."""
        return UNIFORM_KIND if self.own_specs else self.spec.kind

    @property
    def layer_specs(self) -> tuple[CacheSpec, ...]:
        """Return the spec of every layer."""
        return self.own_specs or (self.spec,) * len(self.layers)

    @cached_property
    def different_specs(self) -> tuple[CacheSpec, ...]:
        """Return every spec that some layer has, once."""
        return tuple(dict.fromkeys(self.own_specs)) or (self.spec,)

    @property
    def is_found_again(self) -> bool:
        """Return whether prefix caching and stores keep the blocks (prefix_cacheable)."""
        return all(spec.is_found_again for spec in self.different_specs)

    @property
    def layers_by_spec(self) -> Sequence[tuple[CacheSpec, int]]:
        """Return (spec, how many layers have it) of every spec."""
        if not self.own_specs:
            return ((self.spec, len(self.layers)),)
        return tuple(Counter(self.own_specs).items())

    @property
    def page_size_bytes(self) -> int:
        """Return what vLLM calls the page of the group: of one layer, or of all with own specs."""
        return self.layers_bytes if self.own_specs else self.spec.page_size_bytes

    @property
    def layers_by_page(self) -> Sequence[tuple[int, int]]:
        """Return (page in bytes, how many layers have it) of every size."""
        if not self.own_specs:
            return ((self.spec.page_size_bytes, len(self.layers)),)
        return tuple(Counter(spec.page_size_bytes for spec in self.own_specs).items())

    @property
    def layers_bytes(self) -> int:
        """Return the bytes of one block over the layers of this group, without empty slots."""
        if not self.own_specs:
            return self.spec.page_size_bytes * len(self.layers)
        return sum(spec.page_size_bytes for spec in self.own_specs)


def group_of(specs: Mapping[str, CacheSpec]) -> Group:
    """Return the group of layers of one type with a spec each."""
    layers = tuple(specs.values())
    return Group(layers[0], tuple(specs), own_specs=layers)


@dataclass(frozen=True, slots=True)
class Tensor:
    """One allocation, or a block of it: its bytes and its layers, one of every group."""

    size_bytes: int
    shared_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Placement:
    """Where layers of one spec of one group are in the one allocation of 0.33."""

    group: int
    spec: CacheSpec
    layers: tuple[str, ...]
    where: PagePlacement


@dataclass(frozen=True)
class Grouping:
    """The groups of a model, and why they are what they are.

    group_size: slots of a group, which is also the number of tensors; the layers of the largest
    group in one allocation. layout: the order in which that is laid out (0.33), None where every
    slot has a tensor. notes: what vLLM logs while it groups.
    """

    groups: tuple[Group, ...]
    group_size: int
    reason: str
    layout: str | None = None
    notes: tuple[str, ...] = ()

    def __hash__(self) -> int:
        return hash((self.group_size, self.bytes_per_block, self.block_multiple_tokens))

    @cached_property
    def layers(self) -> dict[str, tuple[int, CacheSpec]]:
        """Return layer -> the number of its group, and its spec."""
        return {
            name: (number, spec)
            for number, group in enumerate(self.groups)
            for name, spec in zip(group.layers, group.layer_specs, strict=True)
        }

    def shown_attention(self, group: int | None = None, layer: str | None = None) -> str | None:
        """Return the first attention layer, of `group`, or `layer` itself; None for states."""
        # An indexer is shown only where it is named.
        for name, (number, spec) in self.layers.items():
            named = name == layer if layer is not None else not spec.is_indexer
            if named and not spec.is_mamba and group in {None, number}:
                return name
        return None

    @cached_property
    def examples(self) -> tuple[Group, ...]:
        """Return one group for all with the same specs."""
        return tuple({(group.spec, group.own_specs): group for group in self.groups}.values())

    @cached_property
    def example_of(self) -> tuple[int, ...]:
        """Return the number of each group's example."""
        specs = [(group.spec, group.own_specs) for group in self.examples]
        return tuple(specs.index((group.spec, group.own_specs)) for group in self.groups)

    def of_each(self, values: Sequence[Value]) -> tuple[Value, ...]:
        """Return a value for each group, of one for each example."""
        return tuple([values[number] for number in self.example_of])

    @cached_property
    def group_pages(self) -> tuple[int, ...]:
        """Return the page of each group, in bytes."""
        return tuple(group.page_size_bytes for group in self.groups)

    @cached_property
    def has_layer_tuples(self) -> bool:
        """Return whether there are several groups of layers with a spec each."""
        return len(self.groups) > 1 and all(group.own_specs for group in self.groups)

    @cached_property
    def block_multiple_tokens(self) -> int:
        """Return the least common multiple of the groups' blocks."""
        return lcm(*(group.spec.span_tokens for group in self.groups))

    @cached_property
    def block_divisor_tokens(self) -> int:
        """Return the greatest common divisor of the blocks that prefix caching keeps."""
        sizes = [group.spec.span_tokens for group in self.groups if group.is_found_again]
        return gcd(*(sizes or (group.spec.span_tokens for group in self.groups)))

    @cached_property
    def slots_by_page(self) -> Sequence[tuple[int, int]]:
        """Return (page in bytes, slots of that size): those of the group with most such layers."""
        # Layers of different groups share a slot, so the most of any one group are enough.
        slots: dict[int, int] = {}
        for group in self.groups:
            for page, layers in group.layers_by_page:
                slots[page] = max(layers, slots.get(page, 0))
        return tuple(slots.items())

    @cached_property
    def page_size_bytes(self) -> int:
        """Return the bytes of one block in one slot, the largest one where pages differ."""
        return max((page for page, _slots in self.slots_by_page), default=0)

    @property
    def has_equal_pages(self) -> bool:
        """Return whether every layer's page has the same size."""
        return len(self.slots_by_page) <= 1

    @property
    def is_block_outermost(self) -> bool:
        """Return whether all pages of one block are side by side."""
        return self.layout is not None and self.layout.startswith("B")

    @cached_property
    def slots(self) -> tuple[Tensor, ...]:
        """Return a block of every tensor: it holds layers of equal pages, one of every group."""
        # One group alone: every layer has a tensor of its own.
        if len(self.groups) == 1:
            specs = self.layers.items()
            return tuple(Tensor(spec.page_size_bytes, (name,)) for name, (_, spec) in specs)
        slots: defaultdict[tuple[int, int], Iterator[int]] = defaultdict(count)
        found: dict[int, dict[int, list[str]]] = {}
        for name, (group, spec) in self.layers.items():
            page = spec.page_size_bytes
            # The n-th layer of each group shares a tensor with the n-th of all others
            # (get_kv_cache_config_from_groups, 0.23).
            slot = next(slots[group, page])
            found.setdefault(page, {}).setdefault(slot, []).append(name)
        return tuple(
            Tensor(page, tuple(names))
            for page, places in found.items()
            for names in places.values()
        )

    @cached_property
    def bytes_per_block(self) -> int:
        """Return the bytes that one block id takes: over all tensors, or of the largest group."""
        if self.layout is None:
            return sum(page * slots for page, slots in self.slots_by_page)
        # The groups of one allocation overlap: each starts again at byte 0.
        # So a block is as wide as the widest group needs, and narrower groups leave its end unused.
        widest = max((group.layers_bytes for group in self.groups), default=0)
        if not self.is_block_outermost:
            return widest
        specs = (spec for group in self.examples for spec in group.different_specs)
        return round_up(widest, lcm(*{spec.stride_bytes for spec in specs}))

    @property
    def padding_layers(self) -> int:
        """Return the slots of all groups that no layer fills."""
        return sum(group.padding_layers for group in self.groups)

    def tensors(self, num_blocks: int) -> tuple[Tensor, ...]:
        """Return one tensor per slot, shared by that slot's layers; a single one in 0.33."""
        if self.layout is None:
            slots = self.slots
            return tuple(Tensor(one.size_bytes * num_blocks, one.shared_by) for one in slots)
        layers = tuple(self.layers)
        return (Tensor(self.bytes_per_block * num_blocks, layers),) if layers else ()

    def placements(self, num_blocks: int) -> tuple[Placement, ...]:
        """Return where every layer is in the one allocation of `num_blocks`; nothing without one.

        Errors: LayoutError for a padded page whose heads are not together.
        """
        if self.layout is None:
            return ()
        # get_kv_cache_config_from_groups and compute_layout_strides, 0.33.
        together: dict[tuple[int, CacheSpec], list[str]] = defaultdict(list)
        for name, key in self.layers.items():
            together[key].append(name)
        found, offsets = [], [0] * len(self.groups)
        for (group, spec), names in together.items():
            where = place(
                self.layout,
                spec.view_shape,
                layers=len(names),
                num_blocks=num_blocks,
                page_bytes=spec.page_size_bytes,
                block_bytes=self.bytes_per_block,
                offset=offsets[group],
            )
            found.append(Placement(group, spec, tuple(names), where))
            one = spec.page_size_bytes if where.is_block_outermost else where.layer_stride
            offsets[group] += len(names) * one
        return tuple(found)
