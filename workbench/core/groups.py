"""KV-cache groups: which layers share a block table, and which share a tensor (0.23).

Source: `get_kv_cache_groups`, `unify_kv_cache_spec_page_size` and
`get_kv_cache_config_from_groups` in `vllm/v1/core/kv_cache_utils.py` of 0.23.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from workbench.core.arithmetic import cdiv
from workbench.core.layer_specs import CacheSpec, layer_specs, specs_by_kind
from workbench.core.model import Layer
from workbench.core.sized import Sized

LARGE_GROUP_RATIO = 1.5


class PagesNotUnifiableError(ValueError):
    """Layers whose pages cannot be made equal; the plan reports the same as a problem."""


@dataclass(frozen=True, slots=True)
class Group:
    """Layers that share one block table. `padding_layers`: slots without a layer."""

    spec: CacheSpec
    layers: tuple[str, ...]
    padding_layers: int = 0


@dataclass(frozen=True, slots=True)
class Tensor:
    """One allocation: its bytes and the layers that see it, one of every group."""

    size_bytes: int
    shared_by: tuple[str, ...]


@dataclass(frozen=True)
class Grouping:
    """The groups of a model, and why they are what they are.

    group_size: slots of a group, which is also the number of tensors.
    """

    groups: tuple[Group, ...]
    group_size: int
    reason: str

    @property
    def page_size_bytes(self) -> int:
        """Bytes of one block in one slot; equal in all groups."""
        return max((group.spec.page_size_bytes for group in self.groups), default=0)

    @property
    def bytes_per_block(self) -> int:
        """Bytes that one block id takes over all tensors."""
        return self.page_size_bytes * self.group_size

    @property
    def padding_layers(self) -> int:
        """Slots of all groups that no layer fills."""
        return sum(group.padding_layers for group in self.groups)

    def tensors(self, num_blocks: int) -> tuple[Tensor, ...]:
        """One tensor a slot, shared by the layer in that slot of every group."""
        return tuple(
            Tensor(
                self.page_size_bytes * num_blocks,
                tuple(group.layers[slot] for group in self.groups if slot < len(group.layers)),
            )
            for slot in range(self.group_size)
        )


def grouping_of(sized: Sized) -> Grouping:
    """The groups of a resolved model. Errors: PagesNotUnifiableError."""
    return _grouping(sized.model.layers, tuple(specs_by_kind(sized).items()))


@lru_cache(maxsize=1024)
def _grouping(layers: tuple[Layer, ...], specs: tuple[tuple[str, CacheSpec], ...]) -> Grouping:
    return group_layers(layer_specs(layers, dict(specs)))


def group_layers(specs: Mapping[str, CacheSpec]) -> Grouping:
    """Groups for layers with these specs, by the decision list of 0.23.

    Errors: PagesNotUnifiableError.
    """
    if not specs:
        return Grouping((), 0, "no layer keeps a cache")
    if len(set(specs.values())) == 1:
        group = Group(next(iter(specs.values())), tuple(specs))
        return Grouping((group,), len(specs), "all layers have one spec: one group")
    return _split(_unified(specs))


def _unified(specs: Mapping[str, CacheSpec]) -> dict[str, CacheSpec]:
    """Enlarge the blocks of small pages until all pages are equal."""
    target = max(spec.page_size_bytes for spec in specs.values())
    return {name: _enlarged(name, spec, target) for name, spec in specs.items()}


def _enlarged(name: str, spec: CacheSpec, target: int) -> CacheSpec:
    if spec.page_size_bytes == target:
        return spec
    if not spec.page_size_bytes:
        raise PagesNotUnifiableError(f"{name}: its page has 0 bytes")
    if target % spec.page_size_bytes:
        raise PagesNotUnifiableError(
            f"{name}: its page of {spec.page_size_bytes:,} bytes does not divide the largest page "
            f"of {target:,} bytes"
        )
    if spec.is_mamba:
        raise PagesNotUnifiableError(f"{name}: a mamba page does not grow with its block")
    ratio = target // spec.page_size_bytes
    return replace(spec, block_size=spec.block_size * ratio, page_size_bytes=target)


def _split(specs: Mapping[str, CacheSpec]) -> Grouping:
    """Equal groups: each bucket of equal specs is dealt out in strides."""
    buckets: dict[CacheSpec, list[str]] = {}
    for name, spec in specs.items():
        buckets.setdefault(spec, []).append(name)
    sizes = [len(names) for names in buckets.values()]
    smallest, largest = min(sizes), max(sizes)
    size = largest if largest < LARGE_GROUP_RATIO * smallest else smallest
    groups: list[Group] = []
    for spec, names in buckets.items():
        count = cdiv(len(names), size)
        for first in range(count):
            layers = tuple(names[first::count])
            groups.append(Group(spec, layers, size - len(layers)))
    reason = (
        f"{len(buckets)} kinds of layers ({', '.join(map(str, sizes))}): groups of {size}, "
        f"{'the largest' if size == largest and size != smallest else 'the smallest'} kind"
    )
    slots = max(len(group.layers) for group in groups)
    return Grouping(tuple(groups), slots, reason)
