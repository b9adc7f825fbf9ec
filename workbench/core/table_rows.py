"""How wide a group's block table is, and which blocks a request has in it (0.23).

Source: `BlockTables` of the V2 runner (#38831) for the widths, `MambaManager` for align mode,
`SlidingWindowManager` for windows.
"""

from __future__ import annotations

from workbench.core.arithmetic import cdiv
from workbench.core.groups import Group
from workbench.core.layer_specs import ATTENTION_SPECS
from workbench.core.model import SLIDING
from workbench.core.plan import Plan

ROUNDED_UP_TO = 128
"""Rows of small blocks are widened to whole multiples of this many tokens, for TRT-LLM kernels."""
KEPT_STATES = 2
"""align: the running state and one checkpoint; what came before is the null block."""


def row_blocks(plan: Plan, group: Group) -> int:
    """Manager blocks that one row of the group's table has room for."""
    size = group.spec.block_size
    blocks = cdiv(plan.max_model_len, size)
    if size <= ROUNDED_UP_TO:
        unit = ROUNDED_UP_TO // size
        blocks = cdiv(blocks, unit) * unit
    if group.spec.is_mamba:
        held = blocks if plan.prefix_caching else 1
        return held + plan.settings.num_speculative_tokens
    return blocks


def row_length(plan: Plan, group: Group, tokens: int) -> int:
    """Entries that a request of `tokens` tokens has in its row, null blocks included."""
    if not group.spec.is_mamba:
        return cdiv(tokens, group.spec.block_size)
    drafts = plan.settings.num_speculative_tokens
    if plan.mamba_cache_mode == "none":
        return (1 if tokens else 0) + (drafts if tokens else 0)
    return cdiv(tokens, group.spec.block_size) + (drafts if tokens else 0)


def null_entries(plan: Plan, group: Group, length: int, computed_tokens: int = 0) -> int:
    """How many of a row's first entries are the null block.

    computed_tokens: of the request, before the step; what lies before their window is dropped.
    """
    window = group.spec.window_tokens
    if window is not None and group.spec.kind == ATTENTION_SPECS[SLIDING]:
        return min(length, max(0, computed_tokens - (window - 1)) // group.spec.block_size)
    if not group.spec.is_mamba or plan.mamba_cache_mode != "align":
        return 0
    return max(0, length - KEPT_STATES - plan.settings.num_speculative_tokens)
