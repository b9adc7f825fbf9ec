"""What differs between versions when blocks are hashed and offloaded to host memory."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from workbench.core.kv_connectors import KvConnector

CONCATENATED, LAST = "concatenated", "last"


@dataclass(frozen=True, eq=False)
class OffloadRules:
    """Hash units, options and checks of one vLLM version."""

    connectors: Mapping[str, KvConnector] = field(default_factory=dict)
    """The connectors that a command may name."""
    hash_option: str = "hash_block_size"
    """The option that sets the unit of prefix hashes."""
    large_block_hash: str = CONCATENATED
    """How the hash of a block of several units comes about: CONCATENATED from those of its units,
    or their LAST one."""
    checks_single_group: bool = False
    """An explicit unit must be the block of a single group."""
    takes_blocks_per_chunk: bool = False
    """The connector has the option `blocks_per_chunk`, suggests the next multiple and keeps only
    the chunks that a window reaches."""
    one_copy_of_latents: bool = False
    """Ranks with the same MLA latents store them once."""
    host_block_alignment_bytes: int = 1
    """Host blocks are whole multiples of this (the page size of the host)."""
    transfers_mixed_blocks: bool = False
    """A cache with several kinds of layers may have larger kernel blocks on the decode side of a
    transfer."""
    transferred_states: frozenset[str] = frozenset({"mamba2", "gdn"})
    """SSM kinds whose states a transfer can cut into parts."""
    reads_three_parts: bool = True
    """How the refusal of other kinds begins."""
    checks_packed_heads: bool = False
    """A transfer refuses to split NVFP4 pages by heads."""
    splits_heads_by_ranks: bool = True
    """A transfer expects the heads of a rank to go down as its ranks go up, also below one."""
    fingerprinted_methods: frozenset[str] = frozenset()
    """Speculative methods that the handshake compares, with the drafter's model."""
    store_shares_states: bool = True
    """Ranks with the same KV heads write under one key of a Mooncake store, whose states differ."""
    store_wants_align: bool = False
    """A Mooncake store takes states of align mode only; else states with the attention's block."""
    unit_words: tuple[str, str] = ("gpu_block_size", "hash_block_size")
    """How messages call a GPU block and a hash unit."""
