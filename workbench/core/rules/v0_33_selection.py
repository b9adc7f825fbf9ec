"""Which backend an attention layer gets when none is requested (0.33).

Source: `_get_backend_priorities` and `get_attn_backend_cls` of each platform in 0.33; what is not
described here is as in 0.23.
"""

from __future__ import annotations

from workbench.core import selection as v0_23
from workbench.core.backends import UNQUANTIZED, LayerQuery
from workbench.core.rules.v0_33_backends import BACKENDS

COMPOSITES = {9: "TRITON_FLASH_ATTN", 10: "TRITON_FLASHINFER"}
"""Major capability -> what masks images with Triton and runs the rest with something faster."""
DENSE_MLA = ("FLASH_ATTN_MLA", "FLASHMLA", "FLASHINFER_MLA", "TRITON_MLA")
SM9X_SPARSE = ("FLASH_ATTN_MLA_SPARSE", "FLASHMLA_SPARSE", "FLASHINFER_MLA_SPARSE_SM90")
SM10X_SPARSE = ("FLASH_ATTN_MLA_SPARSE_FA4", "FLASHINFER_MLA_SPARSE", "FLASHMLA_SPARSE")
FEW_HEADS = 16
SM12X_MLA = ("TRITON_MLA", "FLASHINFER_MLA_SPARSE_SM120")
ROCM = (*v0_23.ROCM, "ULTRAQUANT")
XPU_HONOURED = ("FLASH_ATTN", "TRITON_ATTN")
"""What XPU takes when requested, even where it warns that masks or bits will be wrong."""
XPU_MLA_HEAD = 576
CPU_MLA = ("AMX_MLA", "CPU_MLA")
"""The first where the processor has AMX tiles, which is assumed; the second may be requested."""


def selection_order(query: LayerQuery) -> tuple[str, ...]:
    """Return the backends that a layer tries, in order."""
    if query.platform == "cpu" and query.attention.use_mla:
        return () if query.attention.is_sparse else CPU_MLA[:1]
    if query.platform == "cuda":
        return _cuda_order(query)
    if query.platform == "rocm" and v0_23.selection_order(query) == v0_23.ROCM:
        return ROCM
    if query.platform == "xpu":
        return _xpu_order(query)
    return v0_23.selection_order(query)


def _cuda_order(query: LayerQuery) -> tuple[str, ...]:
    """Return the order on CUDA: composites first where images are seen whole.

    Sparse kinds by generation and dtype.
    """
    major, mla = query.major, query.attention.use_mla
    if not mla:
        composite = COMPOSITES.get(major) if query.attention.has_mm_prefix else None
        return (*filter(None, (composite,)), *v0_23.selection_order(query))
    if major == 12:
        return SM12X_MLA
    if major != 10:
        wide = query.attention.head_size == 512
        return (*DENSE_MLA, *(SM9X_SPARSE[-1:] + SM9X_SPARSE[:-1] if wide else SM9X_SPARSE))
    if query.kv_cache_dtype not in UNQUANTIZED:
        return (*v0_23.SM10X_MLA, "FLASHINFER_MLA_SPARSE", "FLASHMLA_SPARSE")
    few = query.heads_per_rank <= FEW_HEADS
    return (*v0_23.SM10X_MLA, *(SM10X_SPARSE if few else SM10X_SPARSE[:0:-1]))


def _xpu_order(query: LayerQuery) -> tuple[str, ...]:
    """Return the order on XPU: FlashAttention for MLA where its test passes.

    Triton for invariance and whole images.
    """
    order = v0_23.selection_order(query)
    if order == ("TRITON_MLA",):
        if query.batch_invariant:
            return ()  # TRITON_ATTN is taken as given, and knows no MLA
        flash = BACKENDS["FLASH_ATTN_MLA"]
        against = flash.reasons_against(query, flash.supported_on["xpu"])
        fits = query.attention.head_size == XPU_MLA_HEAD and not against
        return (flash.name, *order) if fits else order
    if order != ("FLASH_ATTN",):
        return order
    if query.batch_invariant:
        return ("TRITON_ATTN",)
    if query.attention.has_mm_prefix:
        composite = query.attention.head_size in {256, 512}
        return ("TRITON_FLASH_ATTN",) if composite else ("TRITON_ATTN",)
    return order


def choices_without_test(query: LayerQuery) -> tuple[str, ...]:
    """Return what may be requested on XPU and CPU, which test nothing but know few backends."""
    if query.platform == "cpu" and query.attention.use_mla and not query.attention.is_sparse:
        return CPU_MLA
    order = selection_order(query._replace(batch_invariant=False))
    if query.platform != "xpu" or query.attention.use_mla or order == ("TURBOQUANT",):
        return order
    if query.batch_invariant:
        return XPU_HONOURED
    if query.attention.has_mm_prefix:
        return tuple(dict.fromkeys((*XPU_HONOURED, *order)))
    return v0_23.choices_without_test(query)
