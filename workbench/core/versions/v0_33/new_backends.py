"""The attention backends that vLLM 0.33 has and 0.23 has not, one record each.

Sources: `get_supported_kernel_block_sizes`, `supports_*`, `customize_spec` and
`supported_kv_cache_layouts` of every backend class in 0.33.
"""

from functools import partial

from workbench.core import packing
from workbench.core.backends import (
    ANY_HEAD,
    FP8_ANY,
    FP8_E4M3,
    UNQUANTIZED,
    Backend,
    Capabilities,
    HeadSizes,
    LayerQuery,
    MultipleOf,
    Rank,
    always,
)
from workbench.core.dtypes import ULTRAQUANT
from workbench.core.versions.v0_23.conditions import newer_flash_attention, reads_all_tokens
from workbench.core.versions.v0_23.mla import SPARSE as SPARSE_0_23
from workbench.core.versions.v0_33 import conditions, flash_attention, layouts
from workbench.core.versions.v0_33.narrow_values import triton_is_not_built

M16, M32, M64 = (MultipleOf(16),), (MultipleOf(32),), (MultipleOf(64),)

USUAL = partial(Backend, platforms=("cuda",), cuda_graphs="UNIFORM_BATCH", cache=layouts.USUAL)
SPARSE = partial(SPARSE_0_23, supported=M64, dtypes=("bfloat16",), cache=layouts.LATENT)
CPU = partial(
    Backend,
    platforms=("cpu",),
    is_mla=True,
    head_sizes=HeadSizes(exact=(576,)),
    kv_cache_dtypes=UNQUANTIZED,
    cache=layouts.LATENT,
)
CHOSEN = 2048
"""Tokens that the kernel of FLASHINFER_MLA_SPARSE_SM120 reads of each query."""


def reads_no_windows(query: LayerQuery) -> str | None:
    """Return why a layer with a window is refused."""
    return "sliding window not supported" if query.slides else None


def chooses_as_many(query: LayerQuery) -> str | None:
    """Return why layers that choose a number of tokens other than its kernel's are refused."""
    # FlashInferMLASparseSM120Backend.supports_combination
    chosen = query.attention.chosen_tokens
    return None if chosen == CHOSEN else f"requires index_topk={CHOSEN}; got {chosen}"


