"""The attention backends of vLLM 0.33: those of 0.23 with what changed, and the new ones.

Sources: `get_supported_kernel_block_sizes`, `get_preferred_block_size`, `supports_block_size`,
`supports_*`, `customize_spec` and `supported_kv_cache_layouts` of every backend class in 0.33. The
whole records are what `workbench backends --rules 0.33` prints.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from workbench.core.backends import (
    FP8_ANY,
    FP8_E4M3,
    UNQUANTIZED,
    Backend,
    Capabilities,
    HeadSizes,
    LayerQuery,
    MultipleOf,
    Rank,
    never,
)
from workbench.core.dtypes import INT4_HEADS, NVFP4_DTYPES, PER_TOKEN_HEAD_DTYPES
from workbench.core.model import V41
from workbench.core.packing import NVFP4_DS
from workbench.core.versions.v0_23.backends import BACKENDS as BACKENDS_0_23
from workbench.core.versions.v0_23.compressed import NAMED_FP8, OWN_NAMES
from workbench.core.versions.v0_23.conditions import (
    newer_flash_attention,
    on_sm10x,
    packed_by_turboquant,
    reads_all_tokens,
    reads_all_tokens_with_aiter,
)
from workbench.core.versions.v0_23.mla import flashinfer_sparse_nope
from workbench.core.versions.v0_33 import conditions, context, flash_attention, layouts
from workbench.core.versions.v0_33.compressed import COMPRESSED_V41, OWN_NAMES_V41
from workbench.core.versions.v0_33.narrow_values import flash_is_not_built
from workbench.core.versions.v0_33.new_backends import NEW, reads_no_windows
from workbench.core.versions.v0_33.side_backends import SIDE, cache_of_untested_flash

M16, M32, M64 = (MultipleOf(16),), (MultipleOf(32),), (MultipleOf(64),)
XPU_MLA_HEAD = 576
TRITON, COMPOSITE = "TRITON_ATTN", "TRITON_FLASH_ATTN"


def fits_on_xpu(query: LayerQuery) -> bool:
    """Return whether XPU runs dense MLA with heads of 576 that FlashAttention does not refuse."""
    if not conditions.dense_for_request_on_xpu(query):
        return False
    flash = BACKENDS["FLASH_ATTN_MLA"]
    against = flash.reasons_against(query, flash.supported_on["xpu"])
    return query.attention.head_size == XPU_MLA_HEAD and not against


def tried_on_xpu(query: LayerQuery) -> bool:
    """Return whether the same holds without batch invariance."""
    return fits_on_xpu(query) and not query.batch_invariant


LATENT_HEAD = 512
"""Elements of a latent without a rotated part."""


def _flashinfer_sparse_sizes(query: LayerQuery) -> str | None:
    """Return why heads without a rotated part of another size are refused."""
    # FlashInferMLASparseTRTLLMBackend.supports_combination
    attention = query.attention
    if attention.qk_rope_head_dim != 0:
        return flashinfer_sparse_nope(query)
    if (attention.qk_nope_head_dim, attention.head_size) == (256, 512):
        return None
    return "FlashInfer native no-rope MLA needs qk_nope_head_dim 256 and kv_lora_rank 512"


def _flashmla_sparse_sizes(query: LayerQuery) -> str | None:
    """Return why heads without a rotated part are refused."""
    # FlashMLASparseBackend.supports_combination
    attention, dtype = query.attention, query.kv_cache_dtype
    if attention.head_size == LATENT_HEAD:
        if query.major != 9 or dtype not in (*UNQUANTIZED, "fp8_ds_mla"):
            return "FLASHMLA_SPARSE supports head_size 512 only with bf16 or fp8_ds_mla on SM90"
        if attention.qk_rope_head_dim:
            return "FLASHMLA_SPARSE supports head_size 512 only for rope-free (NoPE) models"
    return None


FLASH_ATTENTION: Mapping[str, Any] = {
    # 0.33 narrows the sizes for some heads of 256 and 512, whatever the states of a hybrid are.
    "with_float32_state": None,
    "supports_mm_prefix": flash_attention.reads_prefixes,
    "supported_on": {"xpu": M64},
    "supported_when": flash_attention.KERNEL_BLOCKS,
    "extra_kv_cache_dtypes": (FP8_E4M3, newer_flash_attention),
    "large_head_sizes": (HeadSizes(multiple_of=8, at_most=512), flash_attention.reads_large_heads),
    "own_reason": flash_attention.fp8_needs_version,
}
CHANGES: Mapping[str, Mapping[str, Any]] = {
    "FLASH_ATTN": {
        **FLASH_ATTENTION,
        "ranks": (Rank("cuda", 20), Rank("xpu", 30, conditions.causal_on_xpu)),
        "on_request": conditions.honoured_on_xpu,
        "fails_when_built": cache_of_untested_flash,
    },
    "FLASH_ATTN_DIFFKV": {**FLASH_ATTENTION, "fails_when_built": flash_is_not_built},
    "FLASHINFER": {
        "ranks": (Rank("cuda", 10, conditions.causal_on_sm10x), Rank("cuda", 30)),
        "supported_when": ((conditions.large_trtllm_pages, (16, 32, 64, 128, 256, 512, 1024)),),
        "capabilities": Capabilities(at_least=(8, 0), at_most=(12, 1)),
        "own_reason": conditions.flashinfer_refusal,
        "fails_when_built": context.nvfp4_scales,
        "supports_sinks": conditions.trtllm_sinks,
        "kv_cache_dtypes": (*UNQUANTIZED, *FP8_ANY, *NVFP4_DTYPES),
        "cache": layouts.FLASHINFER,
        # TRT-LLM's kernels want the heads of a block outside its tokens, and mind nothing outside
        # that.
        "orders_on": {10: ("LBHNC", "BLHNC")},
        "packs": layouts.NVFP4,
    },
    "TRITON_ATTN": {
        "fails_when_built": conditions.triton_reads_no_fp8,
        "kv_cache_dtypes": (*UNQUANTIZED, *FP8_ANY, *PER_TOKEN_HEAD_DTYPES, INT4_HEADS),
        "ranks": (
            Rank("cuda", 40),
            Rank("rocm", 30, reads_all_tokens),
            Rank("xpu", 20, conditions.triton_on_xpu),
        ),
        "on_request": conditions.honoured_on_xpu,
        "cache": layouts.TRITON_ATTN,
        "packs": layouts.TRITON_PACKS,
    },
    "FLEX_ATTENTION": {"orders": ("LBNHC",)},
    "TURBOQUANT": {
        "cache": layouts.TURBOQUANT,
        "orders": ("LBNHC",),
        "own_reason": reads_no_windows,
    },
    "ROCM_ATTN": {
        "ranks": (Rank("rocm", 10, conditions.decodes_alone_on_rocm),),
        "supports_mm_prefix": never,
        "cache": layouts.ROCM_ATTN,
        "orders": ("LHBNC", "LBHNC"),
    },
    "ROCM_AITER_FA": {"cache": layouts.ROCM_AITER, "orders": ("LBHNC", "LHBNC")},
    "ROCM_AITER_UNIFIED_ATTN": {
        "ranks": (
            Rank("rocm", 5, conditions.tries_aiter_on_rdna),
            Rank("rocm", 20, reads_all_tokens_with_aiter),
        ),
        "suits_connectors": True,
        "supports_mm_prefix": never,
        "dtypes": ("float16", "bfloat16"),
        "cache": layouts.ROCM_AITER,
        "orders": ("LBHNC", "LHBNC"),
    },
    "CPU_ATTN": {
        "supported": M32,
        "kv_cache_dtypes": (*UNQUANTIZED, *FP8_ANY),
        "cache": layouts.CPU_ATTN,
        "orders": ("LBHNC",),
    },
    "FLASHMLA": {"ranks": (Rank("cuda", 50, conditions.not_on_sm12x),)},
    "FLASHINFER_MLA": {
        "ranks": (Rank("cuda", 10, on_sm10x), Rank("cuda", 60, conditions.not_on_sm12x))
    },
    "TRITON_MLA": {
        "ranks": (
            Rank("cuda", 70),
            Rank("rocm", 10, reads_all_tokens),
            Rank("xpu", 20, conditions.dense_and_variant_on_xpu),
        ),
        "on_request": conditions.dense_for_request_on_xpu,
        "fails_when_built": conditions.triton_reads_no_fp8,
    },
    "FLASH_ATTN_MLA": {
        "platforms": ("cuda", "xpu"),
        "supported_on": {"xpu": M64},
        "own_reason": context.latents_on_xpu,
        "ranks": (Rank("cuda", 40, conditions.not_on_sm12x), Rank("xpu", 10, tried_on_xpu)),
        "on_request": fits_on_xpu,
    },
    "FLASHMLA_SPARSE": {
        "supported": M64,
        "head_sizes": HeadSizes(exact=(512, 576)),
        "own_reason": _flashmla_sparse_sizes,
        "supported_when": ((conditions.quantized_on_sm10x, (64,)),),
        "extra_kv_cache_dtypes": ((NVFP4_DS,), on_sm10x),
        "fails_when_built": context.sparse_latents,
        "ranks": (Rank("cuda", 90, conditions.not_on_sm12x),),
    },
    "FLASHINFER_MLA_SPARSE": {
        "supported": M32,
        "head_sizes": HeadSizes(exact=(512, 576)),
        "own_reason": _flashinfer_sparse_sizes,
        "ranks": (
            Rank("cuda", 85, conditions.flashinfer_before_flashmla),
            Rank("cuda", 95, on_sm10x),
        ),
    },
    "ROCM_AITER_MLA_SPARSE": {"supported": (1, *M16), "orders": ("LBNHC", "LBHNC", "BLHNC")},
    "CACHE_ONLY_ATTN": {"cache": layouts.HIDDEN_STATES},
    "LINEAR_ATTN": {"reported_name": "BAILING_LINEAR_ATTN"},
    "DEEPSEEK_V32_INDEXER": {"supported_on": {"rocm": (1, *M16)}, "cache": layouts.LATENT},
    # Pages of several sizes are side by side in a block, so blocks have to be outermost
    # (validate_kv_cache_layout).
    "DEEPSEEK_V4_INDEXER": {"orders": ("BLHNC", "BLNHC"), "cache": layouts.LATENT},
    "DEEPSEEK_V4_COMPRESSOR": {"cache": layouts.LATENT},
    "SPARSE_SWA": {"supported": M32, "cache": layouts.COMPRESSED},
    **{
        name: {
            "cache": layouts.COMPRESSED,
            "kv_cache_dtypes": ("auto", *NAMED_FP8, "fp8_ds_mla"),
            "stored_kv_cache_dtypes": dict.fromkeys(("auto", *NAMED_FP8), "fp8_ds_mla"),
        }
        for name in ("FLASHMLA_SPARSE_DSV4", "ROCM_FLASHMLA_SPARSE_DSV4", "XPU_V4_MLA_SPARSE")
    },
    "FLASHINFER_MLA_SPARSE_DSV4": {
        "cache": layouts.COMPRESSED,
        "capabilities": Capabilities(majors=(10, 12)),
        "kv_cache_dtypes": ("auto", "bfloat16", *NAMED_FP8),
        "extra_kv_cache_dtypes": (("fp8_ds_mla",), conditions.on_sm12x),
        "stored_kv_cache_dtypes": dict.fromkeys(("auto", *NAMED_FP8), "fp8_ds_mla"),
        "stored_where": conditions.on_sm12x,
        "own_reason": conditions.packed_for_compressed,
        "ranks": (Rank("cuda", 5, conditions.on_sm12x),),
    },
}
"""Name -> the fields that differ from 0.23."""


NON_CAUSAL = frozenset(
    {"TRITON_ATTN", "FLASHINFER", "CPU_ATTN", "FLASHINFER_MLA", "TOKENSPEED_MLA", "TRITON_MLA"}
)
"""Backends that compute attention in which tokens see later ones, besides those of 0.23."""
RETURNS_LSE = frozenset(
    {
        *("FLASHINFER_MLA", "TOKENSPEED_MLA", "FLASHMLA_SPARSE", "FLASHINFER_MLA_SPARSE"),
        *("ROCM_AITER_MLA", "ROCM_AITER_TRITON_MLA"),
    }
)
"""Backends that return the softmax LSE of a decode, besides those of 0.23."""


def _as_in_0_33(backend: Backend) -> Backend:
    """Return a backend of 0.23 as 0.33 has it: every view has the same axes, no name is forced."""
    view = layouts.LATENT if backend.is_mla else layouts.USUAL
    common = replace(backend, cache=None if backend.cache is None else view, layout=None)
    later = backend.non_causal or backend.name in NON_CAUSAL
    lse = backend.returns_lse or backend.name in RETURNS_LSE
    return replace(common, non_causal=later, returns_lse=lse, **CHANGES.get(backend.name, {}))


BACKENDS = BACKENDS_0_23.derive(_as_in_0_33, (*NEW, *SIDE, *COMPRESSED_V41))


def noticed(query: LayerQuery, name: str) -> str | None:
    """Return what an explicit backend makes a layer take; None where it takes no notice."""
    counting = _counting_requests(query)
    if counting is None or name in counting:
        return name
    # XPU with images: whatever else is requested, Triton reads them
    return TRITON if COMPOSITE in counting else None


def _counting_requests(query: LayerQuery) -> Collection[str] | None:
    """Return the backends whose request a layer takes notice of, None for all."""
    attention = query.attention
    if attention.is_compressed:
        own = OWN_NAMES_V41 if attention.compression == V41 else OWN_NAMES
        known = {*own, "FLASHINFER_MLA_SPARSE", "FLASHINFER_MLA_SPARSE_SM120"}
        return known if query.platform == "cuda" else ()
    if query.platform == "cpu":
        return ("CPU_MLA",) if attention.use_mla else ("CPU_ATTN",)
    if query.platform != "xpu" or conditions.dense_for_request_on_xpu(query):
        return None
    # XPUPlatform.get_attn_backend_cls, in its order
    if packed_by_turboquant(query) or attention.is_sparse:
        return ()
    half = query.model_dtype != "float32"
    if query.batch_invariant or attention.seen_whole:
        composite = half and not query.batch_invariant
        return (TRITON, "FLASH_ATTN", *((COMPOSITE,) * composite))
    return None if half else (TRITON,)
