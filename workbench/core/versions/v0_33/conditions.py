"""When a backend of vLLM 0.33 is tried, and when it can do more: what its records refer to.

Sources: `_get_backend_priorities` and `get_attn_backend_cls` of each platform, and the backend
classes, 0.33. What is not described here is as in 0.23.
"""

from workbench.core.backends import UNQUANTIZED, LayerQuery
from workbench.core.dtypes import FP8_DTYPES, NVFP4_DTYPES
from workbench.core.groups.cache_spec import GAP_SPEC
from workbench.core.model import FULL, SLIDING, Model
from workbench.core.packing import NVFP4_DS
from workbench.core.platforms import FP8_SINCE
from workbench.core.versions.v0_23 import conditions

FP8_TYPES = frozenset((*FP8_DTYPES, "fp8_ds_mla"))
QUANTIZED_LATENTS = FP8_TYPES | {NVFP4_DS}
WIDE_HEAD = 512
STEP = frozenset({"Step3p5ForCausalLM", "Step3p7ForConditionalGeneration", "step3p5", "step3p7"})
COMPOSITE_HEADS = frozenset({256, 512})


def trtllm_sinks(query: LayerQuery) -> bool:
    """Return whether sinks work: with TRT-LLM's kernels on SM10x, for decoding on 9.0 and 12.x."""
    attention = query.attention
    whole = attention.num_heads % attention.num_kv_heads == 0
    return query.trtllm_kernels and whole and query.major in {9, 10, 12}


def large_trtllm_pages(query: LayerQuery) -> bool:
    """Return whether TRT-LLM's kernels run on SM10x, several query heads per KV head of a rank."""
    # 16 heads with 4 KV heads are one query head with one KV head on 16 ranks.
    # Larger pages run on TRT-LLM's kernel for grouped heads only: offered elsewhere, they could be
    # chosen and not served (get_supported_kernel_block_sizes).
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


def tries_aiter_on_rdna(query: LayerQuery) -> bool:
    """Return whether AITER is on, on RDNA 4 (`is_rdna_aiter_enabled`)."""
    return query.aiter and query.gfx.startswith("gfx12")


def quantized_on_sm10x(query: LayerQuery) -> bool:
    """Return whether an SM10x keeps an fp8 cache."""
    return query.major == 10 and query.kv_cache_dtype in QUANTIZED_LATENTS


def sees_images_whole_on_sm9x(query: LayerQuery) -> bool:
    """Return whether Hopper runs masks that are bidirectional over images."""
    return query.major == 9 and bool(query.attention.seen_whole)


def sees_images_whole_on_sm10x(query: LayerQuery) -> bool:
    """Return whether an SM10x runs masks that are bidirectional over images."""
    return query.major == 10 and bool(query.attention.seen_whole)


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
    return query.major == 10 and unquantized and query.heads_per_rank <= conditions.FEW_HEADS


def flashinfer_before_flashmla(query: LayerQuery) -> bool:
    """Return whether an SM10x has a quantized cache or at most 16 heads per rank."""
    few = query.kv_cache_dtype not in UNQUANTIZED or query.heads_per_rank <= conditions.FEW_HEADS
    return query.major == 10 and few


def dense_and_variant_on_xpu(query: LayerQuery) -> bool:
    """Return whether dense attention runs on XPU without TurboQuant and batch invariance."""
    return conditions.dense_on_xpu(query) and not query.batch_invariant


def dense_for_request_on_xpu(query: LayerQuery) -> bool:
    """Return whether XPU runs dense MLA without TurboQuant, batch-invariant or not."""
    return query.platform == "xpu" and query.attention.use_mla and conditions.dense_on_xpu(query)


def causal_on_xpu(query: LayerQuery) -> bool:
    """Return whether XPU runs half precision, causal masks only, without batch invariance."""
    plain = conditions.plain_on_xpu(query) and not query.batch_invariant
    return plain and not query.attention.seen_whole


def invariant_on_xpu(query: LayerQuery) -> bool:
    """Return whether XPU runs half precision batch-invariantly."""
    return conditions.plain_on_xpu(query) and query.batch_invariant


def sees_images_whole_on_xpu(query: LayerQuery) -> bool:
    """Return whether XPU runs half precision with masks that are bidirectional over images."""
    plain = conditions.plain_on_xpu(query) and not query.batch_invariant
    return plain and bool(query.attention.seen_whole)


def triton_on_xpu(query: LayerQuery) -> bool:
    """Return whether XPU needs Triton: float32, batch invariance, or other heads over images."""
    whole = sees_images_whole_on_xpu(query) and not composite_on_xpu(query)
    return conditions.float32_on_xpu(query) or invariant_on_xpu(query) or whole


