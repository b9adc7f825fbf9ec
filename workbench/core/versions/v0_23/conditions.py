"""When a backend of vLLM 0.23 is tried, and when it can do more: what its records refer to.

Sources: `get_attn_backend_cls` of each platform and `_get_backend_priorities` of CUDA, 0.23; ROCm
with AITER as `LayerQuery.aiter` says.
"""

from workbench.core.backends import LayerQuery
from workbench.core.model import Model

WANTS_EXPERTS = {
    "AfmoeForCausalLM": "No AfmoeMoE layer found in model.layers.",
    **dict.fromkeys(
        ("Glm4MoeForCausalLM", "Glm4vMoeForConditionalGeneration"),
        "No Glm4MoE layer found in model.layers.",
    ),
    "HunYuanMoEV1ForCausalLM": "No HunYuanMoE layer found in model.layers.",
    "HYV3ForCausalLM": "No MoE layer found in model.layers.",
    "Lfm2MoeForCausalLM": "No Lfm2MoeSparseMoeBlock layer found in the model.layers.",
    "MellumForCausalLM": "No MoE layer found in the model.layers.",
    **dict.fromkeys(
        ("PanguProMoEV2ForCausalLM", "PanguUltraMoEForCausalLM"),
        "No MOE layer found in model.layers.",
    ),
    "Qwen3MoeForCausalLM": "No Qwen3MoE layer found in the model.layers.",
    **dict.fromkeys(
        ("Qwen3NextForCausalLM", "Qwen3_5MoeForCausalLM"),
        "No Qwen3Next layer found in the model.layers.",
    ),
    "Qwen3VLMoeForConditionalGeneration": "No Qwen3Moe layer found in the language_model.",
    "SarvamMLAForCausalLM": "No SarvamMLAMoE layer found in model.layers.",
}
"""Class -> what `__init__`, `set_moe_parameters` or `extract_moe_parameters` raises on a pipeline
stage without routed experts."""
FEW_HEADS = 16
AITER = frozenset({"gfx942", "gfx950"})


def flash_attention_3(query: LayerQuery) -> bool:
    """Return whether version 3 runs, with fp8 caches and every batch in a graph: Hopper and XPU."""
    return query.platform == "xpu" or query.major == 9


def has_flash_attention_4(query: LayerQuery) -> bool:
    """Return whether a build of FlashAttention 4 exists, whichever version the layer then uses."""
    return query.major in {9, 10, 11}


def newer_flash_attention(query: LayerQuery) -> bool:
    """Return whether version 3 or 4 runs: Hopper, XPU, and SM10x unless batch-invariant."""
    version_4 = query.major == 10 and not query.batch_invariant
    return query.platform == "xpu" or query.major == 9 or version_4


def trtllm_kernels(query: LayerQuery) -> bool:
    """Return whether TRT-LLM's kernels run: SM10x, an integer number of query heads per KV head."""
    attention = query.attention
    sm10x = query.trtllm_kernels and query.major == 10
    return sm10x and attention.num_heads % attention.num_kv_heads == 0


def on_sm10x(query: LayerQuery) -> bool:
    """Return whether the device is an SM10x."""
    return query.major == 10


def flashinfer_first(query: LayerQuery) -> bool:
    """Return whether an SM10x has an fp8 cache or at most 16 heads per rank."""
    # FlashMLA pads the heads of a rank, which costs most where they are few.
    few = query.kv_cache_dtype.startswith("fp8") or query.heads_per_rank <= FEW_HEADS
    return query.major == 10 and few


def chooses_tokens(query: LayerQuery) -> bool:
    """Return whether attention is sparse: it reads chosen tokens only."""
    return query.attention.is_sparse


def reads_all_tokens(query: LayerQuery) -> bool:
    """Return whether attention is dense: it reads all tokens."""
    return not query.attention.is_sparse


def has_aiter(query: LayerQuery) -> bool:
    """Return whether AITER's kernels exist for the AMD device: CDNA 3 and later."""
    return query.gfx in AITER


def reads_all_tokens_with_aiter(query: LayerQuery) -> bool:
    """Return whether dense attention runs where AITER's kernels exist."""
    return reads_all_tokens(query) and has_aiter(query)


def tries_aiter(query: LayerQuery) -> bool:
    """Return whether AITER's own attention is in the order (`is_mha_enabled`, `is_mla_enabled`)."""
    return query.aiter and reads_all_tokens_with_aiter(query)


def needs_aiter(query: LayerQuery) -> str | None:
    """Return why AITER's FlashAttention is refused on other AMD devices."""
    return None if has_aiter(query) else "compute capability not supported"


def packed_by_turboquant(query: LayerQuery) -> bool:
    """Return whether the KV-cache dtype is one of TurboQuant's."""
    return query.kv_cache_dtype.startswith("turboquant_")


def float32_on_xpu(query: LayerQuery) -> bool:
    """Return whether XPU runs a float32 model without TurboQuant."""
    xpu = query.platform == "xpu" and not packed_by_turboquant(query)
    return xpu and query.model_dtype == "float32"


def plain_on_xpu(query: LayerQuery) -> bool:
    """Return whether XPU runs attention other than MLA in half precision without TurboQuant."""
    xpu = query.platform == "xpu" and not packed_by_turboquant(query)
    return xpu and not query.attention.use_mla and query.model_dtype != "float32"


def imposed_backend(query: LayerQuery) -> str | None:
    """Return Triton for heads of several sizes above 256, of which FlashAttention refuses some."""
    # Gemma4Config.verify_and_update_config, 0.23; the CPU ignores a backend that is set.
    # FlashAttention would refuse the larger heads only, and layers of one model with two backends
    # gave diverging results.
    large = query.attention.head_size > 256 and query.platform != "cpu"
    return "TRITON_ATTN" if large else None


def sparse_on_xpu(query: LayerQuery) -> bool:
    """Return whether sparse attention runs on XPU without TurboQuant."""
    return query.attention.is_sparse and not packed_by_turboquant(query)


def dense_on_xpu(query: LayerQuery) -> bool:
    """Return whether dense attention runs on XPU without TurboQuant."""
    return not (query.attention.is_sparse or packed_by_turboquant(query))


def step_cuts_mtp_layers(model: Model) -> bool:
    """Return whether `Step3p5Config` cuts off the kinds of the MTP layers, which are read later."""
    return model.mtp is not None and model.mtp.model_type in {"Step3p5ForCausalLM", "step3p5"}
