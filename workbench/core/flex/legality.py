"""Which mask blocks go with which tiles: every combination judged as the engine would."""

from dataclasses import dataclass, replace
from itertools import product

from workbench.core.flex.plan import FlexPlan
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

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Verdict:
    """One combination. kind: one of KINDS; reason: both numbers and what became of them."""

    kind: str
    reason: str

    @property
    def legal(self) -> bool:
        """Return whether nothing known keeps a kernel from running."""
        return self.kind in (DIRECT, GENERIC, SMALL)


def combinations(explicit: Pair | None = None) -> tuple[Pair, ...]:
    """Return the pairs of sizes, smallest first; `explicit` is put among them if it is another."""
    return tuple(sorted({*product(SIDES, SIDES), *(() if explicit is None else (explicit,))}))


def verdict(flex: FlexPlan) -> Verdict:
    """Return the verdict on explicit sizes."""
    if flex.refusals:
        first = flex.refusals[0]
        return Verdict(ILLEGAL if first.exception is None else REFUSED, first.message)
    assert flex.tiles is not None
    m, n = flex.tiles.block_m, flex.tiles.block_n
    words = (
        f"tile {m} x {n} in a mask block of {flex.mask.q_block_size} x {flex.mask.kv_block_size}, "
        f"{flex.build} build over cache blocks of {flex.cache_block_size}"
    )
    excess = flex.too_large()
    if excess is not None:
        return Verdict(TOO_LARGE, f"{words}; {excess.text}")
    if min(m, n) < SMALLEST_TILE:
        return Verdict(SMALL, f"{words}; below the documented {SMALLEST_TILE}")
    return Verdict(flex.build, words)


def legality(
    flex: FlexPlan,
    mask_pairs: tuple[Pair, ...],
    tile_pairs: tuple[tuple[int | None, int | None], ...],
) -> tuple[tuple[Verdict, ...], ...]:
    """Return [mask pair][tile pair] -> verdict, over the cache block of `flex`."""
    return tuple(
        tuple(verdict(replace(flex, fields=FlexFields(m, n, q, kv))) for m, n in tile_pairs)
        for q, kv in mask_pairs
    )
