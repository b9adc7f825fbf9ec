"""The MLA backends of vLLM 0.23, dense and sparse, one record each.

Sources: the backend classes in `vllm/v1/attention/backends/mla/` of 0.23.
"""

from collections.abc import Mapping
from functools import partial

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
)
from workbench.core.model import FLOAT32_STATE, INDEX_KEY, SLIDING, V4, V41, Attention
from workbench.core.platforms import EVERYWHERE
from workbench.core.versions.v0_23 import conditions, layouts
from workbench.core.versions.v0_23.layouts import LATENT

M1, M16 = (MultipleOf(1),), (MultipleOf(16),)


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


def flashinfer_sparse_nope(query: LayerQuery) -> str | None:
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


DENSE = partial(
    Backend,
    platforms=("cuda",),
    is_mla=True,
    head_sizes=HeadSizes(exact=(320, 576)),
    kv_cache_dtypes=(*UNQUANTIZED, *FP8_E4M3),
    cuda_graphs="UNIFORM_BATCH",
    cache=LATENT,
)
"""What the dense backends have in common, unless a record says otherwise."""
SPARSE = partial(
    DENSE, is_sparse=True, head_sizes=HeadSizes(exact=(576,)), cache=layouts.SPARSE_LATENT
)
SM10X = Capabilities(majors=(10,))

MLA = (
    DENSE(
        "FLASHMLA",
        returns_lse=True,
        supported=(64,),
        # The class takes SM10x, and its library refuses dense attention there
        # (supports_combination).
        own_reason=_flashmla_dense,
        capabilities=Capabilities(majors=(9, 10)),
        ranks=(Rank("cuda", 50),),
    ),
    DENSE(
        "FLASH_ATTN_MLA",
        returns_lse=True,
        supported=M16,
        batch_invariant=True,
        kv_cache_dtypes=UNQUANTIZED,
        capabilities=Capabilities(majors=(9,)),
        ranks=(Rank("cuda", 40),),
    ),
    DENSE(
        "CUTLASS_MLA",
        returns_lse=True,
        supported=(128,),
        capabilities=SM10X,
        cuda_graphs="UNIFORM_SINGLE_TOKEN_DECODE",
        ranks=(Rank("cuda", 30, conditions.on_sm10x),),
    ),
    DENSE(
        "FLASHINFER_MLA",
        supported=(32, 64),
        capabilities=SM10X,
        layout="HND",
        own_reason=_flashinfer_mla_nope,
        # In the order of other devices as well, which then refuse it.
        ranks=(Rank("cuda", 10, conditions.on_sm10x), Rank("cuda", 60)),
    ),
    DENSE(
        "TOKENSPEED_MLA",
        supported=(32, 64),
        kv_cache_dtypes=FP8_E4M3,
        capabilities=SM10X,
        layout="HND",
        own_reason=_tokenspeed_dimensions,
        # After FlashInfer: faster from batches of about 8 on, slower up to 2
        # (_get_backend_priorities).
        ranks=(Rank("cuda", 20, conditions.on_sm10x),),
    ),
    DENSE(
        "TRITON_MLA",
        returns_lse=True,
        platforms=("cuda", "rocm", "xpu"),
        supported=M16,
        batch_invariant=True,
        head_sizes=ANY_HEAD,
        ranks=(
            Rank("cuda", 70),
            Rank("rocm", 10, conditions.reads_all_tokens),
            Rank("xpu", 20, conditions.dense_on_xpu),
        ),
    ),
    *(
        DENSE(
            name,
            platforms=("rocm",),
            supported=M1,
            head_sizes=ANY_HEAD,
            kv_cache_dtypes=(*UNQUANTIZED, *FP8_ANY),
            reported_name=reported_name,
            ranks=(Rank("rocm", number, conditions.tries_aiter),),
        )
        # Triton's own is between them
        for name, reported_name, number in (
            ("ROCM_AITER_MLA", None, 5),
            ("ROCM_AITER_TRITON_MLA", "AITER_TRITON_MLA", 95),
        )
    ),
)

