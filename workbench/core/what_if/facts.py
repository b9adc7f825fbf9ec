"""The numbers of a plan that versions are compared by, and the steps that may decide each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from workbench.core.plan import Plan
from workbench.core.prefix.hits import caching_of, smallest_prefix

FINAL_BLOCK = ("xpu_default_block_size", "xpu_gdn_block_size", "block_size", "preferred_block_size")
"""The steps that may decide the block size, the last word first."""


@dataclass(frozen=True)
class Fact:
    """A number to compare: its published name, a label, a unit, how to read it.

    steps: those that may decide it; the first whose result differs is followed to its operands.
    """

    name: str
    label: str
    unit: str
    read: Callable[[Plan], Any]
    steps: tuple[str, ...]


def _of_cache(name: str) -> Callable[[Plan], Any]:
    return lambda plan: None if plan.cache is None else getattr(plan.cache, name)


def _smallest_prefix(plan: Plan) -> int | None:
    """Return the tokens that two prompts must share before anything of them is found again."""
    if not plan.enable_prefix_caching or plan.cache is None or plan.model.attention is None:
        return None
    return smallest_prefix(caching_of(plan))


MODE = ("mamba_cache_mode",)
SIZES = (*FINAL_BLOCK, "mamba_page_size_padded", *MODE)
FACTS = (
    Fact(
        "enable_prefix_caching",
        "prefix caching",
        "",
        lambda p: p.enable_prefix_caching,
        ("enable_prefix_caching",),
    ),
    Fact("mamba_cache_mode", "cache mode", "", lambda p: p.mamba_cache_mode, MODE),
    Fact(
        "speculative_method",
        "speculative method",
        "",
        lambda p: p.speculative_method,
        ("speculative_method",),
    ),
    Fact("backend", "attention backend", "", lambda p: p.backend, ("backend",)),
    Fact(
        "mamba_page_size_bytes",
        "mamba state",
        "bytes",
        lambda p: p.mamba_page_size_bytes,
        ("mamba_page_size_bytes",),
    ),
    Fact(
        "attention_bytes_per_token",
        "attention, one token",
        "bytes",
        lambda p: p.attention_bytes_per_token,
        ("attention_bytes_per_token",),
    ),
    Fact("block_size", "block size", "tokens", lambda p: p.block_size, FINAL_BLOCK),
    Fact(
        "mamba_block_size",
        "mamba block",
        "tokens",
        lambda p: p.mamba_block_size,
        (*MODE, *FINAL_BLOCK),
    ),
    Fact("page_size_bytes", "page", "bytes", lambda p: p.attention_page_size_bytes, SIZES),
    Fact("padding_percent", "padding", "%", lambda p: p.padding_percent, SIZES),
    Fact(
        "kernel_block_size",
        "kernel block",
        "tokens",
        lambda p: p.kernel_block_size,
        (*FINAL_BLOCK, "kernel_block_size"),
    ),
    Fact(
        "max_num_batched_tokens",
        "token budget",
        "tokens",
        lambda p: p.max_num_batched_tokens,
        ("max_num_batched_tokens",),
    ),
    Fact("max_num_seqs", "sequences", "", lambda p: p.max_num_seqs, ("max_num_seqs",)),
    Fact("num_blocks", "blocks", "", _of_cache("num_blocks"), SIZES),
    Fact("blocks_per_request", "blocks of a request", "", _of_cache("blocks_per_request"), SIZES),
    Fact("max_concurrency", "concurrency", "x", _of_cache("max_concurrency"), SIZES),
    Fact(
        "smallest_prefix",
        "smallest cacheable prefix",
        "tokens",
        _smallest_prefix,
        ("enable_prefix_caching", *SIZES),
    ),
    Fact(
        "scheduler_block_size",
        "scheduler block",
        "tokens",
        _of_cache("scheduler_block_size"),
        (*MODE, *FINAL_BLOCK),
    ),
    Fact(
        "hash_block_size",
        "hash block",
        "tokens",
        _of_cache("hash_block_size"),
        (*MODE, *FINAL_BLOCK),
    ),
)
