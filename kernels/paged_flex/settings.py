"""Tiles, splits, and which of them a request's bits may depend on."""

import math
from dataclasses import dataclass, replace
from typing import Literal, get_args

from workbench.kernels.errors import PagedFlexError

SMALLEST_TILE = 16
"""What a matrix instruction takes at least, in rows and in keys."""

LARGEST_TILE = 1024
"""Rows or keys of a tile: its scores must be within Triton's 2**20 numbers of one tensor."""

LARGEST_WARPS = 32
"""A program has at most 1,024 threads."""

LARGEST_STAGES = 16


Path = Literal["descriptors", "pointers"]
"""How keys and values are copied from the pages: whole tiles by TMA, or 16 bytes at a time."""


@dataclass(frozen=True, slots=True)
class Tile:
    """block_m rows (query tokens times the heads of a group) by block_n keys, and its warps."""

    block_m: int
    block_n: int
    num_warps: int = 4
    num_stages: int = 3
    path: Path = "pointers"
    """Set by the launcher: see `Settings.path`."""

    @property
    def sums(self) -> tuple[int, int]:
        """Return what decides the order in which a row's keys are added up, and by how many lanes.

        A warp multiplies the same rows in tiles of one kind: more rows are more warps.
        """
        return self.block_n, self.block_m // self.num_warps

    def __post_init__(self) -> None:
        """Refuse what no matrix instruction takes, and what Triton does not compile."""
        for name in ("block_m", "block_n"):
            _check_power(name, getattr(self, name), SMALLEST_TILE, LARGEST_TILE)
        _check_power("num_warps", self.num_warps, 1, LARGEST_WARPS)
        check_integer("num_stages", self.num_stages, 1, LARGEST_STAGES)


def check_integer(field: str, value: object, low: int, high: int | None = None) -> None:
    """Refuse anything but an integer in low..high; None: without an upper end."""
    top = math.inf if high is None else high
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and isinstance(value, int) and low <= value <= top:
        return
    near = low
    if isinstance(value, int | float) and number and not math.isnan(value):
        near = int(min(max(value, low), top if math.isfinite(value) else low))
    room = f"of at least {low}" if high is None else f"in {low}..{high}"
    raise PagedFlexError(
        f"Invalid {field} {value!r}. Expected an integer {room}. Nearest valid value: {near}",
        field=field,
        given=value,
        limit=near,
    )


def _check_power(field: str, value: int, low: int, high: int) -> None:
    if isinstance(value, int) and not isinstance(value, bool):
        # the power below: a larger tile may not fit into a device
        near = min(max(low, 1 << max(value, 1).bit_length() - 1), high)
        if near == value:
            return
        raise PagedFlexError(
            f"Invalid {field} {value}. Expected a power of two in {low}..{high}. Nearest valid "
            f"value: {near}",
            field=field,
            given=value,
            limit=near,
        )
    raise PagedFlexError(
        f"Invalid {field} {value!r}. Expected an integer, a power of two in {low}..{high}.",
        field=field,
        given=value,
    )


