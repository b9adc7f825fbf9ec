"""vLLM's unified attention as an inspector compiles it; for a process where VLLM_SRC is set."""

from typing import Any

from workbench.kernels.bench.vllm_attention import (
    SEGMENTS,
    VllmAttention,
    find_vllm_attention,
    load_vllm_attention,
)
from workbench.kernels.bench.vllm_source import in_every_vllm
from workbench.kernels.kernel_spec import KernelSpec

_POINTERS = {
    **dict.fromkeys(("output_ptr", "query_ptr", "key_cache_ptr", "value_cache_ptr"), "*fp16"),
    **dict.fromkeys(("segm_output_ptr", "segm_max_ptr", "segm_expsum_ptr"), "*fp32"),
    **dict.fromkeys(("block_tables_ptr", "seq_lens_ptr", "query_start_len_ptr"), "*i32"),
    "rswa_prefix_lens_ptr": "*i32",
}
_SCALARS = {"scale": "fp32", "out_scale": "fp32", "softcap": "fp32"}
_UNUSED = ("sink", "alibi", "qq_bias", "q_scale", "k_scale", "v_scale", "mm_prefix", "per_seq")
_UNUSED_STRIDES = ("stride_ks", "stride_vs")
_CONSTANTS: dict[str, Any] = {
    "num_query_heads": 32,
    "num_queries_per_kv": 4,
    "HEAD_SIZE": 128,
    "HEAD_SIZE_PADDED": 128,
    "BLOCK_M": 16,
    "BLOCK_Q": 4,
    "MAX_MM_RANGES": 0,
    "SLIDING_WINDOW": 0,
    "CHUNK_LOOKBACK": -1,
    "CHUNK_SIZE": -1,
    "USE_CAUSAL": True,
    "R_SWA_WINDOW": 0,
    "KV_QUANT_MODE": 0,
    "stride_k_cache_3": 1,
    "stride_v_cache_3": 1,
    "FP8_MIN": -448.0,
    "FP8_MAX": 448.0,
}


def unified_spec(loaded: VllmAttention, *, decode: bool, block_size: int = 16) -> KernelSpec:
    """Return the kernel for causal, float16, head 128, group 4, with vLLM's default tiles."""
    constants = {
        **_CONSTANTS,
        "BLOCK_SIZE": block_size,
        "TILE_SIZE": 16 if decode else 32,
        "NUM_SEGMENTS_PER_SEQ": SEGMENTS if decode else 1,
        "IS_3D": decode,
    }
    types: dict[str, str] = {}
    for parameter in loaded.kernel.params:
        name = parameter.name
        if name not in constants and name.startswith((*_UNUSED, *_UNUSED_STRIDES)):
            constants[name] = None
        elif name not in constants and parameter.is_constexpr:
            constants[name] = False
        size = "i64" if "stride" in name else "i32"
        types[name] = _POINTERS.get(name) or _SCALARS.get(name, size)
    return KernelSpec(
        name=f"{loaded.source.name} {'decode, split' if decode else 'prefill'}, page {block_size}",
        function=loaded.kernel,
        constexprs={name: constants[name] for name in types if name in constants},
        types=types,
        aligned=tuple(n for n in types if "stride" in n and n not in constants),
    )


INSPECTED = tuple(
    unified_spec(loaded, decode=decode)
    for loaded in in_every_vllm(lambda folder: load_vllm_attention(find_vllm_attention(folder)))
    for decode in (False, True)
)
"""Prefill and split decode of every vLLM that VLLM_SRC names and that can be read."""
