"""What of grouping, allocation and the memory check is another in each version of vLLM."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, eq=False)
class GroupRules:
    """Grouping, allocation and memory check of one vLLM version."""

    pads_pages: bool = False
    """A small page that cannot grow to the largest is padded, except MLA's; else it is refused."""
    merges_buckets: bool = False
    """Layers that differ only in the window of their computation share a bucket."""
    one_allocation: bool = False
    """All groups are in one buffer, each from byte 0, and `layouts` says in which order; without it
    every slot has a tensor."""
    latent_alignment_bytes: int = 1
    """What pages of compressed attention are rounded up to, unless they hold the packed format."""
    aligns_index_keys: bool = False
    """Pages of its indexers always are as those of the packed format."""
    compares_mla: bool = False
    """MLA layers of one group must agree in every field, not only in what is stored."""
    chunks_forget_quantization: bool = False
    """Chunks treated as full attention lose the mode of their quantization, and its scales."""
    promotes_block_size: bool = False
    """A window treated as full attention takes full attention's block."""
    retains_drafted_tokens: bool = False
    """Windows keep the tokens that a chain of MTP layers reads again."""
    windows_before_own: frozenset[str] = frozenset()
    """Model types whose window in config.json counts the tokens before the own one."""
    windows_choose_blocks: bool = False
    """A sliding layer takes the largest block that its backend reads unsplit."""
    skips_mla_layers: bool = False
    """MLA layers can be left in the model's dtype, too."""
    lists_for_mla: Mapping[str, str] = field(default_factory=dict)
    """Architecture -> the one platform where its MLA layers read a list of layers to skip."""
    counts_attention: frozenset[str] = frozenset({"zamba2"})
    """Model types whose attention layers have a number among themselves in vLLM's name."""
    shares_indexers: bool = False
    """Layers that take the token choice of an earlier one have no indexer; else all have one."""
    splits_hidden_blocks: bool = False
    """The block of a hidden-state layer divides those of the other groups."""
    counts_null_block: bool = False
    """The memory check omits the block that is never given out."""
    joins_printed_lines: bool = False
    """Size and concurrency are one line that names the device."""
    holds_batches_in_flight: bool = False
    """Windows must hold the tokens of all steps that are not settled yet, not of one."""
    hashes_by_mode: bool = False
    """States keep hashes from being finer except in align mode; else if their blocks are others."""
    spreads_by_layer: bool = False
    """Layers say alone whether ranks share the tokens of their blocks; else one group has to."""
    checkpoint_blocks: Mapping[str, int] = field(default_factory=dict)
    """SSM kind -> blocks of a request for checkpoints inside a prefill, in align mode; a kind with
    ":flashinfer" after it, where FlashInfer runs the prefill."""
    layouts: tuple[str, ...] = ()
    """Orders of the one allocation, as they are preferred where no backend says anything."""
    stride_rows: Mapping[str, int] = field(default_factory=dict)
    """Backend -> tokens whose bytes the distance of two blocks is a multiple of."""
    quantized_page_tokens: Mapping[str, int] = field(default_factory=dict)
    """Backend -> the same where it reads a quantized cache off SM10x, and blocks are larger."""
    manager_argument: str = "scheduler_block_size"
    """What managers of caches are built with, and that of sinks does not take."""
    promotion_refused: str = (
        "Hybrid KV cache manager is disabled but failed to convert the KV cache specs to one "
        "unified type."
    )
    """The beginning of vLLM's text for specs that stay of several types."""
