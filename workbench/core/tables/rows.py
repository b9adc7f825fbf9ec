"""How wide a group's block table is, what an entry means, and which blocks a request has in it."""

from collections.abc import Sequence
from math import gcd

from workbench.core.arithmetic import cdiv, round_up
from workbench.core.groups.cache_spec import ATTENTION_SPECS
from workbench.core.groups.grouping import Group
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
    size, drafts = group.spec.block_size, plan.settings.num_speculative_tokens
    blocks = cdiv(plan.max_model_len, group.spec.span_tokens)
    if plan.rules.layouts.rounds_rows_by_gcd:
        # 0.33, get_block_table_width and max_num_blocks_per_req of the specs: states get what they
        # need, other rows whole multiples of 128 tokens whatever the block is.
        if group.spec.is_mamba:
            return (blocks if plan.mamba_cache_mode == "align" else 1) + drafts
        return round_up(blocks, ROUNDED_UP_TO // gcd(ROUNDED_UP_TO, size))
    # 0.23, BlockTables of the V2 runner (#38831): rows of states are rounded up like others.
    # Larger blocks hold 128 tokens anyway.
    if size <= ROUNDED_UP_TO:
        blocks = round_up(blocks, ROUNDED_UP_TO // size)
    if group.spec.is_mamba:
        return (blocks if plan.enable_prefix_caching else 1) + drafts
    return blocks


def expanded_row(row: Sequence[int], ratio: int) -> tuple[int, ...]:
    """Expand manager blocks to the kernel blocks that the attention group makes of them (0.33)."""
    return tuple(block * ratio + part for block in row for part in range(ratio))


def capacity_text(request: int, group: int, entries: int, capacity: int) -> str | None:
    """Return vLLM 0.33's message where a row has too few entries; None where they fit."""
    # 0.23 checks nothing.
    if entries <= capacity:
        return None
    return (
        f"Block table write for request {request}, group {group} exceeds row capacity "
        f"({entries} > {capacity})"
    )


def row_length(plan: Plan, group: Group, tokens: int) -> int:
    """Return the entries that a request of `tokens` tokens has in its row, null blocks included."""
    blocks = cdiv(tokens, group.spec.span_tokens)
    if not group.spec.is_mamba or not tokens:
        return blocks
    # Without checkpoints one state serves the whole request; each draft has a state in any mode.
    # Columns are positions in the other modes, also those whose state is gone.
    kept = 1 if plan.mamba_cache_mode == "none" else blocks
    return kept + plan.settings.num_speculative_tokens


def null_entries(plan: Plan, group: Group, length: int, computed_tokens: int = 0) -> int:
    """Return how many of a row's first entries are null blocks, before a step of the request."""
    window = group.spec.window_tokens
    # SlidingWindowManager drops what is before the window of the computed tokens.
    if window is not None and group.spec.kind == ATTENTION_SPECS[SLIDING]:
        return min(length, max(0, computed_tokens - (window - 1)) // group.spec.block_size)
    if not group.spec.is_mamba or plan.mamba_cache_mode != "align":
        return 0
    # MambaManager in align mode: what came before the checkpoint is the null block.
    return max(0, length - KEPT_STATES - plan.settings.num_speculative_tokens)
