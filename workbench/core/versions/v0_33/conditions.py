"""When a backend of vLLM 0.33 is tried, and when it can do more: what its records refer to.

Sources: `_get_backend_priorities` and `get_attn_backend_cls` of each platform, and the backend
classes, 0.33. What is not described here is as in 0.23.
"""

from __future__ import annotations

from workbench.core.backends import UNQUANTIZED, LayerQuery
from workbench.core.dtypes import FP8_DTYPES, NVFP4_DTYPES
from workbench.core.versions.v0_23.conditions import (
    FEW_HEADS,
    dense_on_xpu,
    float32_on_xpu,
    packed_by_turboquant,
    plain_on_xpu,
)

FP8_TYPES = frozenset((*FP8_DTYPES, "fp8_ds_mla"))
WIDE_HEAD = 512
COMPOSITE_HEADS = frozenset({256, 512})


def trtllm_sinks(query: LayerQuery) -> bool:
    """Return whether sinks work: with TRT-LLM's kernels on SM10x, for decoding on 9.0 and 12.x."""
    attention = query.attention
    whole = attention.num_heads % attention.num_kv_heads == 0
    return query.trtllm_kernels and whole and query.major in {9, 10, 12}


def large_trtllm_pages(query: LayerQuery) -> bool:
    """Return whether TRT-LLM's kernels run on SM10x, several query heads per KV head of a rank.

    16 heads with 4 KV heads are one query head with one KV head on 16 ranks.
    """
    heads = query.heads_per_rank
    kv_heads = query.attention.kv_heads_per_rank(query.attention.num_heads // heads)
    grouped = heads // kv_heads > 1 and heads % kv_heads == 0
    return query.trtllm_kernels and query.major == 10 and grouped


def nvfp4_refusal(query: LayerQuery) -> str | None:
    """Return why a 4-bit cache is refused where neither TRT-LLM nor FlashAttention 2 reads it."""
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


def quantized_on_sm10x(query: LayerQuery) -> bool:
    """Return whether an SM10x keeps an fp8 cache."""
    return query.major == 10 and query.kv_cache_dtype in FP8_TYPES


def sees_images_whole_on_sm9x(query: LayerQuery) -> bool:
    """Return whether Hopper runs masks that are bidirectional over images."""
    return query.major == 9 and query.attention.has_mm_prefix


def sees_images_whole_on_sm10x(query: LayerQuery) -> bool:
    """Return whether an SM10x runs masks that are bidirectional over images."""
    return query.major == 10 and query.attention.has_mm_prefix


def on_sm12x(query: LayerQuery) -> bool:
    """Return whether the device is an SM12x."""
    return query.major == 12


def not_on_sm12x(query: LayerQuery) -> bool:
    """Return whether the device is anything but an SM12x."""
    return query.major != 12


def before_sm10x(query: LayerQuery) -> bool:
    """Return whether the device is neither an SM10x nor an SM12x."""
    return query.major not in {10, 12}


def wide_before_sm10x(query: LayerQuery) -> bool:
    """Return whether a device before SM10x runs heads of 512."""
    return before_sm10x(query) and query.attention.head_size == WIDE_HEAD


def few_unquantized_heads(query: LayerQuery) -> bool:
    """Return whether an SM10x has an unquantized cache and at most 16 heads per rank."""
    unquantized = query.kv_cache_dtype in UNQUANTIZED
    return query.major == 10 and unquantized and query.heads_per_rank <= FEW_HEADS


def flashinfer_before_flashmla(query: LayerQuery) -> bool:
    """Return whether an SM10x has a quantized cache or at most 16 heads per rank."""
    few = query.kv_cache_dtype not in UNQUANTIZED or query.heads_per_rank <= FEW_HEADS
    return query.major == 10 and few


def dense_and_variant_on_xpu(query: LayerQuery) -> bool:
    """Return whether dense attention runs on XPU without TurboQuant and batch invariance."""
    return dense_on_xpu(query) and not query.batch_invariant


def dense_for_request_on_xpu(query: LayerQuery) -> bool:
    """Return whether XPU runs dense MLA without TurboQuant, batch-invariant or not."""
    return query.platform == "xpu" and query.attention.use_mla and dense_on_xpu(query)


def causal_on_xpu(query: LayerQuery) -> bool:
    """Return whether XPU runs half precision, causal masks only, without batch invariance."""
    plain = plain_on_xpu(query) and not query.batch_invariant
    return plain and not query.attention.has_mm_prefix


def invariant_on_xpu(query: LayerQuery) -> bool:
    """Return whether XPU runs half precision batch-invariantly."""
    return plain_on_xpu(query) and query.batch_invariant


def sees_images_whole_on_xpu(query: LayerQuery) -> bool:
    """Return whether XPU runs half precision with masks that are bidirectional over images."""
    plain = plain_on_xpu(query) and not query.batch_invariant
    return plain and query.attention.has_mm_prefix


def triton_on_xpu(query: LayerQuery) -> bool:
    """Return whether XPU needs Triton: float32, batch invariance, or other heads over images."""
    whole = sees_images_whole_on_xpu(query) and not composite_on_xpu(query)
    return float32_on_xpu(query) or invariant_on_xpu(query) or whole


def composite_on_xpu(query: LayerQuery) -> bool:
    """Return whether such masks have heads of 256 or 512 on XPU."""
    return sees_images_whole_on_xpu(query) and query.attention.head_size in COMPOSITE_HEADS


def honoured_on_xpu(query: LayerQuery) -> bool:
    """Return whether XPU takes what is requested, even where it warns of wrong masks or bits."""
    if query.platform != "xpu" or query.attention.use_mla:
        return False
    if packed_by_turboquant(query):
        return False
    special = query.batch_invariant or query.attention.has_mm_prefix
    return special or query.model_dtype != "float32"


def mla_on_cpu(query: LayerQuery) -> bool:
    """Return whether the CPU runs dense MLA."""
    return query.platform == "cpu" and query.attention.use_mla and not query.attention.is_sparse
