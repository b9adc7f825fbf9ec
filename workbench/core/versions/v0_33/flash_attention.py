"""Which FlashAttention runs in vLLM 0.33, and what it reads: conditions of its backends.

Source: `get_flash_attn_version` and FlashAttention's backend classes, 0.33.
"""

from workbench.core.backends import FP8_E4M3, UNQUANTIZED, LayerQuery
from workbench.core.groups.cache_spec import GAP_SPEC
from workbench.core.versions.v0_23 import conditions


def flash_attention_version(query: LayerQuery) -> int:
    """Return the FlashAttention that runs a head size on CUDA: 3 on Hopper, 4 on SM10x, else 2."""
    # Hopper takes 4 above 256. SM10x has 4 up to 128, and for 256 with pages of 128 tokens where
    # the cache is not quantized, scores are not capped, no prefix is bidirectional and no ranks
    # share tokens. Version 4 is not batch-invariant there. Source: vLLM 0.33,
    # get_flash_attn_version.
    attention, major = query.attention, query.major
    if major == 9:
        # With heads of several sizes version 4 is set for all, unless the cache is fp8.
        all_4 = attention.has_mixed_head_sizes and not query.kv_cache_dtype.startswith("fp8")
        all_4 = all_4 or attention.full_spec == GAP_SPEC
        return 3 if attention.head_size <= 256 and not all_4 else 4
    if major != 10 or query.batch_invariant:
        return 2
    if attention.head_size == 256 and attention.value_head_size is None:
        plain = attention.logits_soft_cap is None and not attention.seen_whole
        plain = plain and query.context_ranks == 1 and attention.full_spec != GAP_SPEC
        return 4 if plain and query.kv_cache_dtype in UNQUANTIZED else 2
    # Larger heads do not fit into the tensor memory of SM10x (the same function).
    return 4 if attention.head_size <= 128 else 2


def fp8_heads_of_512(query: LayerQuery) -> bool:
    """Return whether version 4 runs fp8 heads of 512 on Hopper, in tiles of 64 tokens."""
    fp8 = query.kv_cache_dtype in FP8_E4M3
    return query.major == 9 and fp8 and query.attention.head_size == 512


def heads_of_256_on_sm10x(query: LayerQuery) -> bool:
    """Return whether version 4 runs heads of 256 on SM10x, with pages of 128 tokens."""
    plain = not query.attention.use_mla and query.attention.head_size == 256
    return query.major == 10 and plain and flash_attention_version(query) == 4


def reads_prefixes(query: LayerQuery) -> bool:
    """Return whether bidirectional prefixes work."""
    # They work in version 4, but not with the fp8 cache of Hopper.
    fp8_on_hopper = query.major == 9 and query.kv_cache_dtype in FP8_E4M3
    return flash_attention_version(query) == 4 and not fp8_on_hopper


def fp8_needs_version(query: LayerQuery) -> str | None:
    """Return why fp8 is refused; version 3 reads it, 4 on SM10x and for heads of 512 on Hopper."""
    if query.platform == "xpu" or query.kv_cache_dtype not in FP8_E4M3:
        return None
    version, major = flash_attention_version(query), query.major
    if version == 3 or (version == 4 and (major == 10 or query.attention.head_size == 512)):
        return None
    return "FP8 KV cache requires FA3 on SM90, FA4 with head_size=512 on SM90, or FA4 on SM100"


def reads_large_heads(query: LayerQuery) -> bool:
    """Return whether heads above 256 work: where version 4 is built; XPU has its own rule."""
    return query.platform == "xpu" or conditions.has_flash_attention_4(query)


def needs_newer_version(query: LayerQuery) -> str | None:
    """Return why the causal half is refused: it needs version 3 or 4 except on XPU."""
    if query.platform == "xpu" or flash_attention_version(query) in {3, 4}:
        return None
    return "causal route requires FlashAttention v3 or v4"


KERNEL_BLOCKS = ((fp8_heads_of_512, (64,)), (heads_of_256_on_sm10x, (128,)))
"""Lists of kernel block sizes where a condition holds, the first one wins."""
