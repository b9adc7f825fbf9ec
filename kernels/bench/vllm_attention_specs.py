"""vLLM's unified attention as an inspector compiles it; for a process where VLLM_SRC is set."""

from typing import Any

from workbench.kernels.bench.vllm_attention import (
    SEGMENTS,
    VllmAttention,
    find_vllm_attention,
    load_vllm_attention,
)
from workbench.kernels.bench.vllm_source import VllmSkipped, named_folders
from workbench.kernels.kernel_spec import KernelSpec

_FP16 = ("output_ptr", "query_ptr", "key_cache_ptr", "value_cache_ptr")
_FP32 = ("segm_output_ptr", "segm_max_ptr", "segm_expsum_ptr")
_INT32 = ("block_tables_ptr", "seq_lens_ptr", "query_start_len_ptr", "rswa_prefix_lens_ptr")
_SCALARS = {"scale": "fp32", "out_scale": "fp32", "softcap": "fp32"}
_UNUSED: tuple[str, ...] = (
    "sink",
    "alibi",
    "qq_bias",
    "k_scale",
    "v_scale",
    "mm_prefix",
    "stride_ks",
    "stride_vs",
)
_UNUSED += ("q_scale", "per_seq")
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
    signature: dict[str, str] = {}
    values: dict[str, Any] = {}
    for parameter in loaded.kernel.params:
        name = parameter.name
        if name in constants:
            values[name] = constants[name]
        elif name.startswith(_UNUSED):
            values[name] = None
        elif parameter.is_constexpr:
            values[name] = False
        elif name in _FP16 or name in _FP32 or name in _INT32:
            kind = "fp16" if name in _FP16 else "fp32" if name in _FP32 else "i32"
            signature[name] = f"*{kind}"
            continue
        else:
            signature[name] = _SCALARS.get(name, "i64" if "stride" in name else "i32")
            continue
        signature[name] = "constexpr"
    ordered = {parameter.name: signature[parameter.name] for parameter in loaded.kernel.params}
    aligned = tuple(n for n in ordered if n.endswith("_ptr") and ordered[n] != "constexpr")
    aligned += tuple(n for n in ordered if "stride" in n and ordered[n] in {"i32", "i64"})
    name = f"{loaded.source.name} {'decode, split' if decode else 'prefill'}, page {block_size}"
    return KernelSpec(name, loaded.kernel, ordered, values, aligned)


def _specs() -> tuple[KernelSpec, ...]:
    found = []
    for folder in named_folders():
        try:
            loaded = load_vllm_attention(find_vllm_attention(folder))
        except VllmSkipped:
            continue
        found += [unified_spec(loaded, decode=decode) for decode in (False, True)]
    return tuple(found)


INSPECTED = _specs()
"""Prefill and split decode of every vLLM that VLLM_SRC names and that can be read."""