NEW = (
    USUAL(
        "TRITON_FLASH_ATTN",
        platforms=("cuda", "xpu"),
        supported=M16,
        supported_on={"xpu": M64},
        supported_when=flash_attention.KERNEL_BLOCKS,
        head_sizes=HeadSizes(exact=(256, 512)),
        kv_cache_dtypes=UNQUANTIZED,
        extra_kv_cache_dtypes=(FP8_E4M3, newer_flash_attention),
        capabilities=Capabilities(majors=(9,)),
        supports_mm_prefix=always,
        own_reason=flash_attention.needs_newer_version,
        ranks=(
            Rank("cuda", 5, conditions.sees_images_whole_on_sm9x),
            Rank("xpu", 30, conditions.composite_on_xpu),
        ),
    ),
    USUAL(
        "TRITON_FLASHINFER",
        supported=(64,),
        head_sizes=HeadSizes(exact=(256, 512)),
        kv_cache_dtypes=(*UNQUANTIZED, *FP8_ANY),
        capabilities=Capabilities(majors=(10,)),
        supports_mm_prefix=always,
        cuda_graphs="UNIFORM_SINGLE_TOKEN_DECODE",
        ranks=(Rank("cuda", 5, conditions.sees_images_whole_on_sm10x),),
        orders_on={10: ("LBHNC", "BLHNC")},
    ),
    SPARSE(
        "FLASH_ATTN_MLA_SPARSE",
        head_sizes=ANY_HEAD,
        dtypes=("bfloat16", "float16"),
        kv_cache_dtypes=UNQUANTIZED,
        capabilities=Capabilities(majors=(9,)),
        ranks=(Rank("cuda", 80, conditions.before_sm10x),),
    ),
    SPARSE(
        "DOTS3_NOTE_PADDED_MLA_SPARSE",
        platforms=("cuda", "rocm"),
        is_helper=True,
        head_sizes=ANY_HEAD,
        dtypes=("bfloat16", "float16"),
        kv_cache_dtypes=UNQUANTIZED,
        orders=("BLHNC",),
    ),
    SPARSE(
        "FLASH_ATTN_MLA_SPARSE_FA4",
        returns_lse=True,
        kv_cache_dtypes=("auto", "bfloat16"),
        capabilities=Capabilities(majors=(10,)),
        ranks=(Rank("cuda", 80, conditions.few_unquantized_heads),),
    ),
    SPARSE(
        "FLASHINFER_MLA_SPARSE_SM90",
        head_sizes=HeadSizes(exact=(512, 576)),
        kv_cache_dtypes=("auto", "bfloat16", *FP8_E4M3),
        capabilities=Capabilities(majors=(9,)),
        ranks=(
            # First of the sparse ones for heads of 512, last for others (_get_backend_priorities).
            Rank("cuda", 75, conditions.wide_before_sm10x),
            Rank("cuda", 100, conditions.before_sm10x),
        ),
    ),
    USUAL(
        "TRITON_ATTN_DIFFKV",
        platforms=("cuda", "rocm", "xpu"),
        supported=M16,
        batch_invariant=True,
        head_sizes=HeadSizes(at_least=32),
        dtypes=("bfloat16", "float16", "float32"),
        kv_cache_dtypes=("auto", "bfloat16", *FP8_E4M3),
        supports_sinks=always,
        supports_mm_prefix=always,
        cuda_graphs="ALWAYS",
        fails_when_built=triton_is_not_built,
    ),
    USUAL(
        "ULTRAQUANT",
        platforms=("rocm",),
        supported=(16, 32, 64, 128),
        preferred_at_least={"rocm": 64},
        dtypes=("bfloat16",),
        kv_cache_dtypes=(ULTRAQUANT,),
        cache=layouts.ULTRAQUANT_SLOT,
        own_reason=reads_no_windows,
        ranks=(Rank("rocm", 50, reads_all_tokens),),
        orders=("LBNHC",),
        packs={ULTRAQUANT: packing.ultraquant},
    ),
    USUAL(
        "HPC_ATTN",
        supported=(64,),
        head_sizes=HeadSizes(exact=(128,)),
        kv_cache_dtypes=("auto", "bfloat16", "fp8_e4m3"),
        capabilities=Capabilities(exact=((9, 0),)),
        cuda_graphs="UNIFORM_SINGLE_TOKEN_DECODE",
        orders=("LBNHC",),
        own_reason=reads_no_windows,
        fails_when_built=conditions.hpc_shares_heads,
    ),
    USUAL(
        "B12X",
        supported=(64, 128),
        preferred=128,
        exact_block_size=True,
        head_sizes=HeadSizes(exact=(64, 128, 192, 256)),
        dtypes=("bfloat16",),
        kv_cache_dtypes=("auto", "bfloat16", *FP8_E4M3),
        capabilities=Capabilities(exact=((12, 0), (12, 1))),
        supports_sinks=always,
        cache=layouts.B12X,
        orders=("LBHNC", "BLHNC"),
        fails_when_built=conditions.b12x_is_built_first,
    ),
    CPU(
        # A CPU with AMX tiles is taken for granted; without them vLLM falls back to CPU_MLA.
        "AMX_MLA",
        supported=M32,
        dtypes=("bfloat16",),
        ranks=(Rank("cpu", 10, conditions.mla_on_cpu),),
    ),
    CPU(
        # Its decode kernel is compiled for blocks of 16 alone
        # (CpuPlatform.check_and_update_config).
        "CPU_MLA",
        supported=(16,),
        exact_block_size=True,
        dtypes=("bfloat16", "float16", "float32"),
        on_request=conditions.mla_on_cpu,
    ),
    SPARSE(
        "FLASHINFER_MLA_SPARSE_SM120",
        head_sizes=HeadSizes(exact=(512, 576)),
        own_reason=chooses_as_many,
        kv_cache_dtypes=("auto", *FP8_E4M3, "fp8_ds_mla"),
        stored_kv_cache_dtypes=dict.fromkeys(("auto", *FP8_E4M3), "fp8_ds_mla"),
        capabilities=Capabilities(majors=(12,)),
        ranks=(Rank("cuda", 80, conditions.on_sm12x),),
    ),
)
