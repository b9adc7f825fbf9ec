"""The attention backends of vLLM 0.33: those of 0.23 with what changed, and the new ones.

Sources: `get_supported_kernel_block_sizes`, `get_preferred_block_size`, `supports_block_size` and
`supports_*` of every backend class in 0.33. To change a backend of this version, add a line to
CHANGES; to add one, add a record to NEW and its name to the orders in `v0_33_selection.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from workbench.core.backends import (
    FP8_ANY,
    FP8_E4M3,
    UNQUANTIZED,
    Backend,
    HeadSizes,
    LayerQuery,
    MultipleOf,
    always,
    never,
)
from workbench.core.dtypes import FP8_DTYPES, NVFP4_DTYPES, PER_TOKEN_HEAD_DTYPES
from workbench.core.registry import Registry
from workbench.core.rules import v0_33_flash_attention as flash_attention
from workbench.core.rules.v0_23_backends import BACKENDS as BACKENDS_0_23
from workbench.core.rules.v0_23_backends import newer_flash_attention
from workbench.core.rules.v0_23_layouts import LATENT

M16, M32, M64 = (MultipleOf(16),), (MultipleOf(32),), (MultipleOf(64),)
FP8_TYPES = frozenset((*FP8_DTYPES, "fp8_ds_mla"))


def _trtllm_sinks(query: LayerQuery) -> bool:
    """Return whether sinks work: with TRT-LLM's kernels on SM10x, for decoding on 9.0 and 12.x."""
    attention = query.attention
    whole = attention.num_heads % attention.num_kv_heads == 0
    return query.trtllm_kernels and whole and query.major in {9, 10, 12}


