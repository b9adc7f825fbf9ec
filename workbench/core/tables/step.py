"""One step of block tables: what was requested, what the kernels wrote, what it means."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from workbench.core.tables.rows import KERNEL_BLOCKS, MANAGER_BLOCKS, expanded_row
from workbench.core.trace import Citation, Rule, Step

TABLES = "v1/worker/gpu/block_table.py"


def _slot(unit: str, holds: str) -> Rule:
    formula = f"row[position // {unit}] * {unit} + position % {unit}, where row holds {holds}"
    return Rule("slot", "Slot of a token", f"{formula} and {unit} is their size", "")


def _blocks(where: str) -> Rule:
    formula = f"b * r, b * r + 1, ... b * r + r - 1, {where} manager // kernel"
    return Rule("kernel_blocks", "Kernel blocks of one manager block", formula, "")


# Without context parallelism, as in the slot-mapping kernel of the V2 runner (#38831). In 0.33 the
# table keeps what was handed out, and each attention group makes its own kernel blocks of it.
SLOTS = {
    KERNEL_BLOCKS: (
        _slot("k", KERNEL_BLOCKS),
        Citation("0.23", TABLES, ("BlockTables.compute_slot_mappings",), "#38831"),
    ),
    MANAGER_BLOCKS: (
        _slot("b", MANAGER_BLOCKS),
        Citation("0.33", TABLES, ("BlockTables.compute_slot_mappings",)),
    ),
}
BLOCKS = {
    KERNEL_BLOCKS: (
        _blocks("where r is"),
        Citation("0.23", TABLES, ("BlockTables.append_block_ids",), "#38831"),
    ),
    MANAGER_BLOCKS: (
        _blocks("made by the attention group: r is"),
        Citation("0.33", "v1/worker/utils.py", ("AttentionGroup.map_to_kernel_block_table",)),
    ),
}
"""What a table holds -> its rule, and where vLLM has it."""


@dataclass(frozen=True, slots=True)
class StepRow:
    """One row of the batch: which request, and its tokens after this step."""

    request: int
    query_tokens: int
    sequence_tokens: int


@dataclass(frozen=True)
class GroupStep:
    """One group after a step. Sizes in tokens."""

    name: str
    is_mamba: bool
    block_size: int
    kernel_block_size: int
    blocks: tuple[tuple[int, ...], ...]
    """[batch row][manager block] -> physical manager block, as handed out."""
    source: tuple[tuple[int, ...], ...]
    """The same rows as the device has them, in units of `source_holds`."""
    source_holds: str
    table: tuple[tuple[int, ...], ...]
    """[batch row][kernel block] -> physical kernel block, live entries only."""
    slots: tuple[int, ...]
    """[token] -> slot, padding included."""
    table_holds: str = KERNEL_BLOCKS
    """What an entry of the table is, of `kernel_block_size` tokens each."""
    attention_kernel_block_size: int | None = None
    """What the attention group makes of a manager block, where an entry is one (0.33)."""

    @property
    def ratio(self) -> int:
        """Return the entries of the table for one manager block."""
        return self.block_size // self.kernel_block_size

    @property
    def attention_ratio(self) -> int:
        """Return the kernel blocks in one manager block, as the attention kernel sees them."""
        return self.block_size // (self.attention_kernel_block_size or self.kernel_block_size)

    @cached_property
    def attention_table(self) -> tuple[tuple[int, ...], ...]:
        """Return [batch row][kernel block] -> physical kernel block, as attention is given it."""
        if self.attention_kernel_block_size is None:
            return self.table
        return tuple(expanded_row(row, self.attention_ratio) for row in self.table)


@dataclass(frozen=True, slots=True)
class AccessCounts:
    """What the launches of a step moved, counted element by element in the interpreter."""

    launches: int
    programs: int
    loads: int
    stores: int
    bytes_moved: int

    def __str__(self) -> str:
        return (
            f"{self.launches} launches of {self.programs:,} programs, {self.loads:,} loads and "
            f"{self.stores:,} stores, {self.bytes_moved:,} bytes"
        )


@dataclass(frozen=True, slots=True)
class TableStep:
    """A step of real kernels."""

    title: str
    path: str
    mode: str
    device: str
    target: str | None
    """What the kernels were compiled for; None in the interpreter."""
    rows: tuple[StepRow, ...]
    groups: tuple[GroupStep, ...]
    positions: tuple[int, ...]
    """[token] -> position."""
    owners: tuple[int, ...]
    """[token] -> batch row."""
    free_blocks: int
    mismatch: str | None
    """The first difference from the reference, None when all entries agree."""
    counted: AccessCounts | None = None
    """Counted in the interpreter only."""
    gpu_us: float | None = None
    """Measured on a GPU only, and only after the check passed."""
    is_sample_pool: bool = False
    """The plan does not know its memory, so free_blocks are those of a pool of any size."""

    @property
    def num_tokens(self) -> int:
        """Return the tokens before any padding."""
        return len(self.positions)

    @property
    def agrees(self) -> bool:
        """Return whether every entry equals that of the reference."""
        return self.mismatch is None

    @property
    def attention_group(self) -> int:
        """Return the index of the first group with attention layers. Errors: ValueError."""
        for index, group in enumerate(self.groups):
            if not group.is_mamba:
                return index
        raise ValueError("this model has no attention layer")

    def slot(self, group: int, row: int, position: int) -> Step:
        """Return how the slot of a token is computed. Errors: ValueError outside the row."""
        # The size is that of the table's entries. With the manager's size slots are wrong, and
        # nothing crashes: the answers of the model get worse (vllm#27753).
        shown = self.groups[group]
        (rule, read_at), table = SLOTS[shown.table_holds], shown.table[row]
        size, unit = shown.kernel_block_size, "b" if shown.table_holds == MANAGER_BLOCKS else "k"
        column = position // size
        if position < 0 or column >= len(table):
            raise ValueError(
                f"position {position} has no block: row {row} covers positions 0 to "
                f"{len(table) * size - 1}"
            )
        operands = {"position": position, unit: size, f"row[{column}]": table[column]}
        result = table[column] * size + position % size
        return Step(rule, operands, result, citation=read_at)

    def kernel_blocks(self, group: int, block: int) -> Step:
        """Return how a manager block becomes the kernel blocks that attention is given."""
        shown = self.groups[group]
        (rule, read_at), ratio = BLOCKS[shown.table_holds], shown.attention_ratio
        blocks = tuple(range(block * ratio, (block + 1) * ratio))
        return Step(rule, {"b": block, "r": ratio}, blocks, citation=read_at)

    def figure(self, group: int | None = None, theme: str = "auto") -> Any:
        """Return the plotly figure of a group's rows, by default of the first with attention."""
        from workbench.views.tables.figure import block_tables

        return block_tables(self, self.attention_group if group is None else group, theme)

    def slot_figure(self, group: int | None = None, theme: str = "auto") -> Any:
        """Return the plotly figure of the tokens' slots, by default of the first with attention."""
        from workbench.views.tables.figure import slot_map

        return slot_map(self, self.attention_group if group is None else group, theme)

    def __repr__(self) -> str:
        from workbench.views.tables.text import step_text

        return step_text(self)

    def _repr_html_(self) -> str:
        from workbench.views.tables.text import step_html

        return step_html(self)
