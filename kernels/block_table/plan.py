"""How the fast path's launches are cut: tiles and layout, fixed when the tables are made."""

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
SLOTS, TABLE = 0, 1


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """What each program of the second launch does, for every batch up to the maxima.

    entries: int32 [programs, 4] as gather_and_slots_kernel reads them, tiles of slots first.
    A tile of a table has `rows` x `columns` entries: many short rows share a program, and one
    long row is shared by many.
    """

    entries: NDArray[np.int32]
    slot_tiles: int
    rows: int
    columns: int


def launch_plan(
    tables: Arena,
    *,
    max_requests: int,
    max_tokens: int,
    entries: int = TILE_ENTRIES,
    columns: int | None = None,
    tokens: int = TOKENS,
) -> LaunchPlan:
    """List the tiles over max_tokens slots and max_requests rows of every group."""
    # rows of at most two cache lines: more columns would mostly be masked off
    columns = columns or (NARROW if max(tables.strides) <= 2 * NARROW else WIDE)
    rows = min(entries // columns, 1 << (max_requests - 1).bit_length())
    groups = range(len(tables.strides))
    # slots first: each kind is then one slice of the entries, to launch alone
    slots = [(g, SLOTS, first, 0) for g in groups for first in range(0, max_tokens, tokens)]
    tiles = [
        (g, TABLE, row, column)
        for g in groups
        for row in range(0, max_requests, rows)
        for column in range(0, tables.strides[g], columns)
    ]
    return LaunchPlan(np.array(slots + tiles, dtype=np.int32), len(slots), rows, columns)


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
