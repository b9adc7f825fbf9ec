"""The cache of an indexer alongside sparse MLA: one key of each token."""

from workbench.core.groups.cache_spec import INDEX_KEYS, MLA_SPEC, CacheSpec
from workbench.core.model import Attention, Indexer
from workbench.core.plan import Plan

INDEX_SCALE_ELEMENTS, INDEX_SCALE_BYTES = 128, 4
"""An indexer's key has a float32 scale for so many elements of a byte each."""


def key_bytes(indexer: Indexer) -> int:
    """Return the bytes of one key with its scales."""
    return indexer.head_dim + indexer.head_dim // INDEX_SCALE_ELEMENTS * INDEX_SCALE_BYTES


def index_keys(plan: Plan, attention: Attention) -> CacheSpec:
    """Return one fp8 key of each token with its scales, the same on every rank."""
    # Indexer and DeepseekV32IndexerCache, 0.23 and 0.33.
    assert attention.indexer is not None
    # Sparse MLA (DeepSeek-V3.2): the keys of the indexer are a cache layer of their own.
    token = key_bytes(attention.indexer)
    block = plan.block_size
    return CacheSpec(
        kind=MLA_SPEC,
        block_size=block,
        page_size_bytes=block * token,
        num_kv_heads=1,
        head_size=token,
        stored=INDEX_KEYS,
    )
