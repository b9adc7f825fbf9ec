"""Which blocks of the pool the requests hold, group by group; what the tables say of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.core.errors import WorkbenchError
from workbench.core.groups.grouping import Group
from workbench.core.plan import Plan
from workbench.core.ranks import shared_tokens_text
from workbench.core.tables.batch_grammar import BatchRequest
from workbench.core.tables.block_pool import NULL_BLOCK, BlockPool, PoolIsEmptyError
from workbench.core.tables.rows import (
    MANAGER_BLOCKS,
    capacity_text,
    null_entries,
    row_blocks,
    row_length,
    table_holds,
)
from workbench.core.tables.step import GroupStep, StepRow
from workbench.kernels.block_table.groups import TableGroup

if TYPE_CHECKING:
    from torch import Tensor

    from workbench.kernels.block_table.api import BlockTables

SAMPLE_BLOCKS = 4096
"""Blocks of the pool while the plan's memory is unknown."""


class TableSessionError(WorkbenchError):
    """A step that cannot be done; nothing has changed."""

    def __init__(self, message: str) -> None:
        super().__init__("step_not_possible", message)


@dataclass
class Request:
    """A live request: its row of the tables, and its tokens."""

    row: int
    tokens: int


@dataclass(frozen=True)
class Growth:
    """A request, the tokens it will have after a step, and how many of them are new."""

    request: Request
    tokens: int
    new_tokens: int

    @classmethod
    def first(cls, row: int, request: BatchRequest) -> Growth:
        """Return the first step of a request of a batch in a row of the tables."""
        return cls(Request(row, 0), request.sequence_tokens, request.query_tokens)


def table_groups(plan: Plan) -> tuple[tuple[Group, TableGroup], ...]:
    """Return the plan's groups for the tables. Errors: ValueError without a common block.

    Where tables hold manager blocks (0.33), these are the kernels' blocks: nothing is split here.
    """
    if text := shared_tokens_text(plan.settings, "The table of a block"):
        raise TableSessionError(text)
    cache, found = plan.built_cache(), []
    whole = table_holds(plan) == MANAGER_BLOCKS
    for group, kernel in zip(cache.groups, cache.kernel_block_sizes, strict=True):
        if kernel is None:
            raise TableSessionError(
                f"No kernel block divides {group.spec.block_size} tokens: see plan.problems."
            )
        size = group.spec.block_size
        shape = TableGroup(
            block_size=size,
            kernel_block_size=size if whole else kernel,
            max_blocks=row_blocks(plan, group),
        )
        found.append((group, shape))
    return tuple(found)


def check_lengths(plan: Plan, wanted: Sequence[Growth]) -> None:
    """Refuse requests that the model cannot hold. Errors: TableSessionError."""
    longest = max(growth.tokens for growth in wanted)
    if longest > plan.max_model_len:
        raise TableSessionError(
            f"a request of {longest:,} tokens is longer than max_model_len ({plan.max_model_len:,})"
        )


class HeldBlocks:
    """The pool of a plan, and who has what of it. Errors: TableSessionError for a pool of nothing.

    of: row of a request -> ids by group, in the order of its tokens. is_sample: the plan does not
    know its memory, and the pool has SAMPLE_BLOCKS.
    """

    def __init__(self, plan: Plan, groups: Sequence[tuple[Group, TableGroup]]) -> None:
        num_blocks = plan.built_cache().blocks_or(SAMPLE_BLOCKS)
        self.is_sample = plan.built_cache().num_blocks is None
        if num_blocks <= 1:
            raise TableSessionError(
                f"the pool has {num_blocks} blocks, and the first is the null block: nothing can "
                "be stored. Give the cache more memory (kv_cache_memory_bytes)."
            )
        self.pool = BlockPool(num_blocks)
        self.of: dict[int, list[list[int]]] = {}
        self._plan = plan
        self._groups = groups

    def check(self, wanted: Sequence[Growth], ending: Request | None) -> None:
        """Refuse what the pool or a row cannot hold after `ending` has freed its blocks.

        Errors: PoolIsEmptyError, TableSessionError.
        """
        freed = 0 if ending is None else sum(map(_real_blocks, self.of[ending.row]))
        needed = sum(
            self._entries_wanted(group, growth, len(blocks))[2]
            for growth in wanted
            for (group, _shape), blocks in zip(
                self._groups, self._by_group(growth.request), strict=True
            )
        )
        if needed > self.pool.free_blocks + freed:
            raise PoolIsEmptyError(needed, self.pool.free_blocks + freed)
        for growth in wanted:
            for number, (group, shape) in enumerate(self._groups):
                entries = row_length(self._plan, group, growth.tokens)
                message = capacity_text(growth.request.row, number, entries, shape.max_blocks)
                if message is not None:
                    raise TableSessionError(message)

    def grow(self, growth: Growth) -> tuple[list[list[int]], bool]:
        """Give a request blocks for its tokens; states that align mode drops become null blocks.

        Returns the new ids by group, and whether ids that it had before were replaced.
        """
        by_group = self.of.setdefault(growth.request.row, [[] for _ in self._groups])
        new, replaced = [], False
        for (group, _shape), row in zip(self._groups, by_group, strict=True):
            before = len(row)
            nulls, skipped, taken = self._entries_wanted(group, growth, before)
            row.extend([NULL_BLOCK] * skipped)
            row.extend(self.pool.take(taken))
            if dropped := [block for block in row[:nulls] if block != NULL_BLOCK]:
                self.pool.give_back(dropped)
                row[:nulls] = [NULL_BLOCK] * nulls
                replaced = True
            new.append(row[before:])
        return new, replaced

    def give_back(self, row: int) -> None:
        """Free all blocks of the request in `row`."""
        for blocks in self.of.pop(row):
            self.pool.give_back(blocks)

    def move(self, source: int, target: int) -> None:
        """Move the request in row `source` to row `target`."""
        self.of[target] = self.of.pop(source)

    def _entries_wanted(self, group: Group, growth: Growth, held: int) -> tuple[int, int, int]:
        """Return the grown row's null entries, and its numbers of new null and real blocks."""
        length = row_length(self._plan, group, growth.tokens)
        computed = growth.tokens - growth.new_tokens
        nulls = null_entries(self._plan, group, length, computed)
        new = max(0, length - held)
        skipped = min(new, max(0, nulls - held))
        return nulls, skipped, new - skipped

    def _by_group(self, request: Request) -> list[list[int]]:
        return self.of.get(request.row) or [[] for _ in self._groups]


