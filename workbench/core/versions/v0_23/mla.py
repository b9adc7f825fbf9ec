"""The MLA backends of vLLM 0.23, dense and sparse, one record each.

Sources: the backend classes in `vllm/v1/attention/backends/mla/` of 0.23.
"""

from __future__ import annotations

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
)
from workbench.core.model import Attention
from workbench.core.versions.v0_23 import conditions
from workbench.core.versions.v0_23.layouts import (
    HIDDEN_STATES,
    LATENT,
    PACKED_LATENT,
    SPARSE_LATENT,
)

M1, M16 = (MultipleOf(1),), (MultipleOf(16),)
MLA_HEADS = HeadSizes(exact=(320, 576))
SPARSE_HEADS = HeadSizes(exact=(576,))


def _flashmla_dense(query: LayerQuery) -> str | None:
    """Return why a device is refused that is not a Hopper."""
    if query.capability is None or query.capability[0] == 9:
        return None
    return "FlashMLA Dense is only supported on Hopper devices."


def _flashinfer_mla_nope(query: LayerQuery) -> str | None:
    """Return why a qk_nope_head_dim other than 64, 128 and 192 is refused."""
    nope = query.attention.qk_nope_head_dim
    if nope in {64, 128, 192}:
        return None
    return f"FlashInfer MLA needs qk_nope_head_dim 64, 128 or 192; the model has {nope}"


def _flashinfer_sparse_nope(query: LayerQuery) -> str | None:
    """Return why a qk_nope_head_dim other than 128 and 192 is refused."""
    nope = query.attention.qk_nope_head_dim
    if nope in {128, 192}:
        return None
    return f"FlashInfer sparse MLA needs qk_nope_head_dim 128 or 192; the model has {nope}"


def _tokenspeed_dimensions(query: LayerQuery) -> str | None:
    """Return why head dimensions other than 128, 64 and 128 are refused."""
    attention = query.attention
    given = (attention.qk_nope_head_dim, attention.qk_rope_head_dim, attention.v_head_dim)
    if given == (128, 64, 128):
        return None
    return f"TokenSpeed MLA needs nope/rope/v head dims 128/64/128; the model has {given}"


MLA = (
    Backend(
        "FLASHMLA",
        platforms=("cuda",),
        supported=(64,),
        is_mla=True,
        own_reason=_flashmla_dense,
        head_sizes=MLA_HEADS,
        kv_cache_dtypes=(*UNQUANTIZED, *FP8_E4M3),
        capabilities=Capabilities(majors=(9, 10)),
        cuda_graphs="UNIFORM_BATCH",
        cache=LATENT,
        ranks=(Rank("cuda", 50),),
    ),
    Backend(
        "FLASH_ATTN_MLA",
        platforms=("cuda",),
        supported=M16,
        is_mla=True,
        batch_invariant=True,
        head_sizes=MLA_HEADS,
        capabilities=Capabilities(majors=(9,)),
        cuda_graphs="UNIFORM_BATCH",
        cache=LATENT,
        ranks=(Rank("cuda", 40),),
    ),
    Backend(
        "CUTLASS_MLA",
        platforms=("cuda",),
        supported=(128,),
        is_mla=True,
        head_sizes=MLA_HEADS,
        kv_cache_dtypes=(*UNQUANTIZED, *FP8_E4M3),
        capabilities=Capabilities(majors=(10,)),
        cuda_graphs="UNIFORM_SINGLE_TOKEN_DECODE",
        cache=LATENT,
        ranks=(Rank("cuda", 30, conditions.on_sm10x),),
    ),
    Backend(
        "FLASHINFER_MLA",
        platforms=("cuda",),
        supported=(32, 64),
        is_mla=True,
        head_sizes=MLA_HEADS,
        kv_cache_dtypes=(*UNQUANTIZED, *FP8_E4M3),
        capabilities=Capabilities(majors=(10,)),
        cuda_graphs="UNIFORM_BATCH",
        cache=LATENT,
        layout="HND",
        own_reason=_flashinfer_mla_nope,
        ranks=(Rank("cuda", 10, conditions.on_sm10x), Rank("cuda", 60)),
    ),
    Backend(
        "TOKENSPEED_MLA",
        platforms=("cuda",),
        supported=(32, 64),
        is_mla=True,
        head_sizes=MLA_HEADS,
        kv_cache_dtypes=FP8_E4M3,
        capabilities=Capabilities(majors=(10,)),
        cuda_graphs="UNIFORM_BATCH",
        cache=LATENT,
        layout="HND",
        own_reason=_tokenspeed_dimensions,
        ranks=(Rank("cuda", 20, conditions.on_sm10x),),
    ),
    Backend(
        "TRITON_MLA",
        platforms=("cuda", "rocm", "xpu"),
        supported=M16,
        is_mla=True,
        batch_invariant=True,
        kv_cache_dtypes=(*UNQUANTIZED, *FP8_E4M3),
        cuda_graphs="UNIFORM_BATCH",
        cache=LATENT,
        ranks=(
            Rank("cuda", 70),
            Rank("rocm", 10, conditions.reads_all_tokens),
            Rank("xpu", 20, conditions.dense_on_xpu),
        ),
    ),
    Backend(
        "ROCM_AITER_MLA",
        platforms=("rocm",),
        supported=M1,
        is_mla=True,
        kv_cache_dtypes=(*UNQUANTIZED, *FP8_ANY),
        cuda_graphs="UNIFORM_BATCH",
        cache=LATENT,
    ),
    Backend(
        "ROCM_AITER_TRITON_MLA",
        platforms=("rocm",),
        supported=M1,
        is_mla=True,
        kv_cache_dtypes=(*UNQUANTIZED, *FP8_ANY),
        cuda_graphs="UNIFORM_BATCH",
        cache=LATENT,
        reported_name="AITER_TRITON_MLA",
    ),
)

