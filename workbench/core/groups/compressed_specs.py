"""The specs of what layers of compressed attention keep: vectors, keys, states and rings."""

from dataclasses import replace
from math import ceil, lcm

from workbench.core.arithmetic import round_up
from workbench.core.dtypes import FLOAT_BYTES
from workbench.core.errors import Refused
from workbench.core.groups import cache_spec
from workbench.core.groups.strides import kernel_block_bytes, largest_fixed
from workbench.core.model import FULL, INDEX_KEY, LATENT, SLIDING, V41, CompressedCache
from workbench.core.packing import FP8_DS_ALIGNMENT_BYTES, RECORD_DTYPES, record_bytes
from workbench.core.plan import Plan
from workbench.core.platforms import is_sm10x
from workbench.core.states import Ring


def compressed_spec(plan: Plan, cache: CompressedCache, dtype: str) -> cache_spec.CacheSpec:
    """Return the spec of a cache that layers keep alongside, or of compressed attention.

    dtype: the KV-cache dtype of the layer.
    """
    # get_kv_cache_spec of DeepseekV4Attention, DeepseekV4IndexerCache, DeepseekV4SWACache and
    # CompressorStateCache, 0.23 and 0.33; of InklingConvState and Step5SparseSummaryCacheLayer.
    _check_device(plan, cache.backend)
    if cache.ring is not None and cache.ring.fills_page:
        return _page_ring(plan, cache, cache.ring)
    block, drafts = cache.block_size or plan.block_size, plan.settings.num_speculative_tokens
    if cache.ring is not None:
        block = cache.ring.block_size(drafts)
        _check_ring(plan, cache.ring, block)
    heads = _heads(plan, cache)
    tokens, window = cache.tokens_per_state, cache.window_tokens
    content = int(block // tokens * heads * _vector_bytes(plan, cache, dtype))
    if tokens < 1:  # several vectors of a token are as more heads of it
        if window is not None and plan.rules.groups.layouts:  # in tokens, with a margin; 0.33
            window = ceil(window * tokens) + 1
        heads, tokens = heads // tokens, 1
    is_free = cache.ring or cache.backend or cache.is_plain
    unit = 1 if is_free else _page_unit(plan, cache, dtype)
    spec = cache_spec.CacheSpec(
        kind=_kind(cache),
        block_size=block,
        page_size_bytes=content,
        window_tokens=window,
        num_kv_heads=heads,
        head_size=cache.elements,
        stored=dtype if cache.stored == LATENT else cache.stored,
        tokens_per_state=int(tokens),
        alignment_bytes=unit,
        stride_bytes=_stride_bytes(plan, cache, dtype) * _fixed_stride(plan, cache, block, content),
        # DeepSeek-V4.1 computes the window again after a hit (swa_bounded_replay).
        is_found_again=not (cache.ring or (_is_v41(plan) and cache.window_tokens)),
        companion=cache.backend,
    )
    return spec.padded(round_up(content, unit))


def without_positions(cache: CompressedCache) -> CompressedCache:
    """Return the cache of a model for text alone, which keeps no positions of images."""
    # _strip_qwen4_exp_mrope, 0.33: not that of a drafter
    positions = cache.ring.positions if cache.ring else 0
    return replace(cache, elements=cache.elements - positions) if positions else cache


def _check_device(plan: Plan, reader: str) -> None:
    """Check that what reads a cache runs on the device. Errors: Refused, as its layers raise."""
    # Step5Attention.__init__ and _validate_step5_dsa_attention_contract, 0.33.
    record, found = plan.rules.backends[reader] if reader else None, plan.capability
    if record is None or not record.capabilities.exact:
        return
    if not (record.capabilities.accepts(found) if found else plan.settings.platform == "cuda"):
        here = ".".join(map(str, found)) if found else f"of {plan.settings.platform}"
        raise Refused(
            "side_cache_refused",
            f"Invalid compute_capability {here}. Expected {record.capabilities}: the model keeps "
            f"caches that only the kernels of these devices read ({reader}).",
            field="compute_capability",
            operands={"backend": reader, "compute_capability": here},
            candidates=[
                {"compute_capability": ".".join(map(str, one))} for one in record.capabilities.exact
            ],
            vllm_text="Step5 DSA requires SM90, SM100 or SM103",
        )
    if plan.model_dtype not in record.dtypes:
        raise Refused(
            "side_cache_refused",
            f"Invalid dtype {plan.model_dtype}. Expected {record.dtypes[0]}, the only one that the "
            f"kernels of sparse attention take ({reader}).",
            field="dtype",
            operands={"backend": reader, "model_dtype": plan.model_dtype},
            candidates=[{"dtype": record.dtypes[0]}],
            vllm_text="Step5 DSA kernels require bfloat16 activations",
        )


def _check_ring(plan: Plan, ring: Ring, tokens: int) -> None:
    """Check that a ring divides the block of the attention, where vLLM asserts it."""
    block, drafts = plan.block_size, plan.settings.num_speculative_tokens
    if not ring.refusal or block % tokens == 0:
        return
    fewer = [n for n in range(drafts - 1, -1, -1) if block % ring.block_size(n) == 0]
    raise Refused(
        "side_cache_refused",
        f"Invalid num_speculative_tokens {drafts}. A ring of {tokens} tokens, those that no key "
        f"has yet and the drafts, must divide the block of {block:,} tokens. Draft another number, "
        "or set a --block-size that it divides.",
        field="num_speculative_tokens",
        operands={"ring_tokens": tokens, "block_size": block},
        candidates=[{"num_speculative_tokens": n} for n in fewer],
        vllm_text=ring.refusal.format(ring=tokens, block=block),
    )


def _kind(cache: CompressedCache) -> str:
    if cache.is_plain:
        return cache_spec.ATTENTION_SPECS[FULL if cache.window_tokens is None else SLIDING]
    kind = cache_spec.RING_SPEC if cache.ring else cache_spec.MLA_SPEC
    return kind if cache.window_tokens is None else cache_spec.SLIDING_MLA_SPEC


def _heads(plan: Plan, cache: CompressedCache) -> int:
    """Return the heads of one rank. Errors: Refused, where vLLM has an assertion."""
    if not cache.splits_heads:
        return cache.num_heads
    ranks = plan.settings.tensor_parallel
    if ranks > cache.num_heads:
        raise Refused(
            "side_cache_refused",
            f"Invalid tensor_parallel {ranks}. Expected at most {cache.num_heads}, one KV head for "
            f"each rank: the last inputs of the convolutions are kept by head ({cache.backend}).",
            field="tensor_parallel",
            operands={"num_kv_heads": cache.num_heads, "tensor_parallel": ranks},
            candidates=[{"tensor_parallel": cache.num_heads}, {"tensor_parallel": 1}],
            vllm_text=f"sconv SWA cache supports tp_size <= num_kv_heads ({cache.num_heads})",
        )
    if cache.stored not in {LATENT, plan.model_dtype}:
        raise Refused(
            "side_cache_refused",
            f"Invalid dtype {plan.model_dtype}. Expected {cache.stored}, the only one in which "
            f"the last inputs of the convolutions are kept ({cache.backend}).",
            field="dtype",
            operands={"model_dtype": plan.model_dtype},
            candidates=[{"dtype": cache.stored}],
            vllm_text=f"sconv SWA cache supports {cache.stored} only",
        )
    return cache.num_heads // ranks


def _page_ring(plan: Plan, cache: CompressedCache, ring: Ring) -> cache_spec.CacheSpec:
    """Return a ring of as many vectors as a page of the attention has place for."""
    # Step5CSATailRing, 0.33.
    page, block = plan.attention_page_size_bytes, plan.block_size
    assert page is not None
    row = cache.elements * FLOAT_BYTES[cache.stored]
    needed = ring.tokens + plan.settings.num_speculative_tokens
    if page % row or page // row < needed:
        raise Refused(
            "side_cache_refused",
            f"Invalid block_size {block}. A page of {page:,} bytes must be whole rows of {row:,} "
            f"bytes, at least {needed}, for the tokens that are not summed up yet. Use a larger "
            "one.",
            field="block_size",
            operands={"page_size_bytes": page, "row_bytes": row, "rows": needed},
            candidates=[{"block_size": size} for size in (None, 2 * block, 4 * block, 8 * block)],
            vllm_text=f"Step5 CSA tail ring needs {needed} rows of {row} bytes in one {page}-byte "
            "KV page; increase --block-size.",
        )
    return cache_spec.CacheSpec(
        kind=cache_spec.RING_SPEC,
        block_size=block,
        page_size_bytes=page,
        num_kv_heads=1,
        head_size=page // (block * FLOAT_BYTES[cache.stored]),
        stored=cache.stored,
        stride_bytes=row,
        is_found_again=False,
        companion=cache.backend,
    )


def _is_v41(plan: Plan) -> bool:
    assert plan.model.attention is not None
    return plan.model.attention.compression == V41


def _has_own_records(plan: Plan) -> bool:
    """Return whether the device reads DeepSeek-V4.1's records; others read those of V4."""
    # _use_v41_mxfp8_kv_record, 0.33.
    return _is_v41(plan) and is_sm10x(plan)


def _vector_bytes(plan: Plan, cache: CompressedCache, dtype: str) -> int:
    if cache.stored != LATENT:
        return cache.elements * FLOAT_BYTES.get(cache.stored, 1)
    assert plan.model.attention is not None
    if _has_own_records(plan) and dtype in RECORD_DTYPES:
        return record_bytes(dtype, slides=cache.window_tokens is not None)
    own = replace(plan.model.attention, head_size=cache.elements)
    reader = plan.backend if cache.is_plain else None
    token, _formula = plan.rules.layer_token_bytes(own, 1, dtype, plan.model_dtype, reader)
    return token


def _page_unit(plan: Plan, cache: CompressedCache, dtype: str) -> int:
    """Return what the page is a multiple of, in bytes."""
    rules, packed = plan.rules.groups, dtype in RECORD_DTYPES
    packed = packed or (cache.stored == INDEX_KEY and rules.aligns_index_keys)
    as_in_v4 = packed and not _has_own_records(plan)
    return FP8_DS_ALIGNMENT_BYTES if as_in_v4 else rules.latent_alignment_bytes


def _stride_bytes(plan: Plan, cache: CompressedCache, dtype: str) -> int:
    """Return what the bytes from block to block are a multiple of: whole records of both kinds."""
    packed = _has_own_records(plan) and dtype in RECORD_DTYPES
    if not packed or cache.window_tokens is None:
        return 1
    records = (record_bytes(dtype, slides=slides) for slides in (True, False))
    return lcm(*records)


def _fixed_stride(plan: Plan, cache: CompressedCache, block_size: int, content: int) -> int:
    """Return the bytes of the largest kernel block where a backend reads no other sizes."""
    if not cache.backend:
        return 1
    reader = plan.rules.backends[cache.backend]
    kernel = largest_fixed(reader.supported)
    if kernel is not None and reader.counts_keys:
        kernel *= int(cache.tokens_per_state)
    return kernel_block_bytes(kernel, block_size, content)
