"""What a version does, and what a changed fact means for an upgrade, in words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from workbench.core.offload.rules import CONCATENATED, LAST
from workbench.core.rule_set import RuleSet


class TraitWords(NamedTuple):
    """A trait's label, and what its change means."""

    label: str
    means: str


TRAITS = {
    "aligned_in": TraitWords(
        "aligned in",
        "The alignment granularity comes from the backend, so other backends give other blocks.",
    ),
    "backends_asked": TraitWords(
        "backends queried", "Models that mix backends get a block that suits all of them, or stop."
    ),
    "cache_view": TraitWords(
        "cache view", "Connectors and kernels that index the cache by dimension need a new version."
    ),
    "stride_rewrite": TraitWords(
        "stride rewrite", "Code that expects rewritten strides must read the layout instead."
    ),
    "table_holds": TraitWords(
        "block tables hold", "Code that reads tables must split ids, or stop splitting them."
    ),
    "allocations": TraitWords(
        "allocations", "Addresses follow from offset and strides, not from one tensor per layer."
    ),
    "unequal_pages": TraitWords(
        "unequal pages", "Models with mixed pages start that did not, and pay with padding."
    ),
    "null_block": TraitWords(
        "null block", "A pool with exactly the needed blocks is refused instead of hanging later."
    ),
    "big_hash": TraitWords(
        "hash of a large block",
        "Hashes of the two versions never match: an external KV store starts empty.",
    ),
    "hash_option": TraitWords("option for the hash block", "Rename the option."),
    "offload_unit": TraitWords("offloaded block", "Chunks may be given in blocks."),
}
"""Trait -> its words, in the order in which they are shown."""

BIG_HASHES = {
    CONCATENATED: "the hashes of its small blocks, concatenated",
    LAST: "the hash of its last small block",
}
_ANSWERS: dict[str, Callable[[RuleSet], str]] = {
    "backends_asked": lambda rules: (
        "all attention backends, and the result must suit them all"
        if rules.all_backends
        else "the first attention backend"
    ),
    "cache_view": lambda rules: (
        "[B, H, N, C] for every backend, keys and values packed in C"
        if rules.layouts.one_view
        else "a shape of its own for every backend, mostly [B, 2, N, H, D]"
    ),
    "stride_rewrite": lambda rules: (
        "ROCM_ATTN only, by asking for the block dimension (#37236)"
        if rules.layouts.rewrites_strides
        else "none: blocks come first in every view"
    ),
    "table_holds": lambda rules: (
        "manager block ids, split where the kernel reads them"
        if rules.layouts.tables_hold_manager_blocks
        else "kernel block ids (#38831)"
    ),
    "allocations": lambda rules: (
        "one allocation; every group starts at its first byte"
        if rules.groups.one_allocation
        else "one tensor for the i-th layer of every group"
    ),
    "unequal_pages": lambda rules: (
        "mamba and attention pages are padded to the largest"
        if rules.groups.pads_pages
        else "a mamba page that does not fit stops the start"
    ),
    "null_block": lambda rules: (
        f"{'' if rules.groups.counts_null_block else 'not '}counted when the memory is checked"
    ),
    "big_hash": lambda rules: BIG_HASHES[rules.offload.large_block_hash],
    "hash_option": lambda rules: rules.offload.hash_option,
    "offload_unit": lambda rules: (
        "block_size in tokens, or blocks_per_chunk"
        if rules.offload.takes_blocks_per_chunk
        else "block_size of the connector, in tokens"
    ),
}
"""Trait -> what a rule set does, read from its data."""


def traits_of(rules: RuleSet) -> dict[str, str]:
    """Return what a rule set does whatever the scenario is: trait -> words.

    Its own words come first.
    """
    read = {name: answer(rules) for name, answer in _ANSWERS.items()}
    return {**read, **rules.traits}


_WORDS = {
    "enable_prefix_caching": "Prefixes are {on} by default; set the flag to keep it as it was.",
    "mamba_cache_mode": "States are kept in another way, which changes blocks of a request.",
    "speculative_method": "{new} drafts instead of {old}: set the method to keep it as it was.",
    "backend": "Another kernel runs; measure it again.",
    "mamba_page_size_bytes": "A state takes {percent} bytes.",
    "attention_bytes_per_token": "A token takes {percent} bytes in every attention layer.",
    "block_size": "Cached prefixes, offloaded blocks and external stores keyed by {old} tokens "
    "do not match {new}.",
    "mamba_block_size": "States are kept every {new} tokens instead of every {old}.",
    "page_size_bytes": "A page takes {percent} bytes; transfers move other sizes.",
    "padding_percent": "Padding goes from {old} to {new} percent of a state.",
    "kernel_block_size": "The kernel sees blocks of {new} tokens instead of {old}: other tables, "
    "other speed.",
    "num_blocks": "The pool holds {percent} blocks.",
    "blocks_per_request": "A request of full length takes {new} blocks instead of {old}.",
    "max_concurrency": "{percent} requests of full length fit.",
    "smallest_prefix": "Prompts must share {new} tokens instead of {old} to find anything again.",
    "max_num_batched_tokens": "A step takes up to {new} tokens instead of {old} by default.",
    "max_num_seqs": "Up to {new} requests run together by default, instead of {old}.",
    "scheduler_block_size": "Requests are scheduled in steps of {new} tokens.",
    "first_hash_block_size": "Nothing was hashed before; hashes cover {new} tokens now.",
    "hash_block_size": "Hashes cover {new} tokens instead of {old}: old hashes are useless.",
}


def meaning(name: str, old: Any, new: Any) -> str:
    """Return the sentence for a fact that went from `old` to `new`."""
    return _WORDS[name].format(
        old=_text(old),
        new=_text(new),
        on="found again" if new else "forgotten",
        percent=_percent(old, new),
    )


def _text(value: Any) -> str:
    if value is None:
        return "none"
    return (
        f"{value:,.2f}"
        if isinstance(value, float)
        else f"{value:,}"
        if isinstance(value, int)
        else str(value)
    )


def _percent(old: Any, new: Any) -> str:
    if not isinstance(old, int | float) or not isinstance(new, int | float) or not old:
        return "other"
    change = 100 * (new - old) / old
    return f"{abs(change):.1f} % {'more' if change > 0 else 'fewer'}"