@dataclass(frozen=True, slots=True)
class Settings:
    """How the work is cut."""

    prefill: Tile
    """The tile of requests with many queries."""
    decode: Tile | None = None
    """The tile of requests whose queries, times the heads of a group, fit into one such tile; None
    sends them through `prefill`."""
    split_tokens: int = 0
    """The fewest keys of one program of a split tile, and what their number is a multiple of; a
    multiple of the tiles' block_n, counted from the request's first token. 0 does not split."""
    fill_programs: int = 132
    """Programs of prefill tiles that fill the device: one for each of an H200's multiprocessors,
    which holds two of other decode tiles. A request is split if its tiles, times the KV heads, are
    at most half as many, into parts that fill it."""
    one_path: bool = False
    """All splits have split_tokens keys, and a request that is not split adds up its keys in the
    same splits, in order."""
    as_given: bool = False
    """Tiles are not fitted to head and dtype; what does not fit a device fails there."""
    described: Tile | None = None
    """What takes the place of `prefill` where descriptors copy it; None: `prefill` itself. A page
    need not be a multiple of its keys: descriptors copy boxes of a tile, or of half of one, and
    what is left of every page is computed after them, by pointers."""
    path: Path | None = None
    """How keys and values are copied; None: by descriptors where a page is a multiple of the tile's
    keys, or has a box of `described`, and the device has them, else by pointers."""
    by_batch: int = 0
    """All splits have equal lengths, so that the whole batch fills `by_batch` programs, as many
    libraries do. It makes a request's bits depend on its batch; 0 is off."""

    def __post_init__(self) -> None:
        """Refuse a split that cuts tiles apart."""
        for name, kinds in (("prefill", Tile), ("decode", Tile | None), ("described", Tile | None)):
            if not isinstance(getattr(self, name), kinds):
                raise PagedFlexError(
                    f"Invalid tile {name}={getattr(self, name)!r}. Expected Tile(rows, keys).",
                    field=name,
                    given=getattr(self, name),
                )
        if self.path is not None and self.path not in get_args(Path):
            raise PagedFlexError(
                f"Invalid path {self.path!r}. Expected 'descriptors', 'pointers' or None.",
                field="path",
                given=self.path,
            )
        check_integer("split_tokens", self.split_tokens, 0)
        check_integer("by_batch", self.by_batch, 0)
        check_integer("fill_programs", self.fill_programs, 1)
        # powers of two: the largest is a multiple of the other
        unit = max(t.block_n for t in (self.prefill, self.decode, self.described) if t)
        # a tile in two splits would be added up in another order
        if self.split_tokens % unit:
            near = max(self.split_tokens // unit, 1) * unit
            raise PagedFlexError(
                f"Invalid split_tokens {self.split_tokens}. Expected a multiple of {unit}, the "
                f"keys of the larger tile. Nearest valid value: {near}",
                field="split_tokens",
                given=self.split_tokens,
                limit=unit,
            )

    @property
    def depends_on_batch(self) -> bool:
        """Return whether a request's bits may change with the rest of its batch."""
        return self.by_batch > 0

    @property
    def depends_on_page_size(self) -> bool:
        """Return whether a request's bits may change with the size of the pages."""
        # descriptors copy whole boxes of a page first
        return self.described is not None and self.path != "pointers"

    @property
    def depends_on_chunks(self) -> bool:
        """Return whether a token's bits may change with how its request is cut into steps."""
        tiles = (self.prefill, self.decode, self.described)
        same_tile = len({tile.sums for tile in tiles if tile}) == 1
        in_boxes = self.decode is not None and self.depends_on_page_size
        return self.depends_on_batch or not same_tile or not self.one_path or in_boxes


FAST = Settings(
    prefill=Tile(128, 64, 8, 4),
    decode=Tile(16, 64, 4, 4),
    split_tokens=1024,
    described=Tile(128, 128, 8, 3),
)
"""The quickest: large prefill tiles, short requests split as far as the device has room, at least
1024 keys each: the start of a program costs as much as about 100 on an H200. Bits do not depend on
the batch: every choice is made by the request itself. For devices whose matrix instructions read
shared memory (Hopper, Blackwell B200); elsewhere these tiles spill registers."""

BITWISE = Settings(
    prefill=Tile(128, 64, 8, 4), decode=Tile(64, 64, 4, 3), split_tokens=1024, one_path=True
)
"""One kind of tile and one loop for every token, keys added up in splits from position 0 on, in
order, by several programs or by one: prefill, chunks and decode give the same bits where the matrix
instruction computes every row of a tile in the same way (GPUs). For Hopper; elsewhere the registers
do not suffice for a split of such a tile and the sum of those before it."""

FAST_ELSEWHERE = replace(FAST, prefill=Tile(128, 32, 8), decode=Tile(16, 64), described=None)
"""FAST for devices whose matrix instructions read registers (Ampere, RTX, AMD)."""

BITWISE_ELSEWHERE = replace(BITWISE, prefill=Tile(64, 32, 8), decode=Tile(64, 32, 8))
"""BITWISE for everything but Hopper."""

SPLIT_BY_BATCH = replace(FAST, by_batch=264)
"""What breaks the promise on purpose: the split is chosen by the batch. For demonstrations."""


def shipped(*, bitwise: bool, capability: tuple[int, int] | None) -> Settings:
    """Return FAST or BITWISE for a device; capability is CUDA's, None for anything else."""
    major = capability[0] if capability else 0
    if bitwise:
        # Hopper multiplies out of shared memory: four warps have the registers
        return BITWISE if major == 9 else BITWISE_ELSEWHERE
    return FAST if major in {9, 10} else FAST_ELSEWHERE
