"""Layers whose pages differ in size, dealt out to groups with as many pages of every size."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from workbench.core.arithmetic import cdiv
from workbench.core.groups.cache_spec import (
    MLA_KINDS,
    RING_SPEC,
    SLIDING_KINDS,
    SLIDING_MLA_SPEC,
    CacheSpec,
    are_one_type,
)
from workbench.core.groups.group_rules import GroupRules
from workbench.core.groups.grouping import Group, group_of
from workbench.core.groups.unification import PagesNotUnifiableError

Specs = Mapping[str, CacheSpec]
"""Layer -> its spec."""


def buckets_of(
    specs: Iterable[CacheSpec], fit: Callable[[Collection[CacheSpec]], bool]
) -> list[list[CacheSpec]]:
    """Return different specs in buckets: each in the first one whose members it fits."""
    buckets: list[list[CacheSpec]] = []
    for spec in dict.fromkeys(specs):
        for members in buckets:
            if fit((*members, spec)):
                members.append(spec)
                break
        else:
            buckets.append([spec])
    return buckets


def layers_a_page(specs: Specs) -> int:
    """Return the number of layers with the most frequent page: the repeats of the layer pattern."""
    return max(Counter(spec.page_size_bytes for spec in specs.values()).values())


def approximate_divisor(counts: Sequence[int], smallest: int) -> int:
    """Return the size, from `smallest` to the largest count, that leaves the fewest slots empty."""
    # Every count is rounded up to a multiple of it; of several equally good sizes the largest.
    sizes = range(max(1, smallest), max(counts) + 1) or (max(1, smallest),)
    return max(sizes, key=lambda size: (-sum(-count % size for count in counts), size))


def _by_page(specs: Specs) -> dict[int, list[str]]:
    found: dict[int, list[str]] = defaultdict(list)
    for name, spec in specs.items():
        found[spec.page_size_bytes].append(name)
    return found


def _dealt_out(specs: Specs, count: int) -> list[Group]:
    """Return `count` groups of layer tuples, which have one layer of every page size."""
    # As many layers of every page, so that the groups have equal blocks.
    tuples = list(zip(*_by_page(specs).values(), strict=True))
    return [
        group_of({name: specs[name] for layers in tuples[first::count] for name in layers})
        for first in range(count)
    ]


def layer_tuple_groups(specs: Specs) -> tuple[Group, ...] | None:
    """Return one group of full MLA, several of sliding MLA; None without the latter (0.23)."""
    # vLLM stops with a bare assertion where this raises.
    # group_and_unify_kv_cache_specs and _get_kv_cache_groups_uniform_groups, for DeepSeek-V4.
    if not any(spec.kind == SLIDING_MLA_SPEC for spec in specs.values()):
        return None
    full = {name: spec for name, spec in specs.items() if spec.kind in MLA_KINDS}
    sliding: dict[tuple[int, int | None], dict[str, CacheSpec]] = defaultdict(dict)
    for name, spec in specs.items():
        if spec.kind == SLIDING_MLA_SPEC:
            # These two alone tell DeepSeek-V4's windows from its states of compression.
            sliding[spec.block_size, spec.window_tokens][name] = spec
    if not full or len({spec.block_size for spec in full.values()}) > 1:
        raise PagesNotUnifiableError(
            "compressed layers with a window need MLA layers of one block size alongside them"
        )
    counts = [layers_a_page(full), *(layers_a_page(bucket) for bucket in sliding.values())]
    # Full MLA is never cut, so a group has at least as many tuples as it has.
    tuples = approximate_divisor(counts, counts[0])
    pages = sorted({spec.page_size_bytes for spec in full.values()})
    groups = [group_of(full)]
    for bucket in sliding.values():
        padded = {name: _padded_to_one_of(pages, name, spec) for name, spec in bucket.items()}
        repeats = {len(names) for names in _by_page(padded).values()}
        if len(repeats) > 1:
            raise PagesNotUnifiableError(
                "layers with one window have pages of several sizes, and not as many of each"
            )
        groups += _dealt_out(padded, cdiv(repeats.pop(), tuples))
    return tuple(groups)


def _padded_to_one_of(pages: list[int], name: str, spec: CacheSpec) -> CacheSpec:
    """Return the spec with the smallest of these pages that holds it."""
    # Layers of all groups share the places of full MLA, so its pages are all that there is.
    wanted = next((page for page in pages if page >= spec.page_size_bytes), None)
    if wanted is None:
        raise PagesNotUnifiableError(
            f"{name}: its page of {spec.page_size_bytes:,} bytes is larger than every page of "
            f"the MLA layers ({pages[-1]:,} bytes)"
        )
    return spec if spec.page_size_bytes == wanted else spec.padded(wanted)


@dataclass(frozen=True)
class _Bucket:
    """Layers of one type. repeats: of its layer pattern; pages: page -> its layers.

    is_balanced: there are as many layers of each page size, so the pattern repeats.
    """

    specs: Specs
    pages: Mapping[int, list[str]]
    repeats: int
    is_balanced: bool

    @property
    def first(self) -> CacheSpec:
        return next(iter(self.specs.values()))

    def widest_bytes(self, groups: int) -> int:
        """Return the bytes of a block in the largest of so many groups."""
        return sum(cdiv(len(names), groups) * page for page, names in self.pages.items())

    def dealt_out(self, groups: int) -> list[Group]:
        if groups == 1:
            return [group_of(self.specs)]
        if not self.is_balanced or groups > self.repeats:
            raise PagesNotUnifiableError(
                "layers with one window have pages of several sizes and are cut into "
                f"{groups} groups: some layer would be in none, or some group without a layer"
            )
        return _dealt_out(self.specs, groups)


def packed_groups(specs: Specs, rules: GroupRules) -> tuple[Group, ...] | None:
    """Return groups for every type of layer; None where all pages are equal (0.33)."""
    # _get_packed_kv_cache_groups: pages of several sizes are side by side in a block.
    if len(_by_page(specs)) <= 1:
        return None
    buckets = [
        _bucket({name: spec for name, spec in specs.items() if spec in members})
        for members in buckets_of(specs.values(), lambda found: are_one_type(found, rules))
    ]
    # Counts such as 2:1 would repeat as well; vLLM keeps such layers in one group.
    balanced = [bucket for bucket in buckets if bucket.is_balanced]
    smallest = max((bucket.repeats for bucket in balanced if len(bucket.pages) > 1), default=0)
    counts = [bucket.repeats for bucket in balanced]
    # Types whose layers repeat one pattern of pages are cut to the same number of repeats.
    repeats = approximate_divisor(counts, smallest) if smallest else None

    def is_cut_to_fit(bucket: _Bucket) -> bool:
        # States and windows are cut until they fit the block that the others need.
        slides = bucket.first.kind in SLIDING_KINDS
        is_state = bucket.first.is_mamba or bucket.first.kind == RING_SPEC
        return is_state or (repeats is None and slides)

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
            fitting = needed // bucket.first.page_size_bytes  # at least one: see `needed`
            count = max(count, cdiv(len(bucket.specs), fitting))
        found += bucket.dealt_out(count)
    return tuple(found)


def _bucket(specs: Specs) -> _Bucket:
    pages = _by_page(specs)
    repeats = {len(names) for names in pages.values()}
    return _Bucket(specs, pages, max(repeats), len(repeats) == 1)
