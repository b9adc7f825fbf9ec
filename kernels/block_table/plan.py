"""How the fast path's launches are cut: tiles of a step's live maxima, and the groups' layout."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from workbench.kernels.block_table.arena import Arena
from workbench.kernels.block_table.groups import TableGroup
from workbench.kernels.block_table.numbers import is_power_of_two, multiplier_and_shift

TILE_ENTRIES = 2048
NARROW, WIDE = 32, 128
"""Columns of a table tile: one cache line where all rows are short, else one line a warp row."""

TOKENS = 512


@dataclass(frozen=True, slots=True)
class Cuts:
    """Tiles of the second launch: `rows` x `columns` entries of a table, or `tokens` slots.

    Many short rows share a tile, and one long row is shared by many.
    """

    rows: int
    columns: int
    tokens: int

    def row_tiles(self, padded: int) -> int:
        """Return the tiles that the batch's rows are cut into."""
        return -(-padded // self.rows)

    def first_tiles(self, padded: int, widths: Sequence[int]) -> list[int]:
        """Return the first table tile of every group, and the end; widths: entries of its rows."""
        firsts, rows = [0], self.row_tiles(padded)
        for width in widths:
            firsts.append(firsts[-1] + rows * -(-width // self.columns))
        return firsts


def cuts_of(
    tables: Arena,
    *,
    max_requests: int,
    entries: int = TILE_ENTRIES,
    columns: int | None = None,
    tokens: int = TOKENS,
) -> Cuts:
    """Return the tiles for tables of max_requests rows, with so many entries each."""
    # rows of at most two cache lines: more columns would mostly be masked off
    columns = columns or (NARROW if max(tables.strides) <= 2 * NARROW else WIDE)
    return Cuts(min(entries // columns, 1 << (max_requests - 1).bit_length()), columns, tokens)


@dataclass(frozen=True, slots=True)
class GroupLayout:
    """Return the groups' row positions and divisors: int64 [groups, fields] for the kernels."""

    fields: NDArray[np.int64]
    power_of_two: bool


def group_layout(
    groups: Sequence[TableGroup], sources: Arena, tables: Arena, *, ranks: int, num_fields: int
) -> GroupLayout:
    """Return the fields of fast_fields, in its order, padded with 0."""
    fields = np.zeros((len(groups), num_fields), dtype=np.int64)
    for g, group in enumerate(groups):
        span = group.block_size * ranks
        row = (
            sources.bases[g],
            sources.strides[g],
            tables.bases[g],
            tables.strides[g],
            group.ratio,
            *multiplier_and_shift(group.ratio),
            group.block_size,
            span,
            *multiplier_and_shift(span),
        )
        fields[g, : len(row)] = row
    # one kernel for all groups: shifts only if every divisor is a power of two
    divisors = [d for group in groups for d in (group.ratio, group.block_size * ranks)]
    return GroupLayout(fields, all(map(is_power_of_two, divisors)))
