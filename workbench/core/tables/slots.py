"""The slot of one token as a step of a trace: the rule that a reader can check by hand."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.core.tables.rows import KERNEL_BLOCKS, MANAGER_BLOCKS
from workbench.core.trace import Citation, Rule

TABLES = "v1/worker/gpu/block_table.py"


@dataclass(frozen=True, slots=True)
class SlotRules:
    """How a slot follows from a table, and kernel blocks from a manager block (#38831).

    unit: what an entry of the table is called in the formula of the slot.
    """

    unit: str
    slot: Rule
    slot_read_at: Citation
    blocks: Rule
    blocks_read_at: Citation


def _rules(
    unit: str, holds: str, made: str, slot_read_at: Citation, blocks_read_at: Citation
) -> SlotRules:
    slot = f"row[position // {unit}] * {unit} + position % {unit}, where row holds {holds} blocks"
    blocks = f"b * r, b * r + 1, ... b * r + r - 1, {made} manager // kernel"
    return SlotRules(
        unit=unit,
        slot=Rule("slot", "Slot of a token", f"{slot} and {unit} is their size", ""),
        slot_read_at=slot_read_at,
        blocks=Rule("kernel_blocks", "Kernel blocks of one manager block", blocks, ""),
        blocks_read_at=blocks_read_at,
    )


SLOT_RULES = {
    # Without context parallelism, as in the slot-mapping kernel of the V2 runner.
    KERNEL_BLOCKS: _rules(
        "k",
        "kernel",
        "where r is",
        Citation("0.23", TABLES, ("BlockTables.compute_slot_mappings",), "#38831"),
        Citation("0.23", TABLES, ("BlockTables.append_block_ids",), "#38831"),
    ),
    # The table keeps what was handed out; each attention group makes its own kernel blocks of it.
    MANAGER_BLOCKS: _rules(
        "b",
        "manager",
        "made by the attention group: r is",
        Citation("0.33", TABLES, ("BlockTables.compute_slot_mappings",)),
        Citation("0.33", "v1/worker/utils.py", ("AttentionGroup.map_to_kernel_block_table",)),
    ),
}
"""What a table holds -> its rules."""