def _large_trtllm_pages(query: LayerQuery) -> bool:
    """Return whether pages above 64 tokens work.

    They need TRT-LLM's kernels: SM10x, several queries per KV head.

    Of a rank: 16 heads with 4 KV heads are one query head with one KV head on 16 ranks.
    """
    heads = query.heads_per_rank
    kv_heads = query.attention.kv_heads_per_rank(query.attention.num_heads // heads)
    grouped = heads // kv_heads > 1 and heads % kv_heads == 0
    return query.trtllm_kernels and query.major == 10 and grouped


def _nvfp4(query: LayerQuery) -> str | None:
    """Return why a 4-bit cache is refused, or None.

    TRT-LLM's kernels read it on SM10x, elsewhere FlashAttention 2, with gaps.
    """
    attention, major = query.attention, query.major
    if query.kv_cache_dtype not in NVFP4_DTYPES:
        return None
    if major == 10:
        return None if query.trtllm_kernels else "kv_cache_dtype not supported"
    if query.kv_cache_dtype != "nvfp4" or major not in {8, 9, 12}:
        return "kv_cache_dtype not supported"
    if attention.head_size == 64:
        return "fa2 prefill misreads an NVFP4 KV cache at head_size 64"
    return "the sink prefill wrapper cannot read an NVFP4 KV cache" if attention.has_sinks else None


def _quantized_on_sm10x(query: LayerQuery) -> bool:
    return query.major == 10 and query.kv_cache_dtype in FP8_TYPES


CHANGES: Mapping[str, Mapping[str, Any]] = {
    "FLASH_ATTN": {
        "with_float32_state": None,
        "supports_mm_prefix": flash_attention.reads_prefixes,
        "supported_on": {"xpu": M64},
        "supported_when": flash_attention.KERNEL_BLOCKS,
        "extra_kv_cache_dtypes": (FP8_E4M3, newer_flash_attention),
        "large_head_sizes": (
            HeadSizes(multiple_of=8, at_most=512),
            flash_attention.reads_large_heads,
        ),
        "own_reason": flash_attention.fp8_needs_version,
    },
    "FLASHINFER": {
        "supported_when": ((_large_trtllm_pages, (16, 32, 64, 128, 256, 512, 1024)),),
        "accepts_capability": lambda capability: (8, 0) <= capability <= (12, 1),
        "own_reason": _nvfp4,
        "supports_sinks": _trtllm_sinks,
        "kv_cache_dtypes": (*UNQUANTIZED, *FP8_ANY, *NVFP4_DTYPES),
    },
    "TRITON_ATTN": {
        "kv_cache_dtypes": (
            *UNQUANTIZED,
            *FP8_ANY,
            *PER_TOKEN_HEAD_DTYPES,
            "int4_per_token_head",
        ),
    },
    "ROCM_ATTN": {"supports_mm_prefix": never},
    "ROCM_AITER_UNIFIED_ATTN": {"supports_mm_prefix": never, "dtypes": ("float16", "bfloat16")},
    "CPU_ATTN": {"supported": M32, "kv_cache_dtypes": (*UNQUANTIZED, *FP8_ANY)},
    "FLASH_ATTN_MLA": {
        "platforms": ("cuda", "xpu"),
        "supported_on": {"xpu": M64},
    },
    "FLASHMLA_SPARSE": {"supported": M64, "supported_when": ((_quantized_on_sm10x, (64,)),)},
    "FLASHINFER_MLA_SPARSE": {"supported": M32},
    "ROCM_AITER_MLA_SPARSE": {"supported": (1, *M16)},
    "DEEPSEEK_V32_INDEXER": {"supported_on": {"rocm": (1, *M16)}},
    "SPARSE_SWA": {"supported": M32, "preferred": 256},
}
"""Name -> the fields that differ from 0.23."""

SPARSE_LATENT = BACKENDS_0_23["FLASHMLA_SPARSE"].cache
NEW = (
    Backend(
        "TRITON_FLASH_ATTN",
        platforms=("cuda", "xpu"),
        supported=M16,
        supported_on={"xpu": M64},
        supported_when=flash_attention.KERNEL_BLOCKS,
        head_sizes=HeadSizes(exact=(256, 512)),
        kv_cache_dtypes=UNQUANTIZED,
        extra_kv_cache_dtypes=(FP8_E4M3, newer_flash_attention),
        accepts_capability=lambda capability: capability[0] == 9,
        supports_mm_prefix=always,
        own_reason=flash_attention.needs_newer_version,
        cuda_graphs="UNIFORM_BATCH",
        cache=BACKENDS_0_23["FLASH_ATTN"].cache,
    ),
    Backend(
        "TRITON_FLASHINFER",
        platforms=("cuda",),
        supported=(64,),
        head_sizes=HeadSizes(exact=(256, 512)),
        kv_cache_dtypes=(*UNQUANTIZED, *FP8_ANY),
        accepts_capability=lambda capability: capability[0] == 10,
        supports_mm_prefix=always,
        cuda_graphs="UNIFORM_SINGLE_TOKEN_DECODE",
        cache=BACKENDS_0_23["FLASHINFER"].cache,
    ),
    Backend(
        "FLASH_ATTN_MLA_SPARSE",
        platforms=("cuda",),
        supported=M64,
        is_mla=True,
        is_sparse=True,
        accepts_capability=lambda capability: capability[0] == 9,
        cuda_graphs="UNIFORM_BATCH",
        cache=SPARSE_LATENT,
    ),
    Backend(
        "FLASH_ATTN_MLA_SPARSE_FA4",
        platforms=("cuda",),
        supported=M64,
        is_mla=True,
        is_sparse=True,
        head_sizes=HeadSizes(exact=(576,)),
        dtypes=("bfloat16",),
        kv_cache_dtypes=("auto", "bfloat16"),
        accepts_capability=lambda capability: capability[0] == 10,
        cuda_graphs="UNIFORM_BATCH",
        cache=SPARSE_LATENT,
    ),
    Backend(
        "FLASHINFER_MLA_SPARSE_SM90",
        platforms=("cuda",),
        supported=M64,
        is_mla=True,
        is_sparse=True,
        head_sizes=HeadSizes(exact=(512, 576)),
        dtypes=("bfloat16",),
        kv_cache_dtypes=("auto", "bfloat16", *FP8_E4M3),
        accepts_capability=lambda capability: capability[0] == 9,
        cuda_graphs="UNIFORM_BATCH",
        cache=SPARSE_LATENT,
    ),
    Backend(
        "ULTRAQUANT",
        platforms=("rocm",),
        supported=(16, 32, 64, 128),
        preferred_at_least={"rocm": 64},
        dtypes=("bfloat16",),
        kv_cache_dtypes=("ultraquant_4bit",),
        cuda_graphs="UNIFORM_BATCH",
        cache=BACKENDS_0_23["TURBOQUANT"].cache,
    ),
    Backend(
        "HPC_ATTN",
        platforms=("cuda",),
        supported=(64,),
        head_sizes=HeadSizes(exact=(128,)),
        kv_cache_dtypes=("auto", "bfloat16", "fp8_e4m3"),
        accepts_capability=lambda capability: capability == (9, 0),
        cuda_graphs="UNIFORM_SINGLE_TOKEN_DECODE",
        cache=BACKENDS_0_23["FLASH_ATTN"].cache,
    ),
    Backend(
        "B12X",
        platforms=("cuda",),
        supported=(64, 128),
        preferred=128,
        exact_block_size=True,
        head_sizes=HeadSizes(exact=(64, 128, 192, 256)),
        dtypes=("bfloat16",),
        kv_cache_dtypes=("auto", "bfloat16", *FP8_E4M3),
        accepts_capability=lambda capability: capability in {(12, 0), (12, 1)},
        supports_sinks=always,
        cuda_graphs="UNIFORM_BATCH",
        cache=BACKENDS_0_23["FLASH_ATTN"].cache,
    ),
    Backend(
        "AMX_MLA",
        platforms=("cpu",),
        supported=M32,
        is_mla=True,
        head_sizes=HeadSizes(exact=(576,)),
        dtypes=("bfloat16",),
        kv_cache_dtypes=UNQUANTIZED,
        cache=LATENT,
    ),
    Backend(
        "CPU_MLA",
        platforms=("cpu",),
        supported=(16,),
        exact_block_size=True,
        is_mla=True,
        head_sizes=HeadSizes(exact=(576,)),
        dtypes=("bfloat16", "float16", "float32"),
        kv_cache_dtypes=UNQUANTIZED,
        cache=LATENT,
    ),
    Backend(
        "FLASHINFER_MLA_SPARSE_SM120",
        platforms=("cuda",),
        supported=M64,
        is_mla=True,
        is_sparse=True,
        head_sizes=HeadSizes(exact=(576,)),
        dtypes=("bfloat16",),
        kv_cache_dtypes=("auto", *FP8_E4M3, "fp8_ds_mla"),
        stored_kv_cache_dtypes=dict.fromkeys(("auto", *FP8_E4M3), "fp8_ds_mla"),
        accepts_capability=lambda capability: capability[0] == 12,
        cuda_graphs="UNIFORM_BATCH",
        cache=LATENT,
    ),
)

BACKENDS: Registry[Backend] = Registry("backend", "backend")
for _name, _backend in BACKENDS_0_23.items():
    BACKENDS.add(_name, replace(_backend, **CHANGES.get(_name, {})))
for _backend in NEW:
    BACKENDS.add(_backend.name, _backend)