# After all dense ones, which refuse sparse attention: the numbers only order these.
SPARSE_MLA = (
    SPARSE(
        "FLASHMLA_SPARSE",
        supported=(64,),
        dtypes=("bfloat16",),
        kv_cache_dtypes=("auto", "bfloat16", "fp8", "fp8_ds_mla"),
        stored_kv_cache_dtypes={"fp8": "fp8_ds_mla"},
        capabilities=Capabilities(majors=(9, 10)),
        cache=layouts.PACKED_LATENT,
        ranks=(Rank("cuda", 90),),
    ),
    SPARSE(
        "FLASHINFER_MLA_SPARSE",
        supported=(32, 64),
        own_reason=flashinfer_sparse_nope,
        capabilities=SM10X,
        layout="HND",
        ranks=(
            Rank("cuda", 80, conditions.flashinfer_first),
            Rank("cuda", 100, conditions.on_sm10x),
        ),
    ),
    SPARSE(
        "ROCM_AITER_MLA_SPARSE",
        platforms=("rocm",),
        supported=(1, 64),
        head_sizes=ANY_HEAD,
        cuda_graphs="UNIFORM_SINGLE_TOKEN_DECODE",
        ranks=(
            Rank("rocm", 10, conditions.chooses_tokens),
            Rank("rocm", 10, conditions.chooses_tokens, mla=False),
        ),
    ),
    SPARSE(
        "XPU_MLA_SPARSE",
        platforms=("xpu",),
        supported=M1,
        kv_cache_dtypes=UNQUANTIZED,
        cuda_graphs="NEVER",
        ranks=(Rank("xpu", 20, conditions.sparse_on_xpu),),
    ),
)


def companions(attention: Attention) -> Mapping[str, str]:
    """Return the backends of caches that a layer keeps alongside its attention, built before it."""
    # Source: DeepseekV2MLAAttention, which builds its indexer first (0.23 and 0.33), and
    # DeepseekV4Attention, where the window is built first in a layer without an indexer.
    if attention.side_backends:
        own = {} if attention.indexer is None else _INDEXER
        return {**own, **{name: name for name in attention.side_backends}}
    if attention.compression:
        return _COMPRESSED[attention.compression]
    return _INDEXER if attention.is_sparse and attention.use_mla else _NONE


_NONE: Mapping[str, str] = {}
_INDEXER = {INDEX_KEY: "DEEPSEEK_V32_INDEXER"}
_COMPRESSED = {
    kind: {SLIDING: "SPARSE_SWA", INDEX_KEY: indexer, FLOAT32_STATE: "DEEPSEEK_V4_COMPRESSOR"}
    for kind, indexer in ((V4, "DEEPSEEK_V4_INDEXER"), (V41, "DEEPSEEK_V41_INDEXER"))
}


ACCELERATORS = ("cuda", "rocm", "xpu")
HELPER = partial(
    Backend, platforms=("cuda",), is_sparse=True, is_helper=True, cuda_graphs="UNIFORM_BATCH"
)
HELPERS = (
    Backend(
        "CACHE_ONLY_ATTN",
        platforms=EVERYWHERE,
        supported=M1,
        is_helper=True,
        cache=layouts.HIDDEN_STATES,
    ),
    HELPER(
        "DEEPSEEK_V32_INDEXER",
        platforms=ACCELERATORS,
        supported=(64,),
        supported_on={"rocm": (1, 64)},
        cache=LATENT,
    ),
    HELPER("DEEPSEEK_V4_INDEXER", platforms=ACCELERATORS, supported=(256,), cache=LATENT),
    HELPER(
        "DEEPSEEK_V4_COMPRESSOR",
        platforms=ACCELERATORS,
        supported=M1,
        cuda_graphs="ALWAYS",
        cache=LATENT,
        reported_name="CompressorBackend",
    ),
    HELPER(
        "SPARSE_SWA",
        platforms=ACCELERATORS,
        reported_name="DEEPSEEK_SPARSE_SWA",
        supported=(MultipleOf(64),),
        preferred_at_least=dict.fromkeys(ACCELERATORS, 256),
        cache=layouts.COMPRESSED,
    ),
)
"""Caches that DeepSeek's sparse models keep alongside their attention."""
