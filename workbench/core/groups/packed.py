"""Pages of several sizes side by side in a block, where all layers of a block are together (0.33).

Source: `_get_packed_kv_cache_groups` of 0.33.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from workbench.core.arithmetic import cdiv
from workbench.core.groups.cache_spec import SLIDING_KINDS, CacheSpec, are_one_type
from workbench.core.groups.grouping import Group, group_of
from workbench.core.groups.layer_tuples import approximate_divisor, layers_a_page
from workbench.core.groups.rules import GroupRules
from workbench.core.groups.unification import PagesNotUnifiableError


@dataclass(frozen=True)
class _Bucket:
    """Layers of one type."""

    specs: dict[str, CacheSpec]

    @cached_property
    def by_page(self) -> dict[int, list[str]]:
        """Return their names by page size."""
        found: dict[int, list[str]] = defaultdict(list)
        for name, spec in self.specs.items():
            found[spec.page_size_bytes].append(name)
        return found

    @property
    def first(self) -> CacheSpec:
        return next(iter(self.specs.values()))

    @property
    def is_balanced(self) -> bool:
        """Return whether there are as many layers of each page size: a pattern that repeats."""
        return len(set(map(len, self.by_page.values()))) == 1

    @property
    def repeats(self) -> int:
        return layers_a_page(self.specs)

    def widest_bytes(self, groups: int) -> int:
        """Return the bytes of a block in the largest of so many groups."""
        return sum(cdiv(len(names), groups) * page for page, names in self.by_page.items())

    def dealt_out(self, groups: int) -> list[Group]:
        if groups == 1:
            return [group_of(self.specs)]
        if not self.is_balanced or groups > self.repeats:
            raise PagesNotUnifiableError(
                "layers with one window have pages of several sizes and are cut into "
                f"{groups} groups: some layer would be in none, or some group without a layer"
            )
        rows = list(zip(*self.by_page.values(), strict=True))
        return [
            group_of({name: self.specs[name] for row in rows[first::groups] for name in row})
            for first in range(groups)
        ]


def packed_groups(specs: Mapping[str, CacheSpec], rules: GroupRules) -> tuple[Group, ...] | None:
    """Return a group of its own size for every type of layer; None where all pages are equal.

    Types whose layers repeat one pattern of pages are cut to the same number of repeats; states
    and windows are cut until they fit the block that the others need.
    """
    if len({spec.page_size_bytes for spec in specs.values()}) <= 1:
        return None
    buckets = _buckets(specs, rules)
    balanced = [bucket for bucket in buckets if bucket.is_balanced]
    smallest = max((bucket.repeats for bucket in balanced if len(bucket.by_page) > 1), default=0)
    repeats = (
        approximate_divisor([bucket.repeats for bucket in balanced], smallest) if smallest else None
    )

    def is_cut_to_fit(bucket: _Bucket) -> bool:
        slides = bucket.first.kind in SLIDING_KINDS
        return bucket.first.is_mamba or (repeats is None and slides)

    def groups_of(bucket: _Bucket) -> int:
        return cdiv(bucket.repeats, repeats) if repeats and bucket.is_balanced else 1

    needed = max(
        bucket.widest_bytes(len(bucket.specs) if is_cut_to_fit(bucket) else groups_of(bucket))
        for bucket in buckets
    )
    found: list[Group] = []
    for bucket in buckets:
        count = groups_of(bucket)
        if is_cut_to_fit(bucket):
            fitting = max(needed // bucket.first.page_size_bytes, 1)
            count = max(count, cdiv(len(bucket.specs), fitting))
        found += bucket.dealt_out(count)
    return tuple(found)


def _buckets(specs: Mapping[str, CacheSpec], rules: GroupRules) -> list[_Bucket]:
    """Return the layers of one type together, in the order of their first layer."""
    found: list[dict[str, CacheSpec]] = []
    for name, spec in specs.items():
        for bucket in found:
            if are_one_type((next(iter(bucket.values())), spec), rules):
                bucket[name] = spec
                break
        else:
            found.append({name: spec})
    return [_Bucket(bucket) for bucket in found]
