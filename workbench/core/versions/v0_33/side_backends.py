"""What reads the caches that layers of 0.33's sparse models keep alongside their attention.

Sources: `get_supported_kernel_block_sizes` and `supported_kv_cache_layouts` of the classes in
`vllm/models/minimax_m3`, `glm5next`, `qwen4_exp`, `inkling` and `step5`, and of `KpoolTailBackend`.
"""

from functools import partial

from workbench.core import packing
from workbench.core.backends import (
    FP8_E4M3,
    UNQUANTIZED,
    Backend,
    Capabilities,
    LayerQuery,
    MultipleOf,
)
from workbench.core.dtypes import PACKED_DTYPES
from workbench.core.versions.v0_23.mla import HELPER
from workbench.core.versions.v0_33 import layouts
from workbench.core.versions.v0_33.conditions import flash_on_xpu_reads_no_e5m2, on_sm12x
from workbench.core.versions.v0_33.flash_attention import flash_attention_version

CHOOSER = "STEP5_DSA"
M1, M16 = (MultipleOf(1),), (MultipleOf(16),)
DSA_DEVICES = Capabilities(exact=((9, 0), (10, 0), (10, 3)))
KEYS = partial(HELPER, cache=layouts.LATENT)
STEP5 = partial(
    KEYS, supported=M1, capabilities=DSA_DEVICES, dtypes=("bfloat16",), cuda_graphs="ALWAYS"
)


def on_cuda(query: LayerQuery) -> bool:
    """Return whether the device is NVIDIA's."""
    return query.platform == "cuda"


def cache_of_untested_flash(query: LayerQuery) -> str | None:
    """Return what stops a cache that FlashAttention does not read, where nothing tests it."""
    dtype = query.kv_cache_dtype
    if CHOOSER not in query.attention.side_backends or dtype in UNQUANTIZED:
        return flash_on_xpu_reads_no_e5m2(query)
    reads_fp8 = (query.major, flash_attention_version(query)) in {(9, 3), (10, 4)}
    if dtype == "fp8_e5m2" or dtype in PACKED_DTYPES or not reads_fp8:
        return f"FlashAttention does not support {dtype} kv-cache on this device."
    return None if dtype in FP8_E4M3 else "Step5 DSA supports E4M3 FP8 KV cache only"


SIDE = (
    HELPER(
        "MINIMAX_M3_SPARSE",
        supported=(128,),
        cache=layouts.FLASHINFER,
        packs={"nvfp4": packing.nvfp4},
    ),
    KEYS("MINIMAX_M3_SPARSE_INDEXER", supported=(128,)),
    # The pages that kernels of DeepGEMM take (get_paged_mqa_page_sizes).
    KEYS(
        "GLM5_NEXT_INDEXER",
        supported=(32, 64),
        supported_when=((on_sm12x, (64,)),),
        counts_keys=True,
        reported_name="DEEPSEEK_V32_INDEXER",
    ),
    KEYS("KPOOL_TAIL", supported=M1, orders=("BLHNC",)),
    KEYS("QWEN4_EXP_EXP_QSA_STATE", supported=M1, orders=("BLNHC", "BLHNC")),
    KEYS("INKLING_SCONV_SWA", supported=M1, dtypes=("bfloat16",)),
    HELPER(
        CHOOSER,
        supported=M16,
        cuda_graphs="UNIFORM_SINGLE_TOKEN_DECODE",
        orders=("BLNHC",),
        capabilities=DSA_DEVICES,
        kv_cache_dtypes=("auto", "bfloat16", "fp8", "fp8_e4m3"),
        cache=layouts.USUAL,
    ),
    STEP5("STEP5_CSA_SUMMARY"),
    STEP5("STEP5_CSA_TAIL_RING"),
    Backend(
        "QWEN4_EXP_QSA_TRITON",
        platforms=("cuda", "rocm"),
        supported=M16,
        is_helper=True,
        dtypes=("bfloat16",),
        kv_cache_dtypes=("auto", "bfloat16"),
        extra_kv_cache_dtypes=(FP8_E4M3, on_cuda),
        cuda_graphs="UNIFORM_BATCH",
        cache=layouts.USUAL,
    ),
)
