"""How vLLM's attention is compiled; a function of its parameters takes its place."""

import inspect
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from workbench.kernels.bench.vllm_attention_specs import unified_spec
from workbench.kernels.language import tl


def kernel_unified_attention(
    output_ptr, segm_max_ptr, query_ptr, key_cache_ptr, sink_ptr, block_tables_ptr, seq_lens_ptr,
    alibi_slopes_ptr, qq_bias_ptr, scale, q_scale, k_scale, out_scale, softcap,
    num_query_heads: tl.constexpr, num_queries_per_kv: tl.constexpr,
    block_table_stride: tl.int64, query_stride_0: tl.int64, qq_bias_stride_0: tl.int64,
    BLOCK_SIZE: tl.constexpr, TILE_SIZE: tl.constexpr, HEAD_SIZE: tl.constexpr,
    HEAD_SIZE_PADDED: tl.constexpr, USE_ALIBI_SLOPES: tl.constexpr, SLIDING_WINDOW: tl.constexpr,
    MAX_MM_RANGES: tl.constexpr, mm_prefix_range_ptr, stride_k_cache_0: tl.int64,
    stride_k_cache_3: tl.constexpr, stride_v_cache_3: tl.constexpr, stride_ks_blk,
    query_start_len_ptr, BLOCK_Q: tl.constexpr, num_seqs: tl.int32, BLOCK_M: tl.constexpr,
    NUM_SEGMENTS_PER_SEQ: tl.constexpr, IS_3D: tl.constexpr, CHUNK_LOOKBACK: tl.constexpr,
    CHUNK_SIZE: tl.constexpr, USE_CAUSAL: tl.constexpr, R_SWA_WINDOW: tl.constexpr,
    KV_QUANT_MODE: tl.constexpr,
):  # fmt: skip
    pass


def compilable(function):
    """As of Triton where it compiles: its parameters, and which are known at compile time."""
    parameters = inspect.signature(function).parameters
    params = [
        SimpleNamespace(name=name, is_constexpr=one.annotation is tl.constexpr)
        for name, one in parameters.items()
    ]
    return SimpleNamespace(fn=function, params=params)


@pytest.mark.parametrize("decode", [False, True])
@pytest.mark.parametrize("page", [16, 64])
def test_a_kernel_of_vllm_is_compiled_as_it_is_launched(decode, page):
    source = SimpleNamespace(name="vllm 1.2")
    loaded = SimpleNamespace(source=source, kernel=compilable(kernel_unified_attention))
    spec = unified_spec(loaded, decode=decode, **({} if page == 16 else {"block_size": page}))
    assert spec.name == f"vllm 1.2 {'decode, split' if decode else 'prefill'}, page {page}"
    assert spec.function is loaded.kernel
    found = dict(spec.constexprs)
    unused = ("sink_ptr", "alibi_slopes_ptr", "qq_bias_ptr", "q_scale", "k_scale")
    unused += ("mm_prefix_range_ptr", "stride_ks_blk", "qq_bias_stride_0")
    assert {name for name, value in found.items() if value is None} == set(unused)
    numbers = {name: value for name, value in found.items() if value is not None}
    # vLLM takes 16 rows where a group has no more heads
    assert numbers == {
        "num_query_heads": 32,
        "num_queries_per_kv": 4,
        "BLOCK_SIZE": page,
        "TILE_SIZE": 16 if decode else 32,
        "HEAD_SIZE": 128,
        "HEAD_SIZE_PADDED": 128,
        "USE_ALIBI_SLOPES": False,
        "SLIDING_WINDOW": 0,
        "MAX_MM_RANGES": 0,
        "stride_k_cache_3": 1,
        "stride_v_cache_3": 1,
        "BLOCK_Q": 16 // 4,
        "BLOCK_M": 16,
        "NUM_SEGMENTS_PER_SEQ": 16 if decode else 1,
        "IS_3D": decode,
        "CHUNK_LOOKBACK": -1,
        "CHUNK_SIZE": -1,
        "USE_CAUSAL": True,
        "R_SWA_WINDOW": 0,
        "KV_QUANT_MODE": 0,
    }
    pointers = dict.fromkeys(("output_ptr", "query_ptr", "key_cache_ptr"), "*fp16")
    pointers |= {"segm_max_ptr": "*fp32"}
    lists = dict.fromkeys(("block_tables_ptr", "seq_lens_ptr", "query_start_len_ptr"), "*i32")
    strides = ("block_table_stride", "query_stride_0", "stride_k_cache_0")
    scalars = {**dict.fromkeys(("scale", "out_scale", "softcap"), "fp32"), "num_seqs": "i32"}
    kinds = {name: kind for name, kind in spec.signature.items() if kind != "constexpr"}
    assert kinds == {**pointers, **lists, **dict.fromkeys(strides, "i64"), **scalars}
    assert spec.aligned == strides
