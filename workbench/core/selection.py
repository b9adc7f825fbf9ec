"""Which backend an attention layer gets when none is requested (0.23)."""

from __future__ import annotations

from workbench.core.backends import LayerQuery
from workbench.core.model import Attention

SM10X = ("FLASHINFER", "FLASH_ATTN", "TRITON_ATTN", "FLEX_ATTENTION", "TURBOQUANT")
CUDA = ("FLASH_ATTN", "FLASHINFER", "TRITON_ATTN", "FLEX_ATTENTION", "TURBOQUANT")
SM10X_MLA = (
    "FLASHINFER_MLA",
    "TOKENSPEED_MLA",
    "CUTLASS_MLA",
    "FLASH_ATTN_MLA",
    "FLASHMLA",
    "TRITON_MLA",
)
CUDA_MLA = ("FLASH_ATTN_MLA", "FLASHMLA", "FLASHINFER_MLA", "TRITON_MLA", "FLASHMLA_SPARSE")
ROCM = ("ROCM_ATTN", "ROCM_AITER_UNIFIED_ATTN", "TRITON_ATTN", "TURBOQUANT")


def _cuda_order(query: LayerQuery) -> tuple[str, ...]:
    """Return the order on CUDA, by generation.

    On SM10x the sparse kinds depend on KV dtype and heads.
    """
    sm10x = query.major == 10
    if not query.attention.use_mla:
        return SM10X if sm10x else CUDA
    if not sm10x:
        return CUDA_MLA
    flashinfer_first = query.kv_cache_dtype.startswith("fp8") or query.heads_per_rank <= 16
    sparse = ("FLASHINFER_MLA_SPARSE", "FLASHMLA_SPARSE")
    return (*SM10X_MLA, *(sparse if flashinfer_first else sparse[::-1]))


def _rocm_order(query: LayerQuery) -> tuple[str, ...]:
    """Return the order on ROCm with AITER off, as it starts without environment variables."""
    if query.attention.is_sparse:
        return ("ROCM_AITER_MLA_SPARSE",)
    return ("TRITON_MLA",) if query.attention.use_mla else ROCM


def _xpu_order(query: LayerQuery) -> tuple[str, ...]:
    """Return the order on XPU, which takes the first match; TurboQuant comes first, for MLA too."""
    if query.kv_cache_dtype.startswith("turboquant_"):
        return ("TURBOQUANT",)
    if query.attention.use_mla:
        return ("XPU_MLA_SPARSE",) if query.attention.is_sparse else ("TRITON_MLA",)
    return ("TRITON_ATTN",) if query.model_dtype == "float32" else ("FLASH_ATTN",)


def choices_without_test(query: LayerQuery) -> tuple[str, ...]:
    """Return what may be requested on XPU and CPU, which test nothing but know few backends."""
    order = selection_order(query)
    if query.platform == "xpu" and order == ("FLASH_ATTN",):
        return ("FLASH_ATTN", "TRITON_ATTN")
    return order


def companions(attention: Attention) -> tuple[str, ...]:
    """Return the backends of caches that a layer keeps alongside its attention, built before it.

    Source: DeepseekV2MLAAttention, which builds its indexer first (0.23 and 0.33).
    """
    return ("DEEPSEEK_V32_INDEXER",) if attention.is_sparse and attention.use_mla else ()


def selection_order(query: LayerQuery) -> tuple[str, ...]:
    """Return the backends that a layer tries, in order.

    Source: `get_attn_backend_cls` of each platform in 0.23.
    """
    if query.platform == "cuda":
        return _cuda_order(query)
    if query.platform == "rocm":
        return _rocm_order(query)
    if query.platform == "xpu":
        return _xpu_order(query)
    return () if query.attention.use_mla else ("CPU_ATTN",)
