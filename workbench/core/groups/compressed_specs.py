"""The specs of what layers of compressed attention keep: vectors, keys, states and rings."""

from dataclasses import replace
from math import gcd, lcm

from workbench.core.arithmetic import round_up
from workbench.core.dtypes import FLOAT_BYTES
from workbench.core.groups.cache_spec import MLA_SPEC, RING_SPEC, SLIDING_MLA_SPEC, CacheSpec
from workbench.core.model import INDEX_KEY, LATENT, V41, CompressedCache
from workbench.core.packing import FP8_DS_ALIGNMENT_BYTES, RECORD_DTYPES, record_bytes
from workbench.core.plan import Plan


def compressed_spec(plan: Plan, cache: CompressedCache) -> CacheSpec:
    """Return the spec of a cache of compressed attention, the same on every rank."""
    # get_kv_cache_spec of DeepseekV4Attention, DeepseekV4IndexerCache, DeepseekV4SWACache and
    # CompressorStateCache, 0.23 and 0.33.
    block, drafts = cache.block_size or plan.block_size, plan.settings.num_speculative_tokens
    block = block if cache.ring is None else cache.ring.block_size(drafts)
    content = block // cache.tokens_per_state * cache.num_heads * _vector_bytes(plan, cache)
    unit = 1 if cache.ring or cache.backend else _page_unit(plan, cache)
    kind = RING_SPEC if cache.ring else MLA_SPEC
    spec = CacheSpec(
        kind=kind if cache.window_tokens is None else SLIDING_MLA_SPEC,
        block_size=block,
        page_size_bytes=content,
        window_tokens=cache.window_tokens,
        num_kv_heads=cache.num_heads,
        head_size=cache.elements,
        stored=plan.kv_cache_dtype if cache.stored == LATENT else cache.stored,
        tokens_per_state=cache.tokens_per_state,
        alignment_bytes=unit,
        stride_bytes=_stride_bytes(plan, cache) * _fixed_stride(plan, cache, block, content),
        # DeepSeek-V4.1 computes the window again after a hit (swa_bounded_replay).
        is_found_again=not (cache.ring or (_is_v41(plan) and cache.window_tokens)),
        companion=cache.backend,
    )
    return spec.padded(round_up(content, unit))


def _is_v41(plan: Plan) -> bool:
    assert plan.model.attention is not None
    return plan.model.attention.compression == V41


def _has_own_records(plan: Plan) -> bool:
    """Return whether the device reads DeepSeek-V4.1's records; others read those of V4."""
    # _use_v41_mxfp8_kv_record, 0.33.
    return _is_v41(plan) and plan.capability is not None and plan.capability[0] == 10


def _vector_bytes(plan: Plan, cache: CompressedCache) -> int:
    if cache.stored != LATENT:
        return cache.elements * FLOAT_BYTES.get(cache.stored, 1)
    assert plan.model.attention is not None
    if _has_own_records(plan) and plan.kv_cache_dtype in RECORD_DTYPES:
        return record_bytes(plan.kv_cache_dtype, slides=cache.window_tokens is not None)
    own = replace(plan.model.attention, head_size=cache.elements)
    token, _formula = plan.rules.layer_token_bytes(
        own, 1, plan.kv_cache_dtype, plan.model_dtype, None
    )
    return token


def _page_unit(plan: Plan, cache: CompressedCache) -> int:
    """Return what the page is a multiple of, in bytes."""
    rules, packed = plan.rules.groups, plan.kv_cache_dtype in RECORD_DTYPES
    packed = packed or (cache.stored == INDEX_KEY and rules.aligns_index_keys)
    as_in_v4 = packed and not _has_own_records(plan)
    return FP8_DS_ALIGNMENT_BYTES if as_in_v4 else rules.latent_alignment_bytes


def _stride_bytes(plan: Plan, cache: CompressedCache) -> int:
    """Return what the bytes from block to block are a multiple of: whole records of both kinds."""
    packed = _has_own_records(plan) and plan.kv_cache_dtype in RECORD_DTYPES
    if not packed or cache.window_tokens is None:
        return 1
    records = (record_bytes(plan.kv_cache_dtype, slides=slides) for slides in (True, False))
    return lcm(*records)


def _fixed_stride(plan: Plan, cache: CompressedCache, block_size: int, content: int) -> int:
    """Return the bytes of the largest kernel block where a backend reads no other sizes."""
    # customize_attention_spec and KVCacheSpec.get_block_stride_alignment, 0.33.
    sizes = plan.rules.backends[cache.backend].supported if cache.backend else ()
    fixed = [size for size in sizes if isinstance(size, int)]
    kernel = gcd(max(fixed), block_size) if fixed and len(fixed) == len(sizes) else block_size
    return 1 if kernel == block_size else content * kernel // block_size
