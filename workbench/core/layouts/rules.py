"""What differs between versions when a cache is laid out and its block tables are filled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from workbench.core.layouts.shapes import LAYOUT_NAMES


@dataclass(frozen=True, eq=False)
class LayoutRules:
    """Views and tables of one vLLM version."""

    names: tuple[str, ...] = LAYOUT_NAMES
    """What VLLM_KV_CACHE_LAYOUT may say."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Other names for the same layouts."""
    one_view: bool = False
    """The view of every backend is [block, head, token, content]; else each has a shape of its own
    (`Backend.cache`)."""
    rewrites_strides: bool = True
    """Whether hybrids may need the rewrite of #37236."""
    tables_hold_manager_blocks: bool = False
    """A block table has the ids that were handed out, and the attention group makes kernel blocks
    of them; else the table has kernel blocks."""
    rounds_rows_by_gcd: bool = False
    """Rows are widened to whole multiples of 128 tokens whatever the block is, and rows of states
    never."""
    v2_runner_checkpoints: bool = False
    """The V2 runner takes align mode."""
