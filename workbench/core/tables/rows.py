"""How wide a group's block table is, what its entries mean, and which blocks a request has in it.

Source: `BlockTables` of the V2 runner (#38831) for the widths, `MambaManager` for align mode,
`SlidingWindowManager` for windows, 0.23; `get_block_table_width`, `max_num_blocks_per_req` of the
specs and `AttentionGroup.map_to_kernel_block_table`, 0.33.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from workbench.core.arithmetic import cdiv
from workbench.core.groups.grouping import Group
from workbench.core.groups.layer_specs import ATTENTION_SPECS
from workbench.core.model import SLIDING
from workbench.core.plan import Plan

ROUNDED_UP_TO = 128
"""Rows of small blocks are widened to whole multiples of this many tokens, for TRT-LLM kernels."""
KEPT_STATES = 2
"""align: the running state and one checkpoint; what came before is the null block."""
MANAGER_BLOCKS, KERNEL_BLOCKS = "manager blocks", "kernel blocks"


def table_holds(plan: Plan) -> str:
    """Return what an entry of a block table is: MANAGER_BLOCKS or KERNEL_BLOCKS."""
    return MANAGER_BLOCKS if plan.rules.layouts.tables_hold_manager_blocks else KERNEL_BLOCKS


def row_blocks(plan: Plan, group: Group) -> int:
    """Return the manager blocks that one row of the group's table has room for."""
    size = group.spec.block_size
    blocks = cdiv(plan.max_model_len, size)
    if plan.rules.layouts.rounds_rows_by_gcd:
        return _row_blocks_by_spec(plan, group, blocks)
    if size <= ROUNDED_UP_TO:
        unit = ROUNDED_UP_TO // size
        blocks = cdiv(blocks, unit) * unit
    if group.spec.is_mamba:
        held = blocks if plan.enable_prefix_caching else 1
        return held + plan.settings.num_speculative_tokens
    return blocks


def _row_blocks_by_spec(plan: Plan, group: Group, blocks: int) -> int:
    """Return the row size of 0.33: for states what they need, else a multiple of 128 tokens."""
    if group.spec.is_mamba:
        held = blocks if plan.mamba_cache_mode == "align" else 1
        return held + plan.settings.num_speculative_tokens
    unit = ROUNDED_UP_TO // gcd(ROUNDED_UP_TO, group.spec.block_size)
    return cdiv(blocks, unit) * unit


def expanded_row(row: Sequence[int], ratio: int, stride: int | None = None) -> tuple[int, ...]:
    """Expand manager blocks to the kernel blocks that the attention group makes of them (0.33).

    Block b becomes b * stride + t, t from 0 to ratio - 1. stride: kernel pages from one block to
    the next, more than `ratio` where other layers' pages are in between. Errors: ValueError for a
    stride below the ratio.
    """
    step = ratio if stride is None else stride
    if ratio < 1 or step < ratio:
        raise ValueError(f"a block of {ratio} kernel blocks needs a stride of {ratio}; got {step}.")
    return tuple(block * step + part for block in row for part in range(ratio))


def capacity_text(request: int, group: int, entries: int, capacity: int) -> str | None:
    """Return vLLM 0.33's message where a row has too few entries; None where they fit.

    0.23 checks nothing.
    """
    if entries <= capacity:
        return None
    return (
        f"Block table write for request {request}, group {group} exceeds row capacity "
        f"({entries} > {capacity})"
    )


def row_length(plan: Plan, group: Group, tokens: int) -> int:
    """Return the entries that a request of `tokens` tokens has in its row, null blocks included."""
    if not group.spec.is_mamba:
        return cdiv(tokens, group.spec.block_size)
    drafts = plan.settings.num_speculative_tokens
    if plan.mamba_cache_mode == "none":
        return (1 if tokens else 0) + (drafts if tokens else 0)
    return cdiv(tokens, group.spec.block_size) + (drafts if tokens else 0)


def null_entries(plan: Plan, group: Group, length: int, computed_tokens: int = 0) -> int:
    """Return how many of a row's first entries are the null block.

    computed_tokens: of the request, before the step; what is before their window is dropped.
    """
    window = group.spec.window_tokens
    if window is not None and group.spec.kind == ATTENTION_SPECS[SLIDING]:
        return min(length, max(0, computed_tokens - (window - 1)) // group.spec.block_size)
    if not group.spec.is_mamba or plan.mamba_cache_mode != "align":
        return 0
    return max(0, length - KEPT_STATES - plan.settings.num_speculative_tokens)
