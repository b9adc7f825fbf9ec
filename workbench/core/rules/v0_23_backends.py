"""The attention backends of vLLM 0.23, one record each.

Sources: `get_supported_kernel_block_sizes`, `get_preferred_block_size`, `supports_*`,
`validate_configuration` and `get_kv_cache_shape` of every backend class in 0.23; backend
selection of `vllm/platforms/{cuda,rocm,xpu,cpu}.py` (#37467 for `is_ssm` and preferred sizes).
To add a backend, add a record here and its name to the selection orders in `selection.py`.
"""

from __future__ import annotations

from workbench.core.backends import (
    FP8_ANY,
    FP8_E4M3,
    UNQUANTIZED,
    Backend,
    HeadSizes,
    LayerQuery,
    MultipleOf,
    always,
)
from workbench.core.dtypes import PER_TOKEN_HEAD_DTYPES, TURBOQUANT_BITS
from workbench.core.registry import Registry
from workbench.core.rules import v0_23_layouts as layouts
from workbench.core.rules.v0_23_mla import HELPERS, MLA, SPARSE_MLA

ALL_FLOATS = ("bfloat16", "float16", "float32")
M1, M16 = (MultipleOf(1),), (MultipleOf(16),)


def _flash_attention_3(query: LayerQuery) -> bool:
    """Return whether version 3 runs, with fp8 caches and every batch in a graph.

    XPU's kernels count as that version.
    """
    return query.platform == "xpu" or query.major == 9


def has_flash_attention_4(query: LayerQuery) -> bool:
    """Return whether a build of FlashAttention 4 exists, whichever version the layer then uses."""
    return query.major in {9, 10, 11}


def newer_flash_attention(query: LayerQuery) -> bool:
    """Return whether version 3 or 4 runs: Hopper, XPU, and SM10x unless batch-invariant."""
    version_4 = query.major == 10 and not query.batch_invariant
    return query.platform == "xpu" or query.major == 9 or version_4


def _trtllm_kernels(query: LayerQuery) -> bool:
    """Return whether TRT-LLM's kernels run, which sinks and drafts in graphs need.

    They need SM10x and an integer number of query heads per KV head.
    """
    attention = query.attention
    sm10x = query.trtllm_kernels and query.major == 10
    return sm10x and attention.num_heads % attention.num_kv_heads == 0


