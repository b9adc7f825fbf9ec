"""The slot of one token as a step of a trace: the rule that a reader can check by hand.

Source: the slot-mapping kernel of the V2 runner in 0.23 (#38831), without context parallelism.
"""

from __future__ import annotations

from workbench.core.table_step import TableStep
from workbench.core.trace import Rule, Step

SLOT = Rule(
    "slot",
    "Slot of a token",
    "row[position // k] * k + position % k, where row holds kernel blocks and k is their size",
    "",
    "vLLM 0.23, #38831, compute_slot_mappings",
)
KERNEL_BLOCKS = Rule(
    "kernel_blocks",
    "Kernel blocks of one manager block",
    "b * r, b * r + 1, ... b * r + r - 1, where r is manager // kernel",
    "",
    "vLLM 0.23, #38831, BlockTables.append_block_ids",
)


def slot_step(step: TableStep, group: int, row: int, position: int) -> Step:
    """How the slot of `position` in batch row `row` comes about. Errors: ValueError outside."""
    shown = step.groups[group]
    column = position // shown.kernel_block_size
    table = shown.table[row]
    if position < 0 or column >= len(table):
        raise ValueError(
            f"position {position} has no block: row {row} covers positions 0 to "
            f"{len(table) * shown.kernel_block_size - 1}"
        )
    size = shown.kernel_block_size
    return Step(
        SLOT,
        {"position": position, "k": size, f"row[{column}]": table[column]},
        table[column] * size + position % size,
    )


def kernel_blocks_step(step: TableStep, group: int, block: int) -> Step:
    """What a manager block becomes in the kernel's table."""
    ratio = step.groups[group].ratio
    blocks = tuple(range(block * ratio, (block + 1) * ratio))
    return Step(KERNEL_BLOCKS, {"b": block, "r": ratio}, blocks)
