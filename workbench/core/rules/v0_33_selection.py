"""Which backend an attention layer gets when none is asked for (0.33).

Source: `_get_backend_priorities` and `get_attn_backend_cls` of each platform in 0.33; what is not
told here is as in 0.23.
"""

from __future__ import annotations

from workbench.core import selection as v0_23
from workbench.core.backends import LayerQuery

SM12X_MLA = ("TRITON_MLA", "FLASHINFER_MLA_SPARSE_SM120")
ROCM = (*v0_23.ROCM, "ULTRAQUANT")
CPU_MLA = ("AMX_MLA", "CPU_MLA")
"""The first where the processor has AMX tiles, which is assumed; the second may be asked for."""


def selection_order(query: LayerQuery) -> tuple[str, ...]:
    """The backends that a layer tries, in order."""
    if query.platform == "cpu" and query.attention.use_mla:
        return () if query.attention.is_sparse else CPU_MLA[:1]
    if query.platform == "cuda" and (query.capability or (0, 0))[0] == 12:
        return SM12X_MLA if query.attention.use_mla else v0_23.CUDA
    if query.platform == "rocm" and v0_23.selection_order(query) == v0_23.ROCM:
        return ROCM
    if query.platform == "xpu":
        return _xpu_order(query)
    return v0_23.selection_order(query)


def _xpu_order(query: LayerQuery) -> tuple[str, ...]:
    """XPU: FlashAttention for MLA where its test passes; Triton for invariance and whole images."""
    order = v0_23.selection_order(query)
    if order == ("TRITON_MLA",):
        fits = query.attention.head_size == 576 and query.model_dtype != "float32"
        plain = query.kv_cache_dtype in {"auto", "float16", "bfloat16"}
        return ("FLASH_ATTN_MLA", "TRITON_MLA") if fits and plain else order
    by_triton = query.batch_invariant or query.attention.has_mm_prefix
    return ("TRITON_ATTN",) if order == ("FLASH_ATTN",) and by_triton else order


def choices_without_test(query: LayerQuery) -> tuple[str, ...]:
    """What may be asked for on XPU and CPU, which test nothing but know few backends."""
    if query.platform == "cpu" and query.attention.use_mla:
        return CPU_MLA
    order = selection_order(query)
    if query.platform == "xpu" and order in {("FLASH_ATTN",), ("TRITON_ATTN",)}:
        return v0_23.choices_without_test(query)
    return order