def composite_on_xpu(query: LayerQuery) -> bool:
    """Return whether such masks have heads of 256 or 512 on XPU."""
    return sees_images_whole_on_xpu(query) and query.attention.head_size in COMPOSITE_HEADS


def honoured_on_xpu(query: LayerQuery) -> bool:
    """Return whether XPU takes what is requested, even where it warns of wrong masks or bits."""
    if query.platform != "xpu" or query.attention.use_mla:
        return False
    if conditions.packed_by_turboquant(query):
        return False
    special = query.batch_invariant or bool(query.attention.seen_whole)
    return special or query.model_dtype != "float32"


def mla_on_cpu(query: LayerQuery) -> bool:
    """Return whether the CPU runs dense MLA."""
    return query.platform == "cpu" and query.attention.use_mla and not query.attention.is_sparse


def imposed_backend(query: LayerQuery) -> str | None:
    """Return Triton for heads of several sizes without FlashAttention 4, except on XPU and CPU.

    One of the two where generated tokens are dropped.
    """
    # verify_and_update_config of Gemma4Config and UnlimitedOCRForCausalLMConfig, 0.33; the CPU
    # ignores a backend that is set.
    if query.attention.full_spec == GAP_SPEC:
        return "FLASH_ATTN" if conditions.has_flash_attention_4(query) else "TRITON_ATTN"
    flash = conditions.has_flash_attention_4(query) and query.attention.head_size <= WIDE_HEAD
    return None if flash or query.platform in {"xpu", "cpu"} else "TRITON_ATTN"


def triton_reads_no_fp8(query: LayerQuery) -> str | None:
    """Return what stops an fp8 cache on CUDA before compute capability 8.9."""
    fp8, capability = query.kv_cache_dtype.startswith("fp8"), query.capability
    if query.platform != "cuda" or not fp8 or capability is None or capability >= FP8_SINCE:
        return None
    name = "MLA" if query.attention.use_mla else "attention"
    return f"FP8 KV cache is not supported by the Triton {name} backend on"


def b12x_is_built_first(query: LayerQuery) -> str | None:
    """Return what stops B12X without an explicit block: its layers look before it is chosen."""
    # B12XImpl.__init__ reads the default of CacheConfig, 16.
    return None if query.block_size else "b12x requires --block-size in (64, 128), got 16."


def flash_on_xpu_reads_no_e5m2(query: LayerQuery) -> str | None:
    """Return what stops fp8_e5m2 on XPU, which tests nothing when it chooses."""
    if query.platform != "xpu" or query.kv_cache_dtype != "fp8_e5m2":
        return None
    return "FlashAttention does not support fp8_e5m2 kv-cache on this device."


def hpc_shares_heads(query: LayerQuery) -> str | None:
    """Return what stops HPC attention: 4 or 8 query heads share a KV head, scores have no cap."""
    # HPCAttentionImpl.__init__
    attention, ranks = query.attention, query.attention.num_heads // query.heads_per_rank
    if attention.logits_soft_cap is not None:
        return "HPC attention does not support logits_soft_cap"
    shared = query.heads_per_rank // attention.kv_heads_per_rank(ranks)
    if shared in {4, 8}:
        return None
    return f"HPC attention only supports head_per_group in {{4, 8}}, got {shared}"


def packed_for_compressed(query: LayerQuery) -> str | None:
    """Return why SM12x refuses a cache that is not fp8, where it keeps the packed format."""
    dtype = query.kv_cache_dtype
    if query.major != 12 or dtype == "auto" or dtype.startswith("fp8"):
        return None
    return "kv_cache_dtype not supported"


def step_lacks_heads(model: Model) -> bool:
    """Return whether Step's MTP layers of full attention have no heads, windows having others."""
    # _get_num_attention_heads of step3p5.py
    if model.mtp is None or model.mtp.model_type not in STEP:
        return False
    slides = any(layer.kind == SLIDING for layer in model.layers)
    return slides and any(layer.kind == FULL for layer in model.mtp.layers)


def decodes_alone_on_rocm(query: LayerQuery) -> bool:
    """Return whether attention is dense, of a model without an encoder: their layouts differ."""
    # RocmPlatform.get_valid_backends, 0.33
    return conditions.reads_all_tokens(query) and not query.encoder_decoder


def causal_on_sm10x(query: LayerQuery) -> bool:
    """Return whether the device is an SM10x, and no token sees later ones."""
    # FlashInfer's path for other masks has known problems there, so FlashAttention comes first.
    return query.major == 10 and not query.non_causal


def flashinfer_refusal(query: LayerQuery) -> str | None:
    """Return why FlashInfer is refused: a cache of nvfp4, or a request for a diffusion model."""
    if query.attention.canvas_tokens is not None and query.requests:
        return "causal and bidirectional attention in one batch not supported"
    return nvfp4_refusal(query)
