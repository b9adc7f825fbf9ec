"""The slot of one token as a step of a trace: the rule that a reader can check by hand.

Source: the slot-mapping kernel of the V2 runner in 0.23 (#38831) and in 0.33, without context
parallelism.
"""

from __future__ import annotations

from workbench.core.tables.rows import MANAGER_BLOCKS
from workbench.core.tables.step import GroupStep, TableStep
from workbench.core.trace import Citation, Rule, Step

SLOT = Rule(
    "slot",
    "Slot of a token",
    "row[position // k] * k + position % k, where row holds kernel blocks and k is their size",
    "",
)
KERNEL_BLOCKS = Rule(
    "kernel_blocks",
    "Kernel blocks of one manager block",
    "b * r, b * r + 1, ... b * r + r - 1, where r is manager // kernel",
    "",
)

SLOT_OF_MANAGER_BLOCK = Rule(
    "slot",
    "Slot of a token",
    "row[position // b] * b + position % b, where row holds manager blocks and b is their size",
    "",
)
KERNEL_BLOCKS_AT_ATTENTION = Rule(
    "kernel_blocks",
    "Kernel blocks of one manager block",
    "b * r, b * r + 1, ... b * r + r - 1, made by the attention group: r is manager // kernel",
    "",
)

_TABLES = "v1/worker/gpu/block_table.py"
_SLOTS = {
    "kernel blocks": Citation("0.23", _TABLES, ("BlockTables.compute_slot_mappings",), "#38831"),
    MANAGER_BLOCKS: Citation("0.33", _TABLES, ("BlockTables.compute_slot_mappings",)),
}
_BLOCKS = {
    "kernel blocks": Citation("0.23", _TABLES, ("BlockTables.append_block_ids",), "#38831"),
    MANAGER_BLOCKS: Citation(
        "0.33", "v1/worker/utils.py", ("AttentionGroup.map_to_kernel_block_table",)
    ),
}
"""What a table holds -> where vLLM has the rule."""


def _of_managers(group: GroupStep) -> bool:
    return group.table_holds == MANAGER_BLOCKS


def slot_step(step: TableStep, group: int, row: int, position: int) -> Step:
    """Return how the slot of `position` in batch row `row` is computed.

    Errors: ValueError outside.
    """
    shown = step.groups[group]
    column = position // shown.kernel_block_size
    table = shown.table[row]
    if position < 0 or column >= len(table):
        raise ValueError(
            f"position {position} has no block: row {row} covers positions 0 to "
            f"{len(table) * shown.kernel_block_size - 1}"
        )
    size = shown.kernel_block_size
    unit = "b" if _of_managers(shown) else "k"
    return Step(
        SLOT_OF_MANAGER_BLOCK if _of_managers(shown) else SLOT,
        {"position": position, unit: size, f"row[{column}]": table[column]},
        table[column] * size + position % size,
        citation=_SLOTS[shown.table_holds],
    )


def kernel_blocks_step(step: TableStep, group: int, block: int) -> Step:
    """Return what a manager block becomes in the table that the attention kernel is given."""
    ratio = step.groups[group].attention_ratio
    blocks = tuple(range(block * ratio, (block + 1) * ratio))
    rule = KERNEL_BLOCKS_AT_ATTENTION if _of_managers(step.groups[group]) else KERNEL_BLOCKS
    citation = _BLOCKS[step.groups[group].table_holds]
    return Step(rule, {"b": block, "r": ratio}, blocks, citation=citation)
