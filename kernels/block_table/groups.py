"""What a block table is made of: groups with two block sizes, and context parallelism."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral

from workbench.kernels.errors import BlockTableError

LARGEST_INT32 = 2**31 - 1


def check_number(name: str, value: object, low: int, end: int | None = None) -> None:
    """Refuse anything but an integer in low..end - 1: BlockTableError."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if whole and low <= int(value) and (end is None or int(value) < end):  # type: ignore[call-overload]
        return
    room = f"of at least {low}" if end is None else f"in {low}..{end - 1}"
    raise BlockTableError(
        f"{name} must be an integer {room}; got {value!r}",
        field=name,
        given=value,
        limit=low if end is None else end,
    )


@dataclass(frozen=True, slots=True)
class TableGroup:
    """One group of layers that share a block table (vLLM 0.23, #38831).

    `block_size` is the manager block in tokens, `kernel_block_size` what the attention kernel
    sees, `max_blocks` the manager blocks that one row can hold. A row of the kernel's table
    is `max_kernel_blocks` = max_blocks * ratio entries wide. The other fields are of vLLM 0.33, and
    of the path that works as it does.
    """

    block_size: int
    kernel_block_size: int
    max_blocks: int
    window_reach: int = 0
    """Tokens below a request's first one of a step that attention can read; 0: all. Blocks wholly
    below are gathered as the null block: a window's manager may have given them away."""
    has_slots: bool = True
    """False: no token of this group has a slot (slot_mapping_enabled)."""
    is_sharded: bool = True
    """False: every context-parallel rank stores all tokens (dcp_sharded)."""
    kernel_block_stride: int = 0
    """Kernel blocks from one manager block to the next in a packed cache; 0: `ratio`."""

    def __post_init__(self) -> None:
        """Refuse sizes below 1 and a kernel block that does not divide the manager block."""
        for name in ("block_size", "kernel_block_size", "max_blocks"):
            check_number(name, getattr(self, name), 1)
        check_number("window_reach", self.window_reach, 0)
        check_number("kernel_block_stride", self.kernel_block_stride, 0)
        if self.block_size % self.kernel_block_size:
            near = nearest_divisor(self.block_size, self.kernel_block_size)
            raise BlockTableError(
                f"kernel_block_size {self.kernel_block_size} does not divide block_size "
                f"{self.block_size}; the nearest size that does is {near}",
                field="kernel_block_size",
                given=self.kernel_block_size,
                limit=near,
            )

    @property
    def ratio(self) -> int:
        """Return the kernel blocks in one manager block."""
        return self.block_size // self.kernel_block_size

    @property
    def kernel_stride(self) -> int:
        """Return the kernel blocks from one manager block to the next."""
        return self.kernel_block_stride or self.ratio

    @property
    def is_split(self) -> bool:
        """Return whether kernel blocks differ from manager blocks."""
        return self.ratio > 1 or self.kernel_stride > 1

    @property
    def needs_newer(self) -> str | None:
        """Return the first field that only the path of vLLM 0.33 knows; None without any."""
        newer = {
            "window_reach": self.window_reach > 0,
            "has_slots": not self.has_slots,
            "is_sharded": not self.is_sharded,
            "kernel_block_stride": self.kernel_block_stride > 0,
        }
        return next((name for name, used in newer.items() if used), None)

    @property
    def max_kernel_blocks(self) -> int:
        """Return the entries of one row of the kernel's table."""
        return self.max_blocks * self.ratio


@dataclass(frozen=True, slots=True)
class ContextParallel:
    """Which tokens this rank stores: rank (position // interleave) mod size stores a position."""

    size: int = 1
    rank: int = 0
    interleave: int = 1

    def __post_init__(self) -> None:
        """Refuse sizes below 1 and a rank outside them."""
        for name in ("size", "interleave"):
            check_number(name, getattr(self, name), 1)
        check_number("rank", self.rank, 0, self.size)

    def check_groups(self, groups: Iterable[TableGroup]) -> None:
        """Refuse an interleave that carries tokens over a kernel block's end, and endless rows."""
        for index, group in enumerate(groups):
            # kernels divide positions in 32 bits
            if group.max_blocks * group.block_size * self.size > LARGEST_INT32:
                room = LARGEST_INT32 // (group.block_size * self.size)
                raise BlockTableError(
                    f"group {index}: {group.max_blocks} blocks of {group.block_size} tokens on "
                    f"{self.size} ranks hold more tokens than a 32-bit position counts; at most "
                    f"{room} blocks do",
                    field="max_blocks",
                    given=group.max_blocks,
                    limit=room,
                    group=index,
                )
            # else a run of tokens of one rank would cross the end of a kernel block
            if self.size > 1 and group.kernel_block_size % self.interleave:
                near = nearest_divisor(group.kernel_block_size, self.interleave)
                raise BlockTableError(
                    f"interleave {self.interleave} does not divide the kernel block of group "
                    f"{index} ({group.kernel_block_size} tokens); the nearest that does is {near}",
                    field="interleave",
                    given=self.interleave,
                    limit=near,
                    group=index,
                )


