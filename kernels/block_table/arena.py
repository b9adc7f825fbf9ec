"""Rows of groups with different widths in one allocation."""

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.kernels.block_table.numbers import round_up

ROW_ALIGNMENT = 32
"""Entries: 128 bytes of int32, so that every row starts on a cache line and copies by 16 bytes."""


@dataclass(frozen=True, slots=True)
class Arena:
    """The index of entry [group, row, column]: bases[group] + row * strides[group] + column.

    All counts are entries. Strides and bases are multiples of ROW_ALIGNMENT.
    """

    widths: tuple[int, ...]
    strides: tuple[int, ...]
    bases: tuple[int, ...]
    size: int


def row_arena(widths: Sequence[int], rows: int) -> Arena:
    """Lay `rows` rows of every group out in one arena."""
    strides = tuple(round_up(width, ROW_ALIGNMENT) for width in widths)
    bases = tuple(sum(strides[:g]) * rows for g in range(len(strides)))
    return Arena(tuple(widths), strides, bases, sum(strides) * rows)
