"""Which mask blocks go with which tiles: every combination judged as the engine would."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

from workbench.core.flex.plan import FlexPlan, flex_sizes
from workbench.core.flex.sizes import FlexFields
from workbench.core.flex.tiles import SMALLEST_TILE

SIDES = (8, 16, 32, 64, 128)
"""What is tried along each side, in tokens."""

DIRECT, GENERIC, SMALL = "direct", "generic", "small"
TOO_LARGE, ILLEGAL, REFUSED = "too large", "illegal", "refused"
KINDS = {
    DIRECT: "starts, mask listed from the block table",
    GENERIC: "starts, every pair of query and slot is evaluated",
    SMALL: f"starts, with a tile below the documented {SMALLEST_TILE}",
    TOO_LARGE: "starts, and the tile fits into no NVIDIA GPU",
    ILLEGAL: "starts, and stops when the kernel is compiled",
    REFUSED: "vLLM refuses it",
}
"""Verdict -> what it means."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One combination. kind: one of KINDS; reason: both numbers and what became of them."""

    kind: str
    reason: str

    @property
    def legal(self) -> bool:
        """Return whether nothing known keeps a kernel from running."""
        return self.kind in (DIRECT, GENERIC, SMALL)


def combinations(explicit: tuple[int, int] | None = None) -> tuple[tuple[int, int], ...]:
    """Return the pairs of sizes, smallest first; `explicit` is put among them if it is another."""
    pairs = set(product(SIDES, SIDES))
    if explicit is not None:
        pairs.add(explicit)
    return tuple(sorted(pairs))


def verdict(fields: FlexFields, **sizes: Any) -> Verdict:
    """Return the verdict on explicit sizes; `sizes` are those of `flex_sizes`."""
    found = flex_sizes(fields, **sizes)
    if found.refusals:
        first = found.refusals[0]
        return Verdict(ILLEGAL if first.exception is None else REFUSED, first.message)
    assert found.tiles is not None
    q, kv = found.mask.q_block_size, found.mask.kv_block_size
    words = (
        f"tile {found.tiles.block_m} x {found.tiles.block_n} in a mask block of {q} x {kv}, "
        f"{found.build} build over cache blocks of {found.cache_block_size}"
    )
    excess = found.too_large()
    if excess is not None:
        return Verdict(TOO_LARGE, f"{words}; {excess.text}")
    if min(found.tiles.block_m, found.tiles.block_n) < SMALLEST_TILE:
        return Verdict(SMALL, f"{words}; below the documented {SMALLEST_TILE}")
    return Verdict(found.build, words)


def legality(
    flex: FlexPlan, mask_pairs: tuple[tuple[int, int], ...], tile_pairs: tuple[Any, ...]
) -> tuple[tuple[Verdict, ...], ...]:
    """Return [mask pair][tile pair] -> verdict, over the cache block of `flex`.

    A tile may be None.
    """
    sizes = {
        "cache_block_size": flex.cache_block_size,
        "configured_block_size": flex.configured_block_size,
        "small": flex.small,
        "batch_invariant": flex.batch_invariant,
        "dtype": flex.dtype,
        "head_size": flex.head_size,
        "shared_memory_bytes": flex.shared_memory_bytes,
    }
    return tuple(
        tuple(verdict(FlexFields(m, n, q, kv), **sizes) for m, n in tile_pairs)
        for q, kv in mask_pairs
    )
