"""What stops backends of 0.33 where ranks share the tokens of a block.

Source: `FlashMLASparseImpl`, `FlashMLASparseMetadataBuilder` and
`XPUFlashAttnMLAImpl`.
"""

from workbench.core.backends import UNQUANTIZED, LayerQuery
from workbench.core.dtypes import NVFP4_DTYPES

FEW_HEADS = 32
"""Below so many query heads of a rank, steps mix prefill and decode in one kernel call."""
DECODE_HEADS = 64
"""Query heads that the fp8 kernel is padded to, or twice as many."""


def sparse_latents(query: LayerQuery) -> str | None:
    """Return what stops FlashMLA's sparse attention: its cache, or its query heads."""
    heads = query.heads_per_rank
    gathered = heads * query.context_ranks
    if query.context_ranks == 1:
        return None
    if query.kv_cache_dtype in UNQUANTIZED:
        return "DCP for FlashMLA sparse requires an fp8_ds_mla kv-cache"
    if heads >= FEW_HEADS:
        return "DCP for FlashMLA sparse is only supported on the mixed-batch fp8 path"
    if gathered > DECODE_HEADS:
        return (
            "DCP for FlashMLA sparse requires the local and DCP-gathered head counts to pad to the "
            f"same fp8 decode kernel envelope; got {heads} local heads"
        )
    return None


def latents_on_xpu(query: LayerQuery) -> str | None:
    """Return why FlashAttention's MLA on XPU is not chosen."""
    # supports_dcp of XPUFlashAttnMLAImpl
    return "DCP not supported" if query.platform == "xpu" and query.tests_context else None


def nvfp4_scales(query: LayerQuery) -> str | None:
    """Return what stops FlashInfer where FlashAttention 2 reads its nvfp4 cache."""
    # FlashInferMetadataBuilder and _nvfp4_kv_on_fa2
    reads = query.kv_cache_dtype in NVFP4_DTYPES and query.major in {8, 9, 12}
    if query.context_ranks == 1 or not reads:
        return None
    return "The DCP prefill wrapper cannot read NVFP4 block scales."