def table_groups(
    block_sizes: Sequence[int], kernel_block_sizes: Sequence[int], max_blocks: Sequence[int]
) -> tuple[TableGroup, ...]:
    """Build groups from three lists with one entry per group; other lengths are refused."""
    lists = {"kernel_block_sizes": kernel_block_sizes, "max_blocks": max_blocks}
    for name, values in {"block_sizes": block_sizes, **lists}.items():
        if not isinstance(values, Sequence):
            raise BlockTableError(
                f"{name} must be a list or a tuple, which can be read more than once; got "
                f"{type(values).__name__}",
                field=name,
                given=type(values).__name__,
            )
        if len(values) != len(block_sizes):
            raise BlockTableError(
                f"{name} has {len(values)} entries and block_sizes {len(block_sizes)}: give one of "
                "each for every group",
                field=name,
                given=len(values),
                limit=len(block_sizes),
            )
    return tuple(
        TableGroup(
            block_size=block_sizes[i],
            kernel_block_size=kernel_block_sizes[i],
            max_blocks=max_blocks[i],
        )
        for i in range(len(block_sizes))
    )


def checked_parallel(parallel: object) -> ContextParallel:
    """Return the parallelism, one rank for None; BlockTableError for anything else."""
    if isinstance(parallel, ContextParallel | None):
        return parallel or ContextParallel()
    raise BlockTableError(
        f"Invalid parallel {parallel!r}. Expected ContextParallel(size, rank, interleave), or None "
        "for one rank.",
        field="parallel",
        given=parallel,
    )


def checked_groups(groups: Sequence[TableGroup], num_blocks: int) -> tuple[TableGroup, ...]:
    """Return the groups; refuse what is not a group, and a pool beyond 32-bit kernel blocks."""
    if not isinstance(groups, Sequence):
        raise BlockTableError(
            f"Invalid groups {groups!r}. Expected a list or a tuple of TableGroup.",
            field="groups",
            given=groups,
        )
    groups = tuple(groups)
    if not groups:
        raise BlockTableError("groups must list at least one group", field="groups", limit=1)
    for index, group in enumerate(groups):
        if not isinstance(group, TableGroup):
            raise BlockTableError(
                f"Invalid groups[{index}] {group!r}. Expected "
                "TableGroup(block_size, kernel_block_size, max_blocks).",
                field="groups",
                given=group,
                index=index,
            )
    ratio = max(group.kernel_stride for group in groups)
    check_number("num_blocks", num_blocks, 1)
    if not 1 <= num_blocks <= LARGEST_INT32 // ratio:
        raise BlockTableError(
            f"num_blocks must be in 1..{LARGEST_INT32 // ratio}, so that kernel block ids fit in "
            f"32 bits at {ratio} per manager block; got {num_blocks}",
            field="num_blocks",
            given=num_blocks,
            limit=LARGEST_INT32 // ratio,
        )
    return groups


def nearest_divisor(number: int, wanted: int) -> int:
    """Return the divisor of `number` closest to `wanted`, the smaller one of a tie."""
    # divisors come in pairs, one of which is at most the square root
    small = [d for d in range(1, math.isqrt(number) + 1) if number % d == 0]
    divisors = sorted({*small, *(number // d for d in small)})
    return min(divisors, key=lambda divisor: (abs(divisor - wanted), divisor))


def refuse_newer(groups: Sequence[TableGroup], path: str, newer: str) -> None:
    """Refuse fields that only the path `newer` knows: BlockTableError."""
    for index, group in enumerate(groups):
        if field := group.needs_newer:
            raise BlockTableError(
                f"group {index}: path {path!r} has no {field}. Use path={newer!r}, or leave "
                f"{field} as it is by default.",
                field=field,
                given=getattr(group, field),
                group=index,
            )