SPARSE_MLA = (
    Backend(
        "FLASHMLA_SPARSE",
        platforms=("cuda",),
        supported=(64,),
        is_mla=True,
        is_sparse=True,
        head_sizes=SPARSE_HEADS,
        dtypes=("bfloat16",),
        kv_cache_dtypes=("auto", "bfloat16", "fp8", "fp8_ds_mla"),
        stored_kv_cache_dtypes={"fp8": "fp8_ds_mla"},
        capabilities=Capabilities(majors=(9, 10)),
        cuda_graphs="UNIFORM_BATCH",
        cache=PACKED_LATENT,
        ranks=(Rank("cuda", 90),),
    ),
    Backend(
        "FLASHINFER_MLA_SPARSE",
        platforms=("cuda",),
        supported=(32, 64),
        is_mla=True,
        is_sparse=True,
        own_reason=_flashinfer_sparse_nope,
        head_sizes=SPARSE_HEADS,
        kv_cache_dtypes=(*UNQUANTIZED, *FP8_E4M3),
        capabilities=Capabilities(majors=(10,)),
        cuda_graphs="UNIFORM_BATCH",
        cache=SPARSE_LATENT,
        layout="HND",
        ranks=(
            Rank("cuda", 80, conditions.flashinfer_first),
            Rank("cuda", 100, conditions.on_sm10x),
        ),
    ),
    Backend(
        "ROCM_AITER_MLA_SPARSE",
        platforms=("rocm",),
        supported=(1, 64),
        is_mla=True,
        is_sparse=True,
        kv_cache_dtypes=(*UNQUANTIZED, *FP8_E4M3),
        cuda_graphs="UNIFORM_SINGLE_TOKEN_DECODE",
        cache=SPARSE_LATENT,
        ranks=(
            Rank("rocm", 10, conditions.chooses_tokens),
            Rank("rocm", 10, conditions.chooses_tokens, mla=False),
        ),
    ),
    Backend(
        "XPU_MLA_SPARSE",
        platforms=("xpu",),
        supported=M1,
        is_mla=True,
        is_sparse=True,
        head_sizes=SPARSE_HEADS,
        cache=SPARSE_LATENT,
        ranks=(Rank("xpu", 20, conditions.sparse_on_xpu),),
    ),
)


def companions(attention: Attention) -> tuple[str, ...]:
    """Return the backends of caches that a layer keeps alongside its attention, built before it.

    Source: DeepseekV2MLAAttention, which builds its indexer first (0.23 and 0.33).
    """
    return ("DEEPSEEK_V32_INDEXER",) if attention.is_sparse and attention.use_mla else ()


HELPERS = (
    Backend(
        "CACHE_ONLY_ATTN",
        platforms=("cuda", "rocm", "xpu", "cpu"),
        supported=(MultipleOf(1),),
        is_helper=True,
        cache=HIDDEN_STATES,
    ),
    Backend(
        "DEEPSEEK_V32_INDEXER",
        platforms=("cuda", "rocm", "xpu"),
        supported=(64,),
        supported_on={"rocm": (1, 64)},
        is_sparse=True,
        is_helper=True,
        cuda_graphs="UNIFORM_BATCH",
        cache=LATENT,
    ),
    Backend(
        "DEEPSEEK_V4_INDEXER",
        platforms=("cuda",),
        supported=(256,),
        is_sparse=True,
        is_helper=True,
        cuda_graphs="UNIFORM_BATCH",
    ),
    Backend(
        "DEEPSEEK_V4_SPARSE",
        platforms=("cuda",),
        supported=(256,),
        is_mla=True,
        is_sparse=True,
        is_helper=True,
        cuda_graphs="UNIFORM_BATCH",
    ),
    Backend(
        "SPARSE_SWA",
        platforms=("cuda",),
        supported=(MultipleOf(64),),
        is_sparse=True,
        is_helper=True,
        cuda_graphs="UNIFORM_BATCH",
    ),
)
"""Caches that DeepSeek's sparse models keep alongside their attention."""