_ATTENTION = (
    Backend(
        "FLASH_ATTN",
        platforms=("cuda", "xpu"),
        supported=M16,
        with_float32_state=(16, 32, 64),
        preferred_at_least={"xpu": 64},
        batch_invariant=True,
        head_sizes=HeadSizes(multiple_of=8, at_most=256),
        large_head_sizes=(HeadSizes(multiple_of=8, at_most=512), has_flash_attention_4),
        extra_kv_cache_dtypes=(FP8_E4M3, _flash_attention_3),
        accepts_capability=lambda capability: capability >= (8, 0),
        supports_sinks=newer_flash_attention,
        cuda_graphs="UNIFORM_BATCH",
        cuda_graphs_where=("ALWAYS", _flash_attention_3),
        cache=layouts.FLASH_ATTN,
    ),
    Backend(
        "FLASHINFER",
        platforms=("cuda",),
        supported=(16, 32, 64),
        head_sizes=HeadSizes(exact=(64, 128, 256, 512)),
        kv_cache_dtypes=(*UNQUANTIZED, *FP8_ANY, "nvfp4"),
        accepts_capability=lambda capability: (7, 5) <= capability <= (12, 1),
        supports_sinks=_trtllm_kernels,
        cuda_graphs="UNIFORM_SINGLE_TOKEN_DECODE",
        cuda_graphs_where=("UNIFORM_BATCH", _trtllm_kernels),
        cache=layouts.FLASHINFER,
        layout="HND",
        layout_on=lambda capability: capability[0] == 10,
    ),
    Backend(
        "TRITON_ATTN",
        platforms=("cuda", "rocm", "xpu"),
        supported=M16,
        batch_invariant=True,
        head_sizes=HeadSizes(at_least=32),
        dtypes=ALL_FLOATS,
        kv_cache_dtypes=(*UNQUANTIZED, *FP8_ANY, *PER_TOKEN_HEAD_DTYPES),
        supports_sinks=always,
        supports_mm_prefix=always,
        cuda_graphs="ALWAYS",
        cache=layouts.TRITON_ATTN,
    ),
    Backend(
        "FLEX_ATTENTION",
        platforms=("cuda",),
        supported=M16,
        batch_invariant=True,
        dtypes=ALL_FLOATS,
        supports_mm_prefix=always,
        cuda_graphs="ALWAYS",
        cache=layouts.FLEX_ATTENTION,
    ),
    Backend(
        "TURBOQUANT",
        platforms=("cuda", "rocm", "xpu"),
        supported=(16, 32, 64, 128),
        kv_cache_dtypes=tuple(TURBOQUANT_BITS),
        cuda_graphs="UNIFORM_BATCH",
        cache=layouts.TURBOQUANT,
    ),
    Backend(
        "ROCM_ATTN",
        platforms=("rocm",),
        supported=M16,
        head_sizes=HeadSizes(exact=(32, 64, 80, 96, 128, 160, 192, 224, 256)),
        dtypes=ALL_FLOATS,
        kv_cache_dtypes=(*UNQUANTIZED, *FP8_ANY),
        supports_mm_prefix=always,
        cuda_graphs="ALWAYS",
        cache=layouts.ROCM_ATTN,
    ),
    Backend(
        "ROCM_AITER_FA",
        platforms=("rocm",),
        supported=(16, 32),
        head_sizes=HeadSizes(exact=(64, 128, 256)),
        kv_cache_dtypes=(*UNQUANTIZED, *FP8_ANY),
        supports_sinks=always,
        cuda_graphs="UNIFORM_BATCH",
        cache=layouts.ROCM_AITER,
        reported_name="FLASH_ATTN",
    ),
    Backend(
        "ROCM_AITER_UNIFIED_ATTN",
        platforms=("rocm",),
        supported=M16,
        preferred_at_least={"rocm": 64},
        head_sizes=HeadSizes(at_least=32),
        dtypes=ALL_FLOATS,
        kv_cache_dtypes=(*UNQUANTIZED, *FP8_ANY),
        supports_sinks=always,
        supports_mm_prefix=always,
        cuda_graphs="ALWAYS",
        cache=layouts.ROCM_AITER,
    ),
    Backend(
        "CPU_ATTN",
        platforms=("cpu",),
        supported=M16,
        head_sizes=HeadSizes(exact=(32, 64, 80, 96, 112, 128, 160, 192, 224, 256, 512)),
        dtypes=ALL_FLOATS,
        kv_cache_dtypes=("auto", *FP8_ANY),
        cache=layouts.CPU_ATTN,
        layout="HND",
    ),
)

_EVERYWHERE = ("cuda", "rocm", "xpu", "cpu")
_SSM = tuple(
    Backend(name, platforms=_EVERYWHERE, supported=M1, is_ssm=True, cuda_graphs=cuda_graphs)
    for name, cuda_graphs in (
        ("MAMBA1_ATTN", "UNIFORM_BATCH"),
        ("MAMBA2_ATTN", "UNIFORM_BATCH"),
        ("SHORT_CONV_ATTN", "UNIFORM_BATCH"),
        ("LINEAR_ATTN", "UNIFORM_SINGLE_TOKEN_DECODE"),
        ("GDN_ATTN", "UNIFORM_BATCH"),
    )
)

BACKENDS: Registry[Backend] = Registry("backend", "backend")
for _backend in (*_ATTENTION, *MLA, *SPARSE_MLA, *HELPERS, *_SSM):
    BACKENDS.add(_backend.name, _backend)
