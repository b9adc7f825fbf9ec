"""Groups of compressed caches, as DeepSeek-V4 has them: layers with several pages, dealt out.

Source: `group_and_unify_kv_cache_specs`, `_get_kv_cache_groups_uniform_groups` and
`_approximate_gcd` of 0.23.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from workbench.core.arithmetic import cdiv
from workbench.core.groups.cache_spec import MLA_KINDS, SLIDING_MLA_SPEC, CacheSpec
from workbench.core.groups.grouping import Group, group_of
from workbench.core.groups.unification import PagesNotUnifiableError


def approximate_divisor(counts: Sequence[int], smallest: int) -> int:
    """Return the size, from `smallest` to the largest count, that leaves the fewest slots empty.

    Every count is rounded up to a multiple of it; of several equally good sizes the largest.
    """
    sizes = range(max(1, smallest), max(counts) + 1)
    if not sizes:
        return max(1, smallest)
    return max(sizes, key=lambda size: (-sum(-count % size for count in counts), size))


def layers_a_page(specs: Mapping[str, CacheSpec]) -> int:
    """Return the number of layers with the most frequent page: the repeats of the layer pattern."""
    return max(Counter(spec.page_size_bytes for spec in specs.values()).values())


def layer_tuple_groups(specs: Mapping[str, CacheSpec]) -> tuple[Group, ...] | None:
    """Return full MLA in one group, and sliding MLA in groups with as many layer tuples.

    A tuple has one layer of each page size. None without a sliding MLA layer. Errors:
    PagesNotUnifiableError where vLLM stops with a bare assertion.
    """
    if not any(spec.kind == SLIDING_MLA_SPEC for spec in specs.values()):
        return None
    full = {name: spec for name, spec in specs.items() if spec.kind in MLA_KINDS}
    sliding: dict[tuple[int, int | None], dict[str, CacheSpec]] = defaultdict(dict)
    for name, spec in specs.items():
        if spec.kind == SLIDING_MLA_SPEC:
            sliding[spec.block_size, spec.window_tokens][name] = spec
    if not full or len({spec.block_size for spec in full.values()}) > 1:
        raise PagesNotUnifiableError(
            "compressed layers with a window need MLA layers of one block size alongside them"
        )
    counts = [layers_a_page(full), *(layers_a_page(bucket) for bucket in sliding.values())]
    tuples = approximate_divisor(counts, counts[0])
    pages = sorted({spec.page_size_bytes for spec in full.values()})
    groups = [group_of(full)]
    for bucket in sliding.values():
        groups += _dealt_out(bucket, pages, tuples)
    return tuple(groups)


def _dealt_out(specs: Mapping[str, CacheSpec], pages: list[int], tuples: int) -> list[Group]:
    """Return one kind of window in groups of `tuples` tuples, padded to the pages of full MLA."""
    padded: dict[str, CacheSpec] = {}
    by_page: dict[int, list[str]] = defaultdict(list)
    for name, spec in specs.items():
        wanted = next((page for page in pages if page >= spec.page_size_bytes), None)
        if wanted is None:
            raise PagesNotUnifiableError(
                f"{name}: its page of {spec.page_size_bytes:,} bytes is larger than every page of "
                f"the MLA layers ({pages[-1]:,} bytes)"
            )
        padded[name] = spec if spec.page_size_bytes == wanted else spec.padded(wanted)
        by_page[wanted].append(name)
    if len({len(names) for names in by_page.values()}) > 1:
        raise PagesNotUnifiableError(
            "layers with one window have pages of several sizes, and not as many of each"
        )
    rows = list(zip(*by_page.values(), strict=True))
    count = cdiv(len(rows), tuples)
    return [
        group_of({name: padded[name] for row in rows[first::count] for name in row})
        for first in range(count)
    ]