def _real_blocks(row: Sequence[int]) -> int:
    return sum(block != NULL_BLOCK for block in row)


def group_steps(
    plan: Plan,
    groups: Sequence[tuple[Group, TableGroup]],
    tables: BlockTables,
    rows: Sequence[StepRow],
    blocks: Mapping[int, Sequence[Sequence[int]]],
) -> tuple[GroupStep, ...]:
    """Read every group's tables and slots, as far as the batch uses them.

    rows: the batch; blocks: row of a request -> the ids that it holds, by group.
    """
    counts = tables.counts()
    holds, kernels = table_holds(plan), plan.built_cache().kernel_block_sizes
    found = []
    for index, (group, shape) in enumerate(groups):
        live = [int(counts[index, row.request]) for row in rows]
        table = tables.block_table[index].cpu()
        source = tables.source_table[index].cpu()
        unit = 1 if tables.source_holds == "kernel blocks" else shape.ratio
        found.append(
            GroupStep(
                name=f"{index}: {group.spec.kind.removesuffix('Spec')}",
                is_mamba=group.spec.is_mamba,
                block_size=shape.block_size,
                kernel_block_size=shape.kernel_block_size,
                blocks=tuple(tuple(blocks[row.request][index]) for row in rows),
                source=tuple(
                    _entries(source, row.request, count // unit)
                    for row, count in zip(rows, live, strict=True)
                ),
                source_holds=holds if holds == MANAGER_BLOCKS else tables.source_holds,
                table=tuple(_entries(table, i, count) for i, count in enumerate(live)),
                slots=tuple(tables.slot_mapping[index].tolist()),
                table_holds=holds,
                attention_kernel_block_size=kernels[index] if holds == MANAGER_BLOCKS else None,
            )
        )
    return tuple(found)


def first_mismatch(
    groups: Sequence[GroupStep],
    tables: BlockTables,
    expected: Sequence[Sequence[tuple[int, ...]]],
    slots: Sequence[tuple[int, ...]],
) -> str | None:
    """Return the first entry in which device and reference differ, with tails and padded rows.

    expected: of the reference, by group and row of the batch; slots: by group.
    """
    for index, group in enumerate(groups):
        table = tables.block_table[index].cpu()
        for row, wanted in enumerate(expected[index]):
            if (found := _entries(table, row, len(wanted))) != wanted:
                return f"group {group.name}, row {row}: {_first(found, wanted)}"
        if group.slots != slots[index]:
            return f"group {group.name}, slots: {_first(group.slots, slots[index])}"
    return None


def _entries(table: Tensor, row: int, count: int) -> tuple[int, ...]:
    return tuple(table[row, :count].tolist())


def _first(found: Sequence[int], wanted: Sequence[int]) -> str:
    for index, (ours, theirs) in enumerate(zip(found, wanted, strict=True)):
        if ours != theirs:
            return f"entry {index} is {ours}, the reference has {theirs}"
    return f"{len(found)} entries, the reference has {len(wanted)}"
