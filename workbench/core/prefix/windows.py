"""Sliding windows of 0.33: which of their blocks are found again, and how far a hit may reach.

A request keeps the blocks before two positions: where a resent prompt goes on, and where a prefix
ends that attention knows of and windows do not. Source: `replay_boundaries`,
`SlidingWindowManager.reachable_block_mask` and `find_longest_cache_hit`, 0.33, with
`prefix_cache_retention_interval` as it is (0). A cache with one group keeps every block.
"""

from collections.abc import Sequence
from typing import NamedTuple

from workbench.core.arithmetic import cdiv
from workbench.core.groups.cache_spec import SLIDING_KINDS
from workbench.core.groups.grouping import Grouping


class Window(NamedTuple):
    """One kind of windows. All in tokens."""

    block: int
    tail: int
    """What a hit needs directly before it: the blocks that a window reaches."""


def windows_of(grouping: Grouping) -> tuple[Window, ...]:
    """Return the windows whose blocks a request finds again, one of each kind."""
    if len(grouping.groups) == 1:
        return ()
    found = (
        # One token of the window is the next one itself, which is computed.
        Window(spec.block_size, cdiv(spec.window_tokens - 1, spec.block_size) * spec.block_size)
        for spec in (group.spec for group in grouping.examples)
        if spec.kind in SLIDING_KINDS and spec.window_tokens and spec.is_found_again
    )
    return tuple(dict.fromkeys(found))


def window_match(windows: Sequence[Window], kept: Sequence[int], limit: int, align: int) -> int:
    """Return the longest hit up to `limit` for which every window finds its blocks.

    kept: positions before which a request kept the tails; align: what hits are multiples of.
    """
    reach = limit // align * align
    # A shorter hit for one kind of windows may be too long for another, so all are tried until none
    # shortens it.
    while reach > 0:
        lower = min(_match(window, kept, reach, align) for window in windows)
        if lower == reach:
            break
        reach = lower
    return reach


def _match(window: Window, kept: Sequence[int], limit: int, align: int) -> int:
    """Return the longest hit of one kind of windows, a multiple of `align`."""
    for start, end in reversed(_runs(window, kept)):
        found = min(limit, end) // align * align
        # A run that begins with the prompt serves shorter hits, too.
        if found and (not start or found - start >= window.tail):
            return found
    return 0


def _runs(window: Window, kept: Sequence[int]) -> list[tuple[int, int]]:
    """Return the runs of blocks that a request kept, ascending."""
    runs: list[tuple[int, int]] = []
    for end in sorted(set(kept)):
        start = max(0, end - window.tail)
        if runs and start <= runs[-1][1]:
            start = runs.pop()[0]
        runs.append((start, end))
    return runs
