"""One step of block tables, as values.

What was requested, what the kernels wrote, what it means.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from workbench.core.tables.rows import KERNEL_BLOCKS, expanded_row


@dataclass(frozen=True, slots=True)
class StepRow:
    """One row of the batch: which request, and its tokens after this step."""

    request: int
    query_tokens: int
    sequence_tokens: int


@dataclass(frozen=True)
class GroupStep:
    """One group after a step. Sizes in tokens.

    table_holds: what an entry of the table is, of `kernel_block_size` tokens each; where it is a
    manager block (0.33), attention_kernel_block_size is what the attention group makes of it.

    blocks: [batch row][manager block] -> physical manager block, as handed out.
    source: the same rows as the device has them, in units of `source_holds`.
    table: [batch row][kernel block] -> physical kernel block, live entries only.
    slots: [token] -> slot, padding included.
    """

    name: str
    is_mamba: bool
    block_size: int
    kernel_block_size: int
    blocks: tuple[tuple[int, ...], ...]
    source: tuple[tuple[int, ...], ...]
    source_holds: str
    table: tuple[tuple[int, ...], ...]
    slots: tuple[int, ...]
    table_holds: str = KERNEL_BLOCKS
    attention_kernel_block_size: int | None = None

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
class Counted:
    """What the launches of a step moved, counted element by element in the interpreter."""

    launches: int
    programs: int
    loads: int
    stores: int
    bytes_moved: int


@dataclass(frozen=True, slots=True)
class TableStep:
    """A step of real kernels. positions, owners: [token] -> position, batch row.

    target: what the kernels were compiled for; None in the interpreter. mismatch: the first
    difference from the oracle, None when all entries agree. counted: in the interpreter only;
    gpu_us: on a GPU only, and only after the check passed. is_sample_pool: the plan does not know
    its memory, so free_blocks are those of a pool of any size.
    """

    title: str
    path: str
    mode: str
    device: str
    target: str | None
    rows: tuple[StepRow, ...]
    groups: tuple[GroupStep, ...]
    positions: tuple[int, ...]
    owners: tuple[int, ...]
    free_blocks: int
    mismatch: str | None
    counted: Counted | None = None
    gpu_us: float | None = None
    is_sample_pool: bool = False

    @property
    def num_tokens(self) -> int:
        """Return the tokens before any padding."""
        return len(self.positions)
