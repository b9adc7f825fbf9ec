"""What differs between versions when layers are grouped and the pool is counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, eq=False)
class GroupRules:
    """Grouping, allocation and memory check of one vLLM version.

    version: as it is said in a sentence. pads_pages: a small page that cannot grow to the largest
    one is padded (mamba, attention other than MLA); without it such layers are refused.
    merges_buckets: layers that differ only in the window of their computation share a bucket.
    one_allocation: all groups are in one buffer, each from byte 0, and `layouts` says in which
    order; without it every slot has a tensor. compares_mla: MLA layers of one group must agree in
    every field, not only in what is stored. promotes_block_size: a window that is kept whole takes
    full attention's block. windows_choose_blocks: a sliding layer takes the largest block that its
    backend reads unsplit. skips_mla_layers: MLA layers can be left in the model's dtype, too.
    shares_indexers: a layer that takes the token choice of an earlier one has no indexer; else
    every layer of sparse attention has one. splits_hidden_blocks: the block of a hidden-state layer
    divides those of the other groups. counts_null_block: the memory check omits the block that
    is never given out. joins_printed_lines: size and concurrency are one line that names the
    device.
    batches_in_flight: steps whose tokens are not settled yet, which windows must hold too.
    checkpoint_blocks: SSM kind -> blocks of a request for checkpoints inside a prefill, in align
    mode; a kind with ":flashinfer" after it, where FlashInfer runs the prefill.
    layouts: backend -> orders of the cache that it reads, best first; "" for all others.
    promotion_refused: the beginning of vLLM's text for specs that stay of several types.
    """

    version: str
    pads_pages: bool = False
    merges_buckets: bool = False
    one_allocation: bool = False
    compares_mla: bool = False
    promotes_block_size: bool = False
    windows_choose_blocks: bool = False
    skips_mla_layers: bool = False
    shares_indexers: bool = False
    splits_hidden_blocks: bool = False
    counts_null_block: bool = False
    joins_printed_lines: bool = False
    batches_in_flight: int = 1
    checkpoint_blocks: Mapping[str, int] = field(default_factory=dict)
    layouts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    promotion_refused: str = (
        "Hybrid KV cache manager is disabled but failed to convert the KV cache specs to one "
        "unified type."
    )
