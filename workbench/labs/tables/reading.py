"""Read block tables back after a step, and compare them with the oracle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from workbench.core.groups.grouping import Group
from workbench.core.plan import Plan
from workbench.core.tables.rows import MANAGER_BLOCKS, table_holds
from workbench.core.tables.step import GroupStep, StepRow
from workbench.kernels.block_table.api import BlockTables
from workbench.kernels.block_table.groups import TableGroup


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
    """Return the first entry in which device and oracle differ, with tails and padded rows.

    expected: of the oracle, by group and row of the batch; slots: by group.
    """
    for index, group in enumerate(groups):
        table = tables.block_table[index].cpu()
        for row, wanted in enumerate(expected[index]):
            if (found := _entries(table, row, len(wanted))) != wanted:
                return f"group {group.name}, row {row}: {_first(found, wanted)}"
        if group.slots != slots[index]:
            return f"group {group.name}, slots: {_first(group.slots, slots[index])}"
    return None


def _entries(table: torch.Tensor, row: int, count: int) -> tuple[int, ...]:
    return tuple(table[row, :count].tolist())


def _first(found: Sequence[int], wanted: Sequence[int]) -> str:
    for index, (ours, theirs) in enumerate(zip(found, wanted, strict=True)):
        if ours != theirs:
            return f"entry {index} is {ours}, the oracle has {theirs}"
    return f"{len(found)} entries, the oracle has {len(wanted)}"
