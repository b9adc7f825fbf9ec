"""What differs between versions when layers are grouped and the pool is counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, eq=False)
class GroupRules:
    """Grouping, allocation and memory check of one vLLM version."""

    pads_pages: bool = False
    """A small page that cannot grow to the largest one is padded (mamba, attention other than MLA);
    without it such layers are refused."""
    merges_buckets: bool = False
    """Layers that differ only in the window of their computation share a bucket."""
    one_allocation: bool = False
    """All groups are in one buffer, each from byte 0, and `layouts` says in which order; without it
    every slot has a tensor."""
    compares_mla: bool = False
    """MLA layers of one group must agree in every field, not only in what is stored."""
    promotes_block_size: bool = False
    """A window treated as full attention takes full attention's block."""
    windows_choose_blocks: bool = False
    """A sliding layer takes the largest block that its backend reads unsplit."""
    skips_mla_layers: bool = False
    """MLA layers can be left in the model's dtype, too."""
    shares_indexers: bool = False
    """A layer that takes the token choice of an earlier one has no indexer; else every layer of
    sparse attention has one."""
    splits_hidden_blocks: bool = False
    """The block of a hidden-state layer divides those of the other groups."""
    counts_null_block: bool = False
    """The memory check omits the block that is never given out."""
    joins_printed_lines: bool = False
    """Size and concurrency are one line that names the device."""
    batches_in_flight: int = 1
    """Steps whose tokens are not settled yet, which windows must hold too."""
    checkpoint_blocks: Mapping[str, int] = field(default_factory=dict)
    """SSM kind -> blocks of a request for checkpoints inside a prefill, in align mode; a kind with
    ":flashinfer" after it, where FlashInfer runs the prefill."""
    layouts: tuple[str, ...] = ()
    """Orders of the one allocation, as they are preferred where no backend says anything."""
    promotion_refused: str = (
        "Hybrid KV cache manager is disabled but failed to convert the KV cache specs to one "
        "unified type."
    )
    """The beginning of vLLM's text for specs that stay of several types."""
