"""The specs of what layers of compressed attention keep: vectors, keys, states and rings."""

from dataclasses import replace
from math import lcm

from workbench.core.arithmetic import round_up
from workbench.core.dtypes import FLOAT_BYTES
from workbench.core.groups.cache_spec import MLA_SPEC, RING_SPEC, SLIDING_MLA_SPEC, CacheSpec
from workbench.core.model import FLOAT32_STATE, INDEX_KEY, LATENT, V41, CompressedCache
from workbench.core.packing import FP8_DS_ALIGNMENT_BYTES, RECORD_DTYPES, record_bytes
from workbench.core.plan import Plan


def compressed_spec(plan: Plan, cache: CompressedCache) -> CacheSpec:
    """Return the spec of a cache of compressed attention, the same on every rank."""
    # get_kv_cache_spec of DeepseekV4Attention, DeepseekV4IndexerCache, DeepseekV4SWACache and
    # CompressorStateCache, 0.23 and 0.33.
    block = _ring_tokens(plan, cache) if cache.is_ring else cache.block_size or plan.block_size
    content = block // cache.tokens_per_state * _vector_bytes(plan, cache)
    unit = 1 if cache.is_ring else _page_unit(plan, cache)
    kind = RING_SPEC if cache.is_ring else MLA_SPEC
    spec = CacheSpec(
        kind=kind if cache.window_tokens is None else SLIDING_MLA_SPEC,
        block_size=block,
        page_size_bytes=content,
        window_tokens=cache.window_tokens,
        num_kv_heads=1,
        head_size=cache.elements,
        stored=plan.kv_cache_dtype if cache.stored == LATENT else cache.stored,
        tokens_per_state=cache.tokens_per_state,
        alignment_bytes=unit,
        stride_bytes=_stride_bytes(plan, cache),
        # DeepSeek-V4.1 computes the window again after a hit (swa_bounded_replay).
        is_found_again=not cache.is_ring and not (_is_v41(plan) and cache.window_tokens),
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
    if cache.stored == FLOAT32_STATE:
        return cache.elements * FLOAT_BYTES[FLOAT32_STATE]
    if cache.stored != LATENT:
        return cache.elements
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


def _ring_tokens(plan: Plan, cache: CompressedCache) -> int:
    """Return the tokens of a ring: the drafts, the next token and the one before, a power of 2."""
    rows = plan.settings.num_speculative_tokens + 2
    return max(cache.block_size or 1, 1 << (rows - 1).bit_length())
