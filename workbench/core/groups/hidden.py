"""Hidden states that `extract_hidden_states` keeps in the cache: a group of their own.

Source: the end of `get_kv_cache_groups` of 0.23, `_ensure_min_page_size` of 0.33.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import gcd

from workbench.core.arithmetic import cdiv, divisors
from workbench.core.groups.cache_spec import CacheSpec
from workbench.core.groups.grouping import Group
from workbench.core.groups.rules import GroupRules


def with_hidden_groups(
    groups: tuple[Group, ...], hidden: Mapping[str, CacheSpec], rules: GroupRules
) -> tuple[tuple[Group, ...], tuple[str, ...]]:
    """Return the groups with one more for every hidden-state layer, and what vLLM logs about it.

    Their page is that of the others; as many tokens as fit go into it, in 0.33 only a number that
    divides the other blocks.
    """
    page = groups[0].spec.page_size_bytes
    if rules.splits_hidden_blocks:
        groups, page = _large_enough(groups, page, hidden)
    common = gcd(*(group.spec.block_size for group in groups))
    added, notes = [], []
    for name, spec in hidden.items():
        block = max(page // spec.token_bytes, 1)
        if rules.splits_hidden_blocks:
            block = max((size for size in divisors(common) if size <= block), default=1)
            wasted = page - block * spec.token_bytes
            notes.append(
                f"Using block size {block} for hidden-state cache layer {name}; page alignment "
                f"wastes {wasted} bytes ({wasted / page * 100:.2f}%) per block"
            )
        sized = spec.with_block(block)
        added.append(Group(sized.padded(max(page, sized.page_size_bytes)), (name,)))
    return (*groups, *added), tuple(notes)


def _large_enough(
    groups: tuple[Group, ...], page: int, hidden: Mapping[str, CacheSpec]
) -> tuple[tuple[Group, ...], int]:
    """Return the specs with blocks enlarged until a page holds a token of every hidden-state layer.

    A state without padding keeps its page; the pages then differ, which the layout refuses.
    """
    scale = cdiv(max(spec.token_bytes for spec in hidden.values()), page)
    if scale <= 1:
        return groups, page
    return tuple(replace(group, spec=_scaled(group.spec, scale)) for group in groups), page * scale


def _scaled(spec: CacheSpec, scale: int) -> CacheSpec:
    block = spec.block_size * scale
    if spec.is_mamba:
        padded = spec.padded(spec.page_size_bytes * scale) if spec.padding_bytes else spec
        return padded._replace(block_size=block)
    grown = spec.with_block(block)
    return grown.padded(spec.page_size_bytes * scale) if spec.padding_bytes else grown
