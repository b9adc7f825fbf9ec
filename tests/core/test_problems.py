"""Every problem and every refusal: a scenario that causes it, its operands, and what removes it."""

from __future__ import annotations

import ast
from difflib import get_close_matches
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench.core
from tests.core.conformance import config
from tests.groups import in_groups
from tests.models.configs import (
    bailing_hybrid,
    bamba,
    deepseek_v3,
    gemma3,
    granitemoehybrid,
    inkling,
    jamba,
    kimi_linear,
    llama,
    mamba,
    nemotron_h,
    plamo2,
    qwen3_5,
    qwen3_next,
    zamba2,
)
from tests.models.test_caches_alongside import PANGU, STEP5
from workbench.core.errors import Refused, _closest
from workbench.core.problems import WARNING, problem_texts
from workbench.models import catalog_config
from workbench.scenario import Scenario
from workbench.scenario.resolution import remedies_of_refusal, resolve

NO_REMEDY = {}
"""Nothing but another model helps."""

ALIGN = {"enable_prefix_caching": True, "mamba_cache_mode": "align"}


def shared_caches():
    """Gemma 4 whose last layers read the cache of earlier ones, without seeing images whole."""
    gemma = catalog_config("gemma-4-26b-a4b")
    changes = {"num_kv_shared_layers": 5, "use_bidirectional_attention": None}
    return {**gemma, "text_config": {**gemma["text_config"], **changes}}


def in_fp8_blocks(name, method="fp8"):
    """A model of the catalog whose weights have one scale per block of 128 x 128."""
    scheme = {"quant_method": method, "weight_block_size": [128, 128]}
    return {**catalog_config(name), "quantization_config": scheme}


MINICPM_V_2 = {
    "architectures": ["MiniCPMV"],
    "model_type": "minicpmv",
    "hidden_size": 2304,
    "query_num": 64,
    "num_attention_heads": 36,
    "num_hidden_layers": 40,
    "max_position_embeddings": 4096,
    "vocab_size": 122753,
}
IMAGES_DRAFTED = {
    "model": "qwen2-vl-7b",
    "draft_model": {**llama(hidden_size=3584, num_hidden_layers=1), "vocab_size": 152_064},
    "speculative_method": "eagle",
    "num_speculative_tokens": 2,
}
CHATGLM = {
    "architectures": ["ChatGLMModel"],
    "model_type": "chatglm",
    "hidden_size": 4096,
    "kv_channels": 128,
    "multi_query_attention": True,
    "multi_query_group_num": 2,
    "num_attention_heads": 32,
    "num_layers": 40,
    "padded_vocab_size": 151_552,
    "seq_length": 8192,
    "vision_config": {},
}
MISTRAL_4 = {
    "architectures": ["Mistral3ForConditionalGeneration"],
    "model_type": "mistral3",
    "vision_config": catalog_config("mistral-small-3.2-24b")["vision_config"],
    "text_config": {**catalog_config("deepseek-v2-lite"), "model_type": "mistral4"},
}
MISTRAL_4["text_config"].pop("architectures")
REFINED_WEB = {
    "architectures": ["RWForCausalLM"],
    "model_type": "RefinedWeb",
    "alibi": False,
    "bias": False,
    "hidden_size": 8192,
    "n_head": 128,
    "n_head_kv": 8,
    "n_layer": 60,
    "parallel_attn": True,
    "vocab_size": 65024,
}


def compressed(name, weights, inputs=None, stored="pack-quantized"):
    """A model of the catalog in one group of compressed-tensors: kind, bits, strategy, group."""
    keys = ("type", "num_bits", "strategy", "group_size")
    group = {"targets": ["Linear"], "weights": dict(zip(keys, weights, strict=True))}
    given = None if inputs is None else dict(zip(keys, inputs, strict=True)) | {"dynamic": True}
    groups = {"group_0": group | {"input_activations": given}}
    scheme = {"quant_method": "compressed-tensors", "format": stored, "config_groups": groups}
    return {**catalog_config(name), "quantization_config": scheme | {"ignore": ["lm_head"]}}


FOUR_BITS, PER_ROW = ("int", 4, "group", 128), ("int", 8, "channel", None)
FP8_PER_TOKEN = ("float", 8, "token", None)
NVFP4_OF_MODELOPT = {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16}
V_PROJ = "model.layers.3.self_attn.v_proj"
FP8_BUT_V = {"quant_method": "fp8", "ignored_layers": [V_PROJ]}
MXFP8_OF_MINIMAX = {"quant_method": "mxfp8", "ignored_layers": ["lm_head"]}
AWQ_OF_FOUR = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}
COMPRESSED_BUT_V = compressed("qwen3-8b", FOUR_BITS)["quantization_config"] | {"ignore": [V_PROJ]}
WHISPER = {
    "model_type": "whisper",
    "architectures": ["WhisperForConditionalGeneration"],
    "num_attention_heads": 6,
    "dtype": "bfloat16",
}
"""All but the dtype is a default of its configuration class."""
DRAFT = llama(num_hidden_layers=1, architectures=["LlamaForCausalLMEagle3"])
DRAFTED = {
    "model": llama(),
    "draft_model": DRAFT,
    "speculative_method": "eagle3",
    "num_speculative_tokens": 1,
}
SECTIONS = {"rope_type": "default", "mrope_section": [24, 20, 20]}
FEW_EXPERTS = llama(
    architectures=["Qwen3MoeForCausalLM"],
    model_type="qwen3_moe",
    num_experts=8,
    num_experts_per_tok=2,
    moe_intermediate_size=512,
    decoder_sparse_step=1,
)
GROUPS = {"bits": 4, "group_size": 128, "sym": True}
FLASH = {
    "model": "qwen3.5-9b",
    "rules": "0.33",
    "num_speculative_tokens": 7,
    "speculative_method": "dflash",
    "draft_model": DRAFT
    | {"architectures": ["DFlashDraftModel"], "model_type": "qwen3"}
    | {"dflash_config": {"mask_token_id": 0}},
}

LLAMA_3_1 = {"model": "llama-3.1-8b", "tensor_parallel": 16, "decode_context_parallel": 2}
"""8 KV heads: two ranks have the same one."""

MLLAMA = {
    "architectures": ["MllamaForConditionalGeneration"],
    "model_type": "mllama",
    "text_config": llama(model_type="mllama_text_model", cross_attention_layers=[0]),
}
"""Llama 3.2 Vision, which Transformers runs."""

LING_2_5 = bailing_hybrid(architectures=["BailingMoeV2_5ForCausalLM"], group_norm_size=4)

PROBLEMS = {
    "largest-graph-is-not-the-largest": (
        {
            "model": "qwen3-8b",
            "max_cudagraph_capture_size": 16,
            "cudagraph_capture_sizes": (1, 2, 9000),
            "max_num_batched_tokens": 2048,
        },
        "graph_sizes_differ",
        (
            "customized max_cudagraph_capture_size(=16) should be consistent with the max value of "
            "cudagraph_capture_sizes(=2)"
        ),
        {"max_cudagraph_capture_size": None},
    ),
    "rows-that-do-not-fill-words": (
        {
            "model": catalog_config("qwen3.6-27b")
            | {"quantization_config": GROUPS | {"quant_method": "auto-round"}},
            "platform": "rocm",
            "tensor_parallel": 8,
            "rules": "0.33",
        },
        "no_weight_kernel",
        "Failed to find a kernel that can implement the WNA16 linear layer.",
        {"platform": "cuda"},
    ),
    "flash-head-without-mask": (
        FLASH | {"draft_model": FLASH["draft_model"] | {"dflash_config": {}}},
        "drafter_field_missing",
        "Model config must specify `dflash_config.mask_token_id`",
        {"speculative_method": "ngram", "draft_model": None},
    ),
    "dspark-head-without-rank": (
        FLASH
        | {"speculative_method": "dspark"}
        | {"draft_model": FLASH["draft_model"] | {"architectures": ["DSparkDraftModel"]}},
        "drafter_field_missing",
        "object has no attribute 'markov_rank'",
        {"speculative_method": "ngram", "draft_model": None},
    ),
    "head-without-its-window": (
        FLASH
        | {
            "draft_model": FLASH["draft_model"]
            | {"layer_types": ["sliding_attention"], "sliding_window": 2048}
        },
        "draft_window_missing",
        "DFlash sliding attention requires a window size configured in",
        {"speculative_method": "ngram", "draft_model": None},
    ),
    "sliding-head-after-latents": (
        {
            **DRAFTED,
            "model": "deepseek-v2-lite",
            "draft_model": DRAFT | {"layer_types": ["sliding_attention"], "sliding_window": 512},
        },
        "draft_window_with_latents",
        "MLA is not supported for slidingwindow",
        {"rules": "0.33"},
    ),
    "head-that-rotates-in-sections": (
        FLASH | {"rules": "0.23", "draft_model": FLASH["draft_model"] | {"rope_scaling": SECTIONS}},
        "draft_with_sections",
        "Speculative Decoding with draft models or parallel drafting",
        {"speculative_method": "ngram", "draft_model": None},
    ),
    "head-of-a-class-that-takes-the-embedding": (
        {"model": catalog_config("gemma-2-9b") | {"tie_word_embeddings": False}, "rules": "0.23"},
        "head_not_as_asserted",
        "",
        {"rules": "0.33"},
    ),
    "experts-weighed-in-an-unknown-way": (
        {"model": catalog_config("minimax-m2.5") | {"scoring_func": "noaux_tc"}, "rules": "0.23"},
        "expert_score_unknown",
        "",
        NO_REMEDY,
    ),
    "ranks-of-a-class-without-shares": (
        {
            "model": llama(model_type="dory", architectures=["DoryForCausalLM"]),
            "rules": "0.33",
            "tensor_parallel": 2,
        },
        "one_rank_only",
        "Dory currently supports tensor_parallel_size=1 only",
        {"tensor_parallel": 1},
    ),
    "quantized-projection-of-sparse-attention": (
        {"model": STEP5, "rules": "0.33", "compute_capability": "9.0", "quantization": "fp8"},
        "projection_quantized",
        "Step5 DSA layers fuse qkv with the sparse indexer into one",
        {"quantization": None},
    ),
    "backend-that-a-class-does-not-write-for": (
        {
            "model": llama(model_type="flint", architectures=["FlintForCausalLM"]),
            "rules": "0.33",
            "device": "H100",
        },
        "backend_of_class",
        "Flint requires FlashInfer attention",
        {"backend": "FLASHINFER"},
    ),
    "ranks-without-a-group-of-the-norm": (
        {"model": LING_2_5, "rules": "0.33", "tensor_parallel": 8},
        "norm_groups_not_divisible",
        "tp_size must be <= group_norm_size for local rms norm",
        {"tensor_parallel": 4},
    ),
    "ranks-that-cut-a-group-of-the-norm": (
        {"model": LING_2_5 | {"group_norm_size": 12}, "rules": "0.23", "tensor_parallel": 8},
        "norm_groups_not_divisible",
        "group_norm_size must be divisible by tp_size",
        {"tensor_parallel": 4},
    ),
    "heads-of-a-tower-that-three-axes-do-not-cover": (
        {
            "model": {
                "architectures": ["LlavaOnevision2ForConditionalGeneration"],
                "model_type": "llava_onevision2",
                "text_config": llama(model_type="qwen3"),
                "vision_config": {"hidden_size": 1152, "num_attention_heads": 16},
            },
            "rules": "0.33",
        },
        "tower_heads_not_rotated",
        "head_dim must be divisible by 16 (4:6:6)",
        NO_REMEDY,
    ),
    "nvfp4-of-sparse-layers-elsewhere": (
        {
            "model": "minimax-m3",
            "rules": "0.33",
            "device": "H100",
            "tensor_parallel": 4,
            "kv_cache_dtype": "nvfp4",
        },
        "sparse_nvfp4_needs_sm100",
        "MiniMax M3 sparse attention supports an NVFP4 KV cache only with",
        None,
    ),
    "twice-as-many-blocks-as-the-checkpoint-has": (
        {"model": "longcat-flash", "rules": "0.23"},
        "layers_without_weights",
        "Following weights were not initialized from",
        {"rules": "0.33"},
    ),
    "adapters-of-experts-on-xpu": (
        {"model": "gpt-oss-20b", "platform": "xpu", "enable_lora": True},
        "experts_not_adapted",
        "Mxfp4 MoE backend 'XPU' does not support the deployment configuration since kernel",
        {"enable_lora": False},
    ),
    "adapters-of-experts-on-rocm": (
        {"model": "gpt-oss-20b", "device": "MI300X", "enable_lora": True, "rules": "0.23"},
        "experts_not_adapted",
        "No MXFP4 MoE backend supports the deployment configuration.",
        {"enable_lora": False},
    ),
    "adapters-of-emulated-experts": (
        {
            "model": "nvidia/Qwen3-30B-A3B-NVFP4",
            "device": "MI300X",
            "enable_lora": True,
            "rules": "0.33",
        },
        "experts_not_adapted",
        "No NvFp4 MoE backend supports the deployment configuration.",
        {"enable_lora": False},
    ),
    "class-that-fails-on-the-version-of-the-model": (
        {"model": MINICPM_V_2, "rules": "0.33"},
        "class_not_built",
        "type object 'MiniCPMV2_0' has no attribute ",
        NO_REMEDY,
    ),
    "chatglm-with-images": (
        {"model": CHATGLM, "rules": "0.33"},
        "class_not_built",
        "The configuration of this model indicates that it supports vision inputs",
        NO_REMEDY,
    ),
    "wrapper-whose-text-names-no-class": (
        {"model": MISTRAL_4, "rules": "0.33"},
        "class_not_built",
        "No model architectures are specified",
        NO_REMEDY,
    ),
    "rope-of-an-unknown-kind": (
        {"model": llama(rope_scaling={"type": "banana", "factor": 2.0}), "rules": "0.33"},
        "class_not_built",
        "Unknown RoPE scaling type banana",
        NO_REMEDY,
    ),
    "token-for-images-of-another-name": (
        {**IMAGES_DRAFTED, "rules": "0.23"},
        "image_token_not_found",
        "object has no attribute 'image_token_index'",
        {"num_speculative_tokens": 0},
    ),
    "first-falcon-without-rope": (
        {"model": REFINED_WEB, "rules": "0.23"},
        "class_not_built",
        "'RWConfig' object has no attribute 'rope_parameters'",
        NO_REMEDY,
    ),
    "list-of-layers-that-share-a-number": (
        {"model": "longcat-flash", "rules": "0.33", "kv_cache_dtype_skip_layers": ("0",)},
        "layers_without_number",
        " should only contain one integer",
        {"kv_cache_dtype_skip_layers": None},
    ),
    "embedding-under-another-name": (
        {**DRAFTED, "model": llama(architectures=["InternLM2ForCausalLM"]), "rules": "0.33"},
        "target_embedding_not_found",
        "needs the target input embedding",
        {"speculative_method": "ngram", "draft_model": None},
    ),
    "online-experts-of-blackwell": (
        {
            "model": "qwen3-30b-a3b",
            "device": "H100",
            "rules": "0.33",
            "quantization": "nvfp4_per_token",
        },
        "no_online_kernel",
        "nvfp4_per_token online quantization requires a Blackwell (SM100) GPU.",
        {"quantization": "fp8"},
    ),
    "humming-on-fp8-of-modelopt": (
        {"model": "nvidia/Llama-3.1-70B-Instruct-FP8", "rules": "0.33", "quantization": "humming"},
        "humming_reads_other_methods",
        "unsupported modelopt algo: ",
        {"quantization": None},
    ),
    "fp8-without-blocks-on-a-device-without-a-kernel": (
        {
            "model": {**catalog_config("qwen3-8b"), "quantization_config": {"quant_method": "fp8"}},
            "rules": "0.33",
            "device": "RX 7900 XTX",
        },
        "no_weight_kernel",
        "Failed to find a kernel that can implement the ScaledMM linear layer.",
        {"device": "MI300X"},
    ),
    **{
        f"part-of-a-layer-excluded-{scheme['quant_method']}-{rules}": (
            {
                "model": {**catalog_config("qwen3-8b"), "quantization_config": scheme},
                "rules": rules,
            },
            "layer_excluded_in_part",
            text,
            NO_REMEDY,
        )
        for scheme, rules, text in (
            (FP8_BUT_V, "0.33", "Detected some but not all shards of "),
            ({**AWQ_OF_FOUR, "modules_to_not_convert": ["up_proj"]}, "0.23", "Detected some but"),
            (COMPRESSED_BUT_V, "0.23", "Found a different quantization schemes for "),
            (COMPRESSED_BUT_V, "0.33", "Found different quantization schemes for the shards of "),
        )
    },
    "four-bits-with-fp8-inputs-off-hopper": (
        {"model": compressed("qwen3-8b", FOUR_BITS, FP8_PER_TOKEN), "device": "B200"},
        "no_compressed_scheme",
        "No compressed-tensors compatible scheme was found for layer_name=",
        {"device": "H100"},
    ),
    "four-bits-with-fp8-inputs-in-small-groups": (
        {"model": compressed("qwen3-8b", ("int", 4, "group", 32), FP8_PER_TOKEN), "device": "H100"},
        "no_compressed_scheme",
        "W4A8 kernels require group quantization with group size 128",
        NO_REMEDY,
    ),
    **{
        f"experts-in-fp8-with-{name}": (
            {
                "model": compressed(
                    "qwen3-30b-a3b", ("float", 8, shared, None), inputs, "float-quantized"
                ),
                "device": "H100",
                "rules": rules,
            },
            "no_compressed_scheme",
            text,
            NO_REMEDY,
        )
        for name, shared, inputs, rules, text in (
            ("scales-of-two-kinds", "tensor", FP8_PER_TOKEN, "0.23", ""),
            ("plain-inputs", "channel", None, "0.33", "For Fused MoE layers, only format: "),
        )
    },
    **{
        f"experts-in-integers-per-row-{name}": (
            {"model": compressed("qwen3-30b-a3b", PER_ROW), **where},
            "no_compressed_scheme",
            "",
            remedy,
        )
        for name, where, remedy in (
            ("hopper", {"device": "H100", "rules": "0.33"}, {"device": "A100-80GB"}),
            ("marlin", {"device": "A100-80GB", "rules": "0.23"}, NO_REMEDY),
        )
    },
    "experts-in-integers-per-row-rocm": (
        {"model": compressed("qwen3-30b-a3b", ("int", 4, "channel", None)), "device": "MI300X"},
        "no_compressed_scheme",
        "",
        NO_REMEDY,
    ),
    "integers-of-8-bits-on-xpu": (
        {"model": compressed("qwen3-8b", PER_ROW), "platform": "xpu"},
        "no_weight_kernel",
        "Failed to find a kernel that can implement the WNA16 linear layer.",
        {"platform": "cuda"},
    ),
    "online-blocks-of-a-tower": (
        {"model": "qwen3.5-4b", "quantization": "mxfp8"},
        "online_block_cut",
        "MXFP8 requires input_size_per_partition (4304) to be divisible",
        {"quantization": "fp8_per_tensor"},
    ),
    "backend-without-lse-under-context-parallelism": (
        {**LLAMA_3_1, "backend": "TRITON_ATTN"},
        "layers_not_spread",
        "Decode Context Parallelism (DCP) requires attention implementations to return",
        {"backend": None},
    ),
    "windows-over-ranks": (
        {"model": "gemma-2-2b", "tensor_parallel": 8, "decode_context_parallel": 2},
        "windows_not_spread",
        "DCP not support sliding window.",
        {"decode_context_parallel": 1},
    ),
    "several-groups-over-ranks": (
        {"model": "qwen3-next-80b-a3b", "tensor_parallel": 4, "decode_context_parallel": 2},
        "groups_not_spread",
        "Hybrid KV cache groups with multiple block sizes do not support context",
        {"decode_context_parallel": 1},
    ),
    "more-stages-than-layers": (
        {"model": llama(), "pipeline_parallel": 4},
        "stage_without_cache",
        "group_size must be greater than 0",
        {"pipeline_parallel": 2},
    ),
    "layers-of-more-stages": (
        {"model": "qwen3.5-4b", "pipeline_parallel": 2, "pipeline_layers": [16, 8, 8]},
        "stage_layers_mismatch",
        "len(partitions)=3 does not match pp_size=2.",
        {"pipeline_parallel": 3},
    ),
    "layers-of-stages-that-do-not-add-up": (
        {"model": "qwen3.5-4b", "pipeline_parallel": 2, "pipeline_layers": [20, 20]},
        "stage_layers_mismatch",
        "sum(partitions)=40 does not match num_hidden_layers=32.",
        {"pipeline_layers": (20, 12)},
    ),
    "draft-model-cut-by-the-layers-of-the-target": (
        {
            "model": "qwen3-8b",
            "pipeline_parallel": 2,
            "pipeline_layers": [20, 16],
            "num_speculative_tokens": 3,
            "speculative_method": "draft_model",
            "draft_model": "qwen3-0.6b",
        },
        "stage_layers_mismatch",
        "sum(partitions)=36 does not match num_hidden_layers=28.",
        None,
    ),
    "stage-without-the-caches-that-it-reads": (
        {"model": "gemma-4-e2b", "pipeline_parallel": 2},
        "cache_shared_over_stages",
        "is not a valid Attention layer in the model.",
        {"pipeline_parallel": 1},
    ),
    "stage-without-attention-reads-any-layout": (
        {"model": jamba(), "rules": "0.33", "pipeline_parallel": 2, "compute_capability": "10.0"},
        "stages_differ_in_layouts",
        "Workers disagree on supported KV cache layouts: [[",
        {"pipeline_parallel": 1},
    ),
    "stages-keep-their-hidden-states": (
        {
            "model": qwen3_next(),
            "rules": "0.33",
            "pipeline_parallel": 2,
            "draft_model": llama(num_hidden_layers=1, architectures=["LlamaForCausalLMEagle3"]),
            "speculative_method": "eagle3",
            "num_speculative_tokens": 1,
        },
        "drafter_over_stages",
        " does not support eagle3 with pipeline parallelism",
        {"speculative_method": "ngram", "draft_model": None},
    ),
    "draft-model-cut-into-stages": (
        {
            "model": llama(),
            "pipeline_parallel": 2,
            "draft_model": llama(num_hidden_layers=4),
            "speculative_method": "draft_model",
            "num_speculative_tokens": 1,
        },
        "draft_model_over_stages",
        None,
        {"pipeline_parallel": 1},
    ),
    "aligned-block-size": (
        {
            "model": kimi_linear(),
            "rules": "0.33",
            "platform": "cpu",
            "backend": "CPU_MLA",
            "enable_prefix_caching": False,
        },
        "aligned_block_size_refused",
        "Aligned KV cache block size ",
        {"backend": None},
    ),
    "no-hybrid-manager-for-a-hybrid": (
        {"model": nemotron_h(), "disable_hybrid_kv_cache_manager": True},
        "not_one_type",
        (
            "Hybrid KV cache manager is disabled but failed to convert the KV cache specs to one "
            "unified type."
        ),
        {"disable_hybrid_kv_cache_manager": False},
    ),
    "no-hybrid-manager-for-a-hybrid-0.33": (
        {"model": nemotron_h(), "disable_hybrid_kv_cache_manager": True, "rules": "0.33"},
        "not_one_type",
        "Failed to promote local KV cache specs to one unified type.",
        {"disable_hybrid_kv_cache_manager": False},
    ),
    "hidden-states-without-a-draft": (
        {"model": llama(), "hidden_state_layers": 3},
        "hidden_states_need_one_draft",
        "Input should be greater than 0",
        {"num_speculative_tokens": 1},
    ),
    "hidden-states-with-two-drafts": (
        {"model": llama(), "hidden_state_layers": 3, "num_speculative_tokens": 2, "rules": "0.33"},
        "hidden_states_need_one_draft",
        "extract_hidden_states requires num_speculative_tokens to be 1",
        {"num_speculative_tokens": 1},
    ),
    "hidden-states-and-a-method": (
        {
            "model": llama(),
            "hidden_state_layers": 3,
            "num_speculative_tokens": 1,
            "speculative_method": "ngram",
        },
        "two_speculative_methods",
        None,
        {"speculative_method": None},
    ),
    "dtype-of-sliding-mtp-layers": (
        {
            "model": llama(
                architectures=["ExaoneMoeForCausalLM"],
                model_type="exaone_moe",
                layer_types=["full_attention", "sliding_attention"],
                mtp_layer_types=["sliding_attention"],
                sliding_window=128,
                num_hidden_layers=2,
                num_nextn_predict_layers=1,
            ),
            "rules": "0.33",
            "num_speculative_tokens": 1,
            "draft_kv_cache_dtype": "fp8",
        },
        "draft_cache_not_exact",
        None,
        {"draft_kv_cache_dtype": None},
    ),
    "target-without-hidden-states": (
        {
            "model": qwen3_next(),
            "hidden_state_layers": 1,
            "num_speculative_tokens": 1,
            "rules": "0.23",
        },
        "target_gives_no_hidden_states",
        "Model does not support EAGLE3 interface",
        {"speculative_method": "ngram", "hidden_state_layers": 0},
    ),
    "method-without-tokens": (
        {"model": llama(), "speculative_method": "ngram"},
        "speculative_tokens_missing",
        None,
        {"num_speculative_tokens": 1},
    ),
    "drafter-that-nothing-describes": (
        {"model": llama(), "speculative_method": "custom_class", "num_speculative_tokens": 3},
        "drafter_layers_not_counted",
        None,
        {"speculative_method": "ngram"},
    ),
    "head-without-its-file": (
        {"model": llama(), "speculative_method": "eagle3", "num_speculative_tokens": 3},
        "draft_model_missing",
        "num_speculative_tokens was provided but without speculative model.",
        {"speculative_method": "ngram"},
    ),
    "head-without-its-method": (
        {**DRAFTED, "speculative_method": None},
        "head_drafts_alone",
        None,
        {"speculative_method": "eagle3"},
    ),
    "draft-model-of-ngram": (
        {**DRAFTED, "speculative_method": "ngram"},
        "draft_model_not_read",
        None,
        {"draft_model": None},
    ),
    "backend-of-the-target-alone": (
        {**DRAFTED, "model": deepseek_v3(), "backend": "FLASHMLA", "rules": "0.33"},
        "draft_backend_not_valid",
        "Selected backend AttentionBackendEnum.FLASHMLA is not valid",
        {"backend": None},
    ),
    **{
        f"packed-weight-that-a-layer-reads-{name}": (
            {
                "model": {**catalog_config(name), "quantization_config": AWQ_OF_FOUR},
                "tensor_parallel": ranks,
                "rules": rules,
                **more,
            },
            "weight_renamed",
            "object has no attribute 'weight'",
            remedy,
        )
        for name, ranks, rules, remedy, more in (
            ("falcon-h1-7b", 2, "0.23", {"tensor_parallel": 1}, {}),
            ("gemma-3n-e4b", 1, "0.33", NO_REMEDY, {"dtype": "float16"}),
        )
    },
    "mxfp8-of-a-tower": (
        {
            "model": {**catalog_config("qwen3-vl-8b"), "quantization_config": MXFP8_OF_MINIMAX},
            "rules": "0.33",
        },
        "weight_block_cut",
        "MXFP8 requires input ",
        NO_REMEDY,
    ),
    "experts-cut-within-a-block": (
        {"model": in_fp8_blocks("qwen3-30b-a3b"), "tensor_parallel": 8},
        "weight_block_cut",
        "The output_size of gate's and up's weight = 96 is not divisible by",
        {"tensor_parallel": 2},
    ),
    "experts-without-a-gate": (
        {"model": "nemotron-3-nano-30b-a3b", "platform": "cpu"},
        "no_weight_kernel",
        "is_act_and_mul=False is supported only for CUDA",
        {"platform": "cuda"},
    ),
    "batch-invariant-experts": (
        {"model": "qwen3-30b-a3b", "platform": "xpu", "batch_invariant": True},
        "no_invariant_experts",
        "No Unquantized MoE backend supports the deployment configuration.",
        {"batch_invariant": False},
    ),
    "fp8-blocks-with-float16": (
        {"model": "deepseek-v3", "platform": "cpu", "dtype": "float16"},
        "no_weight_kernel",
        "Failed to find a kernel that can implement the ScaledMM linear layer.",
        {"platform": "cuda"},
    ),
    "draft-model-shorter-than-a-state-block": (
        {
            "model": bamba(vocab_size=1000),
            "draft_model": llama(vocab_size=1000, max_position_embeddings=512),
            "num_speculative_tokens": 1,
        },
        "state_block_exceeds_draft",
        "--mamba-block-size can only be set with --enable-prefix-caching",
        {"enable_prefix_caching": True},
    ),
    "prefix-caching-without-a-cache": (
        {"model": llama(is_causal=False)},
        "cache_without_groups",
        "HybridKVCacheCoordinator requires at least ",
        {"enable_prefix_caching": False},
    ),
    "connector-that-turns-windows-into-full-attention": (
        {"model": gemma3(), "kv_connector": "LMCacheConnectorV1"},
        "connector_turns_manager_off",
        "Turning off hybrid kv cache manager because `--kv-transfer-config` selects",
        {"kv_connector": None},
    ),
    "connector-of-an-encoder": (
        {"model": WHISPER, "kv_connector": "NixlConnector"},
        "connector_with_encoder",
        "Encoder-decoder models are not currently supported with KV connectors",
        {"kv_connector": None},
    ),
    "connector-of-one-group": (
        {"model": nemotron_h(), "kv_connector": "LMCacheConnectorV1"},
        "not_one_type",
        (
            "Hybrid KV cache manager is disabled but failed to convert the KV cache specs to one "
            "unified type."
        ),
        {"kv_connector": None},
    ),
    "manager-of-sinks": (
        {"model": PANGU},
        "cache_manager_not_built",
        "SinkFullAttentionManager.__init__() got an unexpected keyword argument",
        NO_REMEDY,
    ),
    "states-of-a-large-draft-model": (
        {
            "model": "granite-4.0-h-tiny",
            "rules": "0.33",
            "draft_model": "granite-4.0-h-small",
            "num_speculative_tokens": 2,
        },
        "draft_states_outgrow_page",
        None,
        {"speculative_method": "ngram", "draft_model": None},
    ),
    "eagle-with-a-list-of-its-own-layers": (
        {
            "model": llama(),
            "num_speculative_tokens": 1,
            "speculative_method": "eagle",
            "draft_model": {
                **DRAFT,
                "architectures": ["LlamaForCausalLM"],
                "layer_types": ["full_attention"],
            },
        },
        "head_layer_not_listed",
        "effective_layer_idx: ",
        {"speculative_method": "ngram", "draft_model": None},
    ),
    "another-drafter-for-qwen4": (
        {
            "model": "qwen3.8-flash-next",
            "rules": "0.33",
            "num_speculative_tokens": 1,
            "speculative_method": "dflash",
            "draft_model": {**DRAFT, "architectures": ["DFlashDraftModel"]},
        },
        "only_own_drafts",
        "Qwen4Exp speculative decoding supports only its native MTP checkpoint",
        {"speculative_method": "ngram", "draft_model": None},
    ),
    "drafts-that-the-page-forgets": (
        {"model": granitemoehybrid(), "num_speculative_tokens": 3},
        "drafted_states_outgrow_page",
        None,
        {"rules": "0.33"},
    ),
    "layers-that-keep-float32": (
        {
            "model": "kimi-linear-48b-a3b",
            "rules": "0.33",
            "mamba_ssm_cache_dtype": "bfloat16",
            "max_model_len": 32768,
        },
        "states_outgrow_page",
        None,
        {"mamba_ssm_cache_dtype": "auto"},
    ),
    "layout-that-flex-cannot-read": (
        {
            "model": llama(),
            "rules": "0.33",
            "backend": "FLEX_ATTENTION",
            "kv_cache_layout": "BLHNC",
        },
        "layout_not_supported",
        (
            "VLLM_KV_CACHE_LAYOUT=BLHNC does not satisfy every supported set; valid layouts: "
            "['LBNHC']."
        ),
        {"kv_cache_layout": None},
    ),
    "packed-hidden-states": (
        {
            "model": llama(),
            "hidden_state_layers": 3,
            "num_speculative_tokens": 1,
            "kv_cache_dtype": "turboquant_k8v4",
        },
        "hidden_states_packed",
        "CacheOnlyAttentionLayer doesn't currently support quantized kv cache but",
        {"kv_cache_dtype": "fp8"},
    ),
    "experts-that-are-not-batch-invariant": (
        {"model": "gpt-oss-20b", "batch_invariant": True, "compute_capability": "9.0"},
        "no_invariant_experts",
        "No MXFP4 MoE backend supports the deployment configuration.",
        {"batch_invariant": False},
    ),
    "drafts-fill-the-step": (
        {
            "model": llama(),
            "speculative_method": "draft_model",
            "draft_model": llama(),
            "num_speculative_tokens": 2,
            "max_num_batched_tokens": 1024,
            "max_num_seqs": 1024,
        },
        "no_tokens_left_by_drafts",
        "max_num_scheduled_tokens is set to 0 based on",
        {"max_num_batched_tokens": 1025},
    ),
    "kv-heads-not-replicated": (
        {"model": "gpt-oss-20b", "tensor_parallel": 16},
        "kv_heads_not_replicated",
        "integer modulo by zero",
        {"tensor_parallel": 8},
    ),
    "windows-outgrow-the-shared-page": (
        {
            "model": "mimo-v2-flash",
            "kv_cache_dtype": "fp8",
            "kv_cache_dtype_skip_layers": ["sliding_window"],
            "compute_capability": "9.0",
            "rules": "0.33",
        },
        "windows_outgrow_shared_page",
        "",
        {"kv_cache_dtype_skip_layers": None},
    ),
    "another-float-for-the-drafter": (
        {
            "model": "deepseek-v3",
            "dtype": "float16",
            "num_speculative_tokens": 1,
            "draft_kv_cache_dtype": "bfloat16",
            "rules": "0.33",
        },
        "draft_float_kv_cache_dtype",
        'kv_cache_dtype="bfloat16" is incompatible with dtype="float16".',
        {"draft_kv_cache_dtype": None},
    ),
    "e5m2-on-xpu": (
        {"model": llama(), "kv_cache_dtype": "fp8_e5m2", "platform": "xpu", "rules": "0.33"},
        "layers_cannot_be_built",
        "FlashAttention does not support fp8_e5m2 kv-cache on this device.",
        {"kv_cache_dtype": "auto"},
    ),
    "mla-of-flash-attention-on-xpu": (
        {
            "model": deepseek_v3(),
            "kv_cache_dtype": "fp8",
            "backend": "FLASH_ATTN_MLA",
            "platform": "xpu",
            "rules": "0.33",
        },
        "backend_not_valid",
        "FlashAttnMLA on XPU is not valid for this configuration: ",
        {"backend": None},
    ),
    "hpc-heads": (
        {
            "model": llama(num_attention_heads=40, hidden_size=5120),
            "backend": "HPC_ATTN",
            "rules": "0.33",
        },
        "layers_cannot_be_built",
        "HPC attention only supports head_per_group in {4, 8}, got 5",
        {"backend": None},
    ),
    "fp8-of-triton-before-ada": (
        {
            "model": llama(),
            "rules": "0.33",
            "compute_capability": "8.0",
            "kv_cache_dtype": "fp8",
            "backend": "TRITON_ATTN",
        },
        "layers_cannot_be_built",
        "FP8 KV cache is not supported by the Triton attention backend on",
        {"kv_cache_dtype": "auto"},
    ),
    "e5m2-with-scales": (
        {"model": llama(quantization_config={"quant_method": "fp8"}), "kv_cache_dtype": "fp8_e5m2"},
        "e5m2_with_checkpoint_scales",
        "fp8_e5m2 kv-cache is not supported with fp8 checkpoints.",
        {"kv_cache_dtype": "fp8"},
    ),
    "e5m2-with-scales-of-modelopt": (
        {
            "model": {**llama(), "quantization_config": NVFP4_OF_MODELOPT},
            "kv_cache_dtype": "fp8_e5m2",
            "platform": "xpu",
        },
        "e5m2_with_checkpoint_scales",
        "fp8_e5m2 kv-cache is not supported with fp8 checkpoints.",
        {"kv_cache_dtype": "auto"},
    ),
    "backend-for-other-heads": (
        {"model": "gemma-4-31b", "backend": "FLASHINFER"},
        "other_heads_refused",
        "Selected backend AttentionBackendEnum.FLASHINFER is not valid",
        {"backend": None},
    ),
    "packed-cache-of-windows": (
        {"model": "exaone-4.0-32b", "kv_cache_dtype": "turboquant_k8v4", "rules": "0.33"},
        "other_heads_refused",
        "No valid attention backend found for",
        {"kv_cache_dtype": "fp8"},
    ),
    "flex-reads-no-shared-cache": (
        {"model": shared_caches(), "backend": "FLEX_ATTENTION"},
        "flex_shared_cache",
        "FlexAttention does not support kv sharing yet.",
        {"backend": None},
    ),
    "packed-backend-for-plain-layers": (
        {"model": llama(), "kv_cache_dtype": "turboquant_k8v4", "backend": "TURBOQUANT"},
        "plain_layers_refused",
        "Selected backend AttentionBackendEnum.TURBOQUANT is not valid",
        {"backend": None},
    ),
    "two-backends-without-a-common-layout": (
        {
            "model": llama(num_hidden_layers=8),
            "rules": "0.33",
            "kv_cache_dtype": "turboquant_k8v4",
            "compute_capability": "10.0",
        },
        "no_common_layout",
        "No KV cache layout satisfies every supported set: ",
        {"kv_cache_dtype": "auto"},
    ),
    "more-cache-than-device": (
        {"model": llama(), "device_memory_bytes": 2**36, "kv_cache_memory_bytes": 2**37},
        "cache_above_device_memory",
        None,
        {"device_memory_bytes": None},
    ),
    "a-whole-drafter-among-shared-tokens": (
        {
            "model": "deepseek-v2-lite",
            "device": "MI300X",
            "rules": "0.33",
            "tensor_parallel": 2,
            "decode_context_parallel": 2,
            "num_speculative_tokens": 1,
            "speculative_method": "dflash",
            "draft_model": {**DRAFT, "architectures": ["DFlashDraftModel"]},
        },
        "whole_drafts_not_packed",
        "DCP with a replicated draft and mixed KV page sizes requires",
        {"decode_context_parallel": 1},
    ),
    "block-next-to-others": (
        {
            "model": nemotron_h(),
            "rules": "0.33",
            "backend": "FLASHINFER",
            "kv_cache_layout": "BLNHC",
        },
        "packed_block_not_split",
        "FLASHINFER needs ",
        {"kv_cache_layout": "LBNHC"},
    ),
    "index-keys-next-to-others": (
        # one key per token, as the others have, and read in smaller blocks
        {
            "model": "minimax-m3",
            "device": "H100",
            "rules": "0.33",
            "block_size": 256,
            "kv_cache_layout": "BLNHC",
        },
        "packed_block_not_split",
        "MINIMAX_M3_SPARSE_INDEXER needs 128-token kernel blocks",
        {"kv_cache_layout": "LBNHC"},
    ),
    "memory-of-two-ranks-for-four": (
        {"model": llama(), "tensor_parallel": 4, "kv_cache_memory_bytes_by_rank": (2**34,) * 2},
        "memory_ranks_mismatch",
        None,
        {"kv_cache_memory_bytes_by_rank": (2**34,) * 4},
    ),
    "no-request-fills-a-block": (
        {"model": nemotron_h(), "max_model_len": 2000, "max_num_batched_tokens": 8192, **ALIGN},
        "prefix_caching_inert",
        None,
        {"max_model_len": 2098},
    ),
    "nvfp4-before-sm100": (
        {"model": llama(), "backend": "FLASHINFER", "kv_cache_dtype": "nvfp4"},
        "nvfp4_needs_sm100",
        "--kv-cache-dtype nvfp4 requires sm100f",
        {"kv_cache_dtype": "fp8"},
    ),
    "backend-not-valid": (
        {"model": llama(), "backend": "FLASHINFER", "kv_cache_dtype": "fp8_inc"},
        "backend_not_valid",
        "Selected backend AttentionBackendEnum.FLASHINFER is not valid",
        {"kv_cache_dtype": "auto"},
    ),
    "backend-of-another-platform": (
        {"model": llama(), "platform": "rocm", "backend": "FLASHINFER"},
        "backend_not_valid",
        "Selected backend AttentionBackendEnum.FLASHINFER is not valid",
        {"backend": None},
    ),
    "mla-backend-without-mla": (
        {"model": llama(), "backend": "FLASHMLA"},
        "backend_not_valid",
        "Selected backend AttentionBackendEnum.FLASHMLA is not valid",
        {"backend": None},
    ),
    "no-mla-on-cpu": (
        {"model": deepseek_v3(), "platform": "cpu"},
        "no_valid_backend",
        "MLA is not supported on CPU.",
        {"platform": "cuda"},
    ),
    "no-backend-for-the-kv-dtype": (
        {"model": llama(), "kv_cache_dtype": "fp8_ds_mla"},
        "no_valid_backend",
        "No valid attention backend found for",
        {"kv_cache_dtype": "auto"},
    ),
    "block-size-precludes-backend": (
        {"model": deepseek_v3(), "compute_capability": "10.0", "block_size": 16},
        "block_size_precludes_backend",
        "--block-size 16 precluded higher-priority backend(s)",
        {"block_size": None},
    ),
    "kernels-that-the-device-cannot-run-and-nothing-tests": (
        {"model": "deepseek-v4-flash", "rules": "0.33", "device": "A100-80GB"},
        "device_not_tested",
        None,
        {"device": "H100"},
    ),
    "description-without-a-method": (
        {"model": "Qwen/Qwen3-32B-FP8-Static-PerTensor"},
        "quantization_method_missing",
        None,
        NO_REMEDY,
    ),
    "fp8-experts-without-a-kernel": (
        {"model": "Qwen/Qwen3-30B-A3B-FP8", "rules": "0.23", "device": "RX 7900 XTX"},
        "no_fp8_experts",
        "No FP8 MoE backend supports the deployment configuration.",
        {"device": "MI300X"},
    ),
    "a-head-tied-on-a-stage-without-one": (
        {"model": "ernie-4.5-21b-a3b", "rules": "0.33", "pipeline_parallel": 2},
        "vocabulary_tied_over_stages",
        "'PPMissingLayer' object has no attribute 'tie_weights'",
        {"pipeline_parallel": 1},
    ),
    "a-stage-of-dense-layers-alone": (
        {"model": "glm-4.5-air", "pipeline_parallel": 2, "pipeline_layers": (1, 45)},
        "stage_without_experts",
        "No Glm4MoE layer found in model.layers.",
        {"pipeline_layers": None},
    ),
    "levels-of-a-tower-on-two-stages": (
        {"model": "qwen3-vl-4b", "rules": "0.33", "pipeline_parallel": 16},
        "tower_levels_over_stages",
        "start_layer should be greater than or equal to len(deepstack_visual_indexes)",
        {"pipeline_parallel": 1},
    ),
    "ranks-that-do-not-divide-an-mlp": (
        {"model": "llama-2-13b", "rules": "0.33", "tensor_parallel": 5},
        "layer_not_divisible",
        "",
        {"tensor_parallel": 4},
    ),
    "more-ranks-than-experts": (
        {"model": FEW_EXPERTS, "rules": "0.33", "tensor_parallel": 16, "max_model_len": 4096},
        "ranks_above_experts",
        "Tensor parallel size 16 is greater than the number of experts 8.",
        {"tensor_parallel": 8},
    ),
    "experts-in-integers-on-a-cpu": (
        {"model": "kimi-k2.5", "rules": "0.33", "platform": "cpu", "max_model_len": 4096},
        "no_integer_experts",
        "No WNA16 MoE backend supports the deployment configuration.",
        {"platform": "cuda"},
    ),
    "experts-that-need-tiles-of-a-cpu": (
        {"model": "minimax-m2.5", "rules": "0.33", "platform": "cpu", "max_model_len": 4096},
        "experts_need_amx",
        "No FP8 MoE backend supports the deployment configuration.",
        {"platform": "cuda"},
    ),
    "fp8-experts-whose-blocks-became-smaller": (
        {"model": "minimax-m2.5", "rules": "0.33", "device": "A10", "tensor_parallel": 8},
        "no_fp8_experts",
        "No FP8 MoE backend supports the deployment configuration.",
        {"enable_expert_parallel": True},
    ),
    "block-exceeds-token-budget": (
        {"model": nemotron_h(), **ALIGN, "max_num_batched_tokens": 2048},
        "block_exceeds_token_budget",
        "In Mamba cache align mode, block_size (2096) must be <= max_num_batched_tokens (2048).",
        {"max_num_batched_tokens": 2096},
    ),
    "more-sequences-than-tokens": (
        {"model": llama(), "max_num_seqs": 4096, "max_num_batched_tokens": 2048},
        "max_num_seqs_above_budget",
        "max_num_batched_tokens (2048) must be greater than or equal to max_num_seqs (4096).",
        {"max_num_seqs": 2048},
    ),
    "prompt-of-an-encoder-decoder-exceeds-a-step": (
        {"model": WHISPER, "max_num_batched_tokens": 256},
        "max_num_batched_tokens_below_length",
        "max_num_batched_tokens (256) is smaller than max_model_len (448).",
        {"max_num_batched_tokens": 448},
    ),
    "prompt-without-chunked-prefill-exceeds-a-step": (
        {"model": llama(), "enable_chunked_prefill": False, "max_num_batched_tokens": 256},
        "max_num_batched_tokens_below_length",
        "max_num_batched_tokens (256) is smaller than max_model_len (",
        {"max_num_batched_tokens": None},
    ),
    "align-mode-without-chunked-prefill": (
        {"model": qwen3_next(), "enable_chunked_prefill": False, **ALIGN},
        "chunked_prefill_required",
        "Chunked prefill is required for mamba cache mode 'align'",
        {"enable_chunked_prefill": None},
    ),
    "what-an-encoder-read-is-not-found-again": (
        {"model": WHISPER, "enable_prefix_caching": True},
        "prefix_caching_of_encoder",
        "CrossAttentionManager does not support caching",
        {"enable_prefix_caching": None},
    ),
    "prefill-kernel-that-needs-cuda-13": (
        {"model": qwen3_5(), "rules": "0.33", "compute_capability": "10.0"},
        "cuda_version_assumed",
        None,
        {"gdn_flashinfer_prefill": True},
    ),
    "prefill-kernel-that-the-device-has-not": (
        {
            "model": qwen3_5(),
            "rules": "0.33",
            "compute_capability": "8.0",
            "gdn_flashinfer_prefill": True,
        },
        "gdn_prefill_falls_back",
        "GDN prefill backend 'flashinfer' is selected but cannot use this kernel",
        {"gdn_flashinfer_prefill": None},
    ),
    "pages-not-equal": (
        {"model": kimi_linear(), "kv_cache_dtype": "fp8_ds_mla"},
        "pages_not_equal",
        "The page size of the layer is not divisible by the maximum page size.",
        {"kv_cache_dtype": "auto"},
    ),
    "no-common-block-size": (
        {"model": kimi_linear(), "backend": "FLASHMLA", "block_size": 112},
        "no_common_block_size",
        "No common block size for 1904",
        None,
    ),
    "no-common-block-size-of-128": (
        {"model": kimi_linear(), "backend": "CUTLASS_MLA", "block_size": 144},
        "no_common_block_size",
        "No common block size for",
        {"block_size": 128},
    ),
    "flex-block-not-power-of-2": (
        {"model": qwen3_next(), "backend": "FLEX_ATTENTION"},
        "flex_block_not_power_of_2",
        "flex_attn_kv_block_size must be a power of 2 and divisible by flex_attn_block_n, got 544",
        {"flex_attn_kv_block_size": 16},
    ),
    "flex-block-not-power-of-2-of-an-explicit-size": (
        {"model": qwen3_next(), "backend": "FLEX_ATTENTION", "block_size": 16},
        "flex_block_not_power_of_2",
        (
            "flex_attn_kv_block_size must be a power of 2 and divisible by flex_attn_block_n, got "
            "544, None"
        ),
        {"flex_attn_kv_block_size": 16},
    ),
    "flex-query-block-not-power-of-2": (
        {"model": llama(), "backend": "FLEX_ATTENTION", "flex_attn_q_block_size": 24},
        "flex_block_not_power_of_2",
        (
            "flex_attn_q_block_size must be a power of 2 and divisible by flex_attn_block_m, got "
            "24, None"
        ),
        {"flex_attn_q_block_size": 32},
    ),
    "flex-block-not-divisible": (
        {"model": llama(), "backend": "FLEX_ATTENTION", "flex_attn_block_m": 32},
        "flex_block_not_divisible",
        (
            "flex_attn_q_block_size must be a power of 2 and divisible by flex_attn_block_m, got "
            "16, 32"
        ),
        {"flex_attn_block_m": 16},
    ),
    "flex-tile-is-zero": (
        {"model": llama(), "backend": "FLEX_ATTENTION", "flex_attn_block_n": 0},
        "flex_tile_is_zero",
        "integer modulo by zero",
        {"flex_attn_block_n": None},
    ),
    "flex-tile-exceeds-cache-block": (
        {
            "model": llama(),
            "backend": "FLEX_ATTENTION",
            "batch_invariant": True,
            "flex_attn_block_n": 32,
            "flex_attn_kv_block_size": 128,
        },
        "flex_tile_exceeds_cache_block",
        "flex_attn_block_n (32) must be <= cache block size (16) for batch invariance",
        {"flex_attn_block_n": 16},
    ),
    "flex-tile-illegal": (
        {
            "model": llama(),
            "backend": "FLEX_ATTENTION",
            "flex_attn_q_block_size": 8,
            "flex_attn_kv_block_size": 128,
        },
        "flex_tile_illegal",
        "Q and KV block size must be divisible by BLOCK_M and BLOCK_N.",
        {"flex_attn_q_block_size": 16},
    ),
    "flex-tile-below-16": (
        {"model": llama(), "backend": "FLEX_ATTENTION", "flex_attn_block_m": 8},
        "flex_tile_below_16",
        None,
        {"flex_attn_block_m": 16},
    ),
    "flex-tile-exceeds-shared-memory": (
        {"model": qwen3_next(), "backend": "FLEX_ATTENTION", "block_size": 1024},
        "flex_tile_exceeds_shared_memory",
        None,
        {"flex_attn_block_n": 64},
    ),
    "flex-tile-of-too-many-queries": (
        {"model": llama(), "backend": "FLEX_ATTENTION", "flex_attn_q_block_size": 2**20},
        "flex_tile_exceeds_shared_memory",
        None,
        {"flex_attn_block_m": 64},
    ),
    "batch-invariance-of-a-hybrid": (
        {"model": nemotron_h(), "batch_invariant": True},
        "ssm_not_batch_invariant",
        "VLLM batch_invariant mode is not supported for MAMBA2_ATTN.",
        {"batch_invariant": False},
    ),
    "flex-alibi": (
        {"model": llama(model_type="bloom"), "backend": "FLEX_ATTENTION"},
        "flex_alibi",
        "FlexAttention does not support alibi slopes yet.",
        {"backend": None},
    ),
    "flex-soft-cap": (
        {"model": llama(model_type="gemma2", sliding_window=64), "backend": "FLEX_ATTENTION"},
        "flex_soft_cap",
        "FlexAttention does not support logits soft cap yet.",
        {"backend": None},
    ),
    "batch-invariance-of-a-backend": (
        {"model": llama(), "batch_invariant": True, "backend": "CPU_ATTN", "platform": "cpu"},
        "batch_invariance_not_covered",
        None,
        {"batch_invariant": False},
    ),
    "n-groups-not-divisible": (
        {"model": nemotron_h(n_groups=8, mamba_num_heads=96), "tensor_parallel": 16},
        "n_groups_not_divisible",
        "If tensor parallel world size does not divide num_groups, then num_groups must",
        {"tensor_parallel": 8},
    ),
    "n-groups-not-divisible-zamba2": (
        {"model": zamba2(), "tensor_parallel": 4},
        "n_groups_not_divisible",
        "If tensor parallel world size does not divide num_groups, then num_groups must",
        {"tensor_parallel": 2},
    ),
    "mamba-block-size-not-multiple": (
        {"model": jamba(), "enable_prefix_caching": True, "mamba_block_size": 100},
        "mamba_block_size_not_multiple",
        None,
        {"mamba_block_size": 2048},
    ),
    "cpu-prefix-caching-off": (
        {"model": qwen3_5(), "platform": "cpu", "enable_prefix_caching": True},
        "cpu_prefix_caching_off",
        "--mamba-block-size can only be set with --enable-prefix-caching",
        {"enable_prefix_caching": False},
    ),
    "images-seen-whole": (
        {"model": "gemma-3-27b", "platform": "cuda", "mamba_cache_mode": "align"},
        "items_not_cut",
        "Chunked MM input is required because we need the flexibility to schedule",
        {"mamba_cache_mode": None},
    ),
    "width-that-the-heads-do-not-divide": (
        {"model": llama(num_attention_heads=24)},
        "width_not_divisible",
        "The hidden size (4096) is not a multiple of the number of attention heads (24).",
        NO_REMEDY,
    ),
    "width-of-a-class": (
        {
            "model": llama(
                architectures=["StableLmForCausalLM"], model_type="stablelm", num_attention_heads=24
            )
        },
        "width_not_divisible",
        "hidden_size must be divisible by num_heads ",
        NO_REMEDY,
    ),
    "width-of-a-drafter": (
        {**DRAFTED, "draft_model": {**DRAFT, "num_attention_heads": 24}},
        "width_not_divisible",
        "The hidden size (4096) is not a multiple of the number of attention heads (24).",
        {"speculative_method": "ngram", "draft_model": None},
    ),
    "an-encoder-read-whole": (
        {"model": WHISPER, "mamba_cache_mode": "align"},
        "items_not_cut",
        "Chunked MM input is required because we need the flexibility to schedule",
        {"mamba_cache_mode": None},
    ),
    "kv-heads-not-divisible": (
        {
            "model": llama(num_key_value_heads=6, num_attention_heads=24, hidden_size=3072),
            "tensor_parallel": 4,
        },
        "kv_heads_not_divisible",
        "",
        {"tensor_parallel": 3},
    ),
    "query-heads-not-divisible": (
        {"model": llama(num_key_value_heads=6)},
        "query_heads_not_divisible",
        "is not divisible by num_kv_heads (",
        NO_REMEDY,
    ),
    "rope-sections-do-not-add-up": (
        {"model": llama(rope_parameters={"rope_type": "default", "mrope_section": [1, 1, 1]})},
        "rope_sections_do_not_add_up",
        "",
        NO_REMEDY,
    ),
    "experts-not-clamped": (
        {
            "model": {
                **config("deepseek_v4_flash"),
                "quantization_config": {
                    "quant_method": "fp8",
                    "weight_block_size": [128, 128],
                    "moe_quant_algo": "NVFP4",
                },
            },
            "device": "H100",
            "kv_cache_dtype": "fp8",
        },
        "experts_not_clamped",
        "No NvFp4 MoE backend supports the deployment configuration.",
        {"device": "B200"},
    ),
    "alibi-sqrt-not-supported": (
        {"model": {**llama(model_type="step1"), "architectures": ["Step1ForCausalLM"]}},
        "alibi_sqrt_not_supported",
        "use_alibi_sqrt is not supported by backend",
        {"backend": "TRITON_ATTN"},
    ),
    "aiter-heads": (
        {"model": "glm-4.7-flash", "device": "MI300X", "backend": "ROCM_AITER_MLA"},
        "aiter_heads_not_padded",
        "Aiter MLA requires that num_heads be multiples or divisors of 16",
        {"backend": "TRITON_MLA"},
    ),
    "mla-prefill-not-supported": (
        {"model": deepseek_v3(v_head_dim=256), "rules": "0.33"},
        "mla_prefill_not_supported",
        "No valid MLA prefill backend found with",
        NO_REMEDY,
    ),
    "no-memory-for-blocks": (
        {"model": llama(), "kv_cache_memory_bytes_by_rank": (0,)},
        "no_memory_for_blocks",
        "No available memory for the cache blocks. Try increasing",
        {"kv_cache_memory_bytes_by_rank": (2 * 65_536 * 262_144 // 16,)},
    ),
    "cannot-auto-fit": (
        {"model": llama(), "kv_cache_memory_bytes": 1000, "max_model_len": -1},
        "cannot_auto_fit",
        "Cannot auto-fit max_model_len:",
        {"kv_cache_memory_bytes": 2 * 65_536 * 262_144 // 16},
    ),
    "not-enough-memory": (
        {"model": llama(), "kv_cache_memory_bytes": 2**30},
        "not_enough_memory",
        (
            "To serve at least one request with the model's max seq len (262144), (2.0 GiB KV "
            "cache is needed, which is larger than the available KV cache memory (1.0 GiB)."
        ),
        {"max_model_len": 131_072 - 16},
    ),
    "null-block-not-counted": (
        {"model": llama(), "kv_cache_memory_bytes": 2**31},
        "null_block_not_counted",
        None,
        {"kv_cache_memory_bytes": 2**31 + 2 * 65_536},
    ),
    "memory-budget-without-weights": (
        {"model": llama(), "device_memory_bytes": 80 * 2**30},
        "memory_budget_incomplete",
        None,
        NO_REMEDY,
    ),
    "memory-budget-without-device": (
        {"model": llama(), "weights_bytes": 2**30},
        "memory_budget_incomplete",
        None,
        NO_REMEDY,
    ),
    "full-graphs-not-supported": (
        {
            "model": "llama-3.1-8b",
            "hidden_state_layers": 2,
            "num_speculative_tokens": 1,
            "cudagraph_mode": "FULL",
        },
        "full_graphs_not_supported",
        "CUDAGraphMode.FULL is not supported with ",
        {"cudagraph_mode": "PIECEWISE"},
    ),
    "max-num-seqs-above-blocks": (
        {"model": "qwen3.5-4b", "kv_cache_memory_bytes": 20 * 2**30, "max_num_seqs": 1242},
        "max_num_seqs_above_blocks",
        "max_num_seqs (1242) exceeds available Mamba cache blocks (1241).",
        {"max_num_seqs": 1241},
    ),
    "adapters-not-supported": (
        {"model": "falcon-mamba-7b", "enable_lora": True, "rules": "0.33"},
        "adapters_not_supported",
        "LoRA is not supported for FalconMambaForCausalLM (",
        {"enable_lora": False},
    ),
    "adapters-need-longer-steps": (
        {
            "model": llama(),
            "enable_lora": True,
            "speculative_method": "ngram",
            "num_speculative_tokens": 3,
            "max_num_batched_tokens": 4096,
            "max_num_seqs": 2048,
        },
        "adapters_need_longer_steps",
        "Consider increasing max_num_batched_tokens or decreasing num_speculative_tokens",
        {"max_num_batched_tokens": 8192},
    ),
    "no-checkpoints-kept": (
        {"model": "qwen3-8b", "prefix_cache_retention_interval": 1024, "rules": "0.33"},
        "no_checkpoints_kept",
        "prefix_cache_retention_interval is set but this model has no sliding-window or Mamba",
        {"prefix_cache_retention_interval": None},
    ),
    "checkpoints-cut-blocks": (
        {"model": "qwen3.5-4b", "prefix_cache_retention_interval": 1024, "rules": "0.33"},
        "checkpoints_cut_blocks",
        "prefix_cache_retention_interval (1024) must be non-negative and a multiple of",
        {"prefix_cache_retention_interval": 1152},
    ),
    "more-checkpoints-kept": (
        {"model": "qwen3.5-4b", "prefix_cache_retention_interval": 1152, "rules": "0.33"},
        "more_checkpoints_kept",
        None,
        NO_REMEDY,
    ),
}
UNREACHABLE = {"no_shared_block_size"}
"""Problems that no backend of today can cause; a test with toy backends causes them."""
WARNINGS = {
    "connector_turns_manager_off",
    "quantization_method_missing",
    "draft_cache_not_exact",
    "drafter_layers_not_counted",
    "draft_model_not_read",
    "head_drafts_alone",
    "target_embedding_not_found",
    "speculative_tokens_missing",
    "prefix_caching_inert",
    "block_size_precludes_backend",
    "device_not_tested",
    "mamba_block_size_not_multiple",
    "cpu_prefix_caching_off",
    "experts_need_amx",
    "null_block_not_counted",
    "memory_budget_incomplete",
    "cache_above_device_memory",
    "cuda_version_assumed",
    "gdn_prefill_falls_back",
    "flex_tile_below_16",
    "flex_tile_exceeds_shared_memory",
    "batch_invariance_not_covered",
    "more_checkpoints_kept",
}

MIXED = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "MIXED_PRECISION"}}
DSPARK = {**llama(num_hidden_layers=1), "architectures": ["DSparkDraftModel"]}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True}
REFUSALS = {
    **{
        f"mxfp8-of-a-file-{code}": (
            {"model": {**catalog_config("qwen3-8b"), "quantization_config": MXFP8_OF_MINIMAX}}
            | more,
            code,
            text,
            remedy,
        )
        for more, code, text, remedy in (
            (
                {"rules": "0.23"},
                "quantization_not_read",
                "OnlineQuantizationConfig does not support loading from a",
                {"rules": "0.33"},
            ),
            (
                {"rules": "0.33", "dtype": "float16"},
                "quantization_dtype",
                "torch.float16 is not supported for quantization method",
                {"dtype": "auto"},
            ),
        )
    },
    "second-runner-on-a-cpu": (
        {
            "model": llama(),
            "draft_model": DSPARK,
            "speculative_method": "dspark",
            "num_speculative_tokens": 1,
            "platform": "cpu",
            "rules": "0.33",
        },
        "runner_without_feature",
        "Model Runner V1 does not support: dspark speculative decoding",
        {"speculative_method": "ngram", "draft_model": None},
    ),
    "second-runner-without-ngram": (
        {"model": "qwen3-8b", "v2_model_runner": True, "num_speculative_tokens": 2},
        "runner_without_feature",
        "Model Runner V2 does not yet support: ngram/ngram_gpu speculative decoding",
        {"v2_model_runner": None},
    ),
    "engines-without-a-server": (
        {"model": "qwen3-8b", "data_parallel": 2, "entry_point": "LLM"},
        "engines_without_server",
        "LLM(data_parallel_size=2) is not supported",
        {"entry_point": "serve"},
    ),
    "expert-parallelism-without-experts": (
        {"model": "qwen3-8b", "enable_expert_parallel": True},
        "no_experts",
        "Number of experts in the model must be greater than 0",
        {"enable_expert_parallel": False},
    ),
    "ranks-that-do-not-divide-an-expert": (
        {"model": "qwen3-30b-a3b", "tensor_parallel": 2, "data_parallel": 5},
        "experts_not_divisible",
        "",
        {"enable_expert_parallel": True},
    ),
    "ranks-that-do-not-divide-the-others": (
        {"model": llama(), "tensor_parallel": 4, "decode_context_parallel": 3},
        "context_ranks_not_divisor",
        "tp_size=4 must be divisible",
        {"decode_context_parallel": 1},
    ),
    "connector-of-some-shares": (
        {**LLAMA_3_1, "kv_connector": "NixlConnector", "rules": "0.33"},
        "connector_moves_whole_latents",
        "decode_context_parallel_size=2 must be 1 or equal to the NIXL transfer parallel size=16.",
        {"decode_context_parallel": 1},
    ),
    "connector-of-shared-heads": (
        {
            "model": llama(num_key_value_heads=1),
            "tensor_parallel": 2,
            "decode_context_parallel": 2,
            "kv_connector": "NixlConnector",
            "rules": "0.33",
        },
        "connector_moves_whole_latents",
        "PD with decode_context_parallel_size > 1 is only supported for MLA models.",
        {"decode_context_parallel": 1},
    ),
    "ranks-with-other-kv-heads": (
        {**LLAMA_3_1, "tensor_parallel": 8},
        "kv_heads_not_shared",
        "tensor parallel size 8 must be greater than total num kv heads 8",
        {"decode_context_parallel": 1},
    ),
    "more-ranks-than-share-kv-heads": (
        {**LLAMA_3_1, "decode_context_parallel": 4},
        "kv_heads_shared_by_fewer",
        (
            "decode context parallel size must less than or equal to (tensor parallel size 16 // "
            "total num kv heads 8)"
        ),
        {"decode_context_parallel": 2},
    ),
    "query-heads-that-ranks-do-not-share": (
        {
            "model": llama(
                num_attention_heads=24, num_key_value_heads=2, hidden_size=3072, vocab_size=128256
            ),
            "tensor_parallel": 24,
            "decode_context_parallel": 8,
        },
        "query_heads_not_shared",
        "Total number of q per kv attn heads (12) must be divisible by dcp world size",
        {"decode_context_parallel": 6},
    ),
    "ranks-without-kv-heads": (
        {"model": "falcon-mamba-7b", "tensor_parallel": 2, "decode_context_parallel": 2},
        "no_kv_heads_to_share",
        "integer division or modulo by zero",
        {"decode_context_parallel": 1},
    ),
    "async-scheduling-with-drafts-that-a-runner-waits-for": (
        {
            "model": llama(),
            "rules": "0.33",
            "async_scheduling": True,
            "num_speculative_tokens": 2,
            "speculative_method": "suffix",
        },
        "async_scheduling_not_supported",
        "Async scheduling is not supported by the V1 model runner with",
        {"async_scheduling": None},
    ),
    "stages-of-a-model-that-has-none": (
        {"model": zamba2(), "pipeline_parallel": 2},
        "stages_not_supported",
        "Pipeline parallelism is not supported for this model.",
        {"pipeline_parallel": 1},
    ),
    "stages-of-a-text-model-without-a-class": (
        {"model": "qwen3-vl-4b", "pipeline_parallel": 2},
        "stages_not_supported",
        "No model architectures are specified",
        {"pipeline_parallel": 1},
    ),
    "stages-of-a-class-of-transformers-without-a-plan": (
        {"model": MLLAMA, "rules": "0.23", "pipeline_parallel": 2, "tensor_parallel": 2},
        "split_not_supported",
        " does not support pipeline parallel. See ",
        {"pipeline_parallel": 1, "tensor_parallel": 1},
    ),
    "head-that-cannot-be-cut": (
        {**DRAFTED, "pipeline_parallel": 2},
        "drafter_over_stages",
        "Pipeline parallelism is not supported for this model.",
        {"pipeline_parallel": 1},
    ),
    "algorithm-of-a-later-version": (
        {"model": llama(quantization_config=MIXED), "rules": "0.23"},
        "weight_algorithm_unknown",
        "Unknown ModelOpt quant algo: MIXED_PRECISION",
        {"rules": "0.33"},
    ),
    "auto-round-goes-by-another-name": (
        {
            "model": llama(quantization_config=GROUPS | {"quant_method": "auto-round"}),
            "platform": "rocm",
            "rules": "0.23",
        },
        "quantization_not_on_platform",
        "inc quantization is currently not supported in rocm.",
        {"platform": "cuda"},
    ),
    "method-that-a-platform-does-not-list": (
        {"model": llama(quantization_config={"quant_method": "moe_wna16"}), "platform": "rocm"},
        "quantization_not_on_platform",
        "moe_wna16 quantization is currently not supported in rocm.",
        {"platform": "cuda"},
    ),
    "word-that-is-not-the-checkpoints": (
        {"model": llama(quantization_config={"quant_method": "fp8"}), "quantization": "awq"},
        "quantization_differs",
        "Quantization method specified in the model config (fp8) does not match",
        {"quantization": None},
    ),
    "groups-that-follow-the-activations": (
        {"model": llama(quantization_config=GPTQ | {"desc_act": True}), "rules": "0.33"},
        "quantization_not_read",
        "GPTQ group activation ordering (desc_act=True) is no longer",
        {"rules": "0.23"},
    ),
    "word-that-a-plain-checkpoint-does-not-describe": (
        {"quantization": "awq"},
        "quantization_not_described",
        "Cannot find the config file for awq",
        {"quantization": None},
    ),
    "deprecated-method": (
        {"quantization": "fbgemm_fp8"},
        "quantization_deprecated",
        "The quantization method %s is deprecated and will be removed in",
        {"quantization": "fp8_per_tensor"},
    ),
    "method-of-newer-devices": (
        {"model": "gpt-oss-20b", "device": "T4"},
        "quantization_capability",
        "The quantization method gpt_oss_mxfp4 is not supported for the current GPU.",
        {"device": "H100"},
    ),
    "method-that-a-version-does-not-have": (
        {"model": llama(quantization_config={"quant_method": "bitsandbytes"}), "rules": "0.33"},
        "quantization_unknown",
        "Unknown quantization method: bitsandbytes. Must",
        {"rules": "0.23"},
    ),
    "turboquant-sorts-layers-by-number": (
        {
            "model": llama(),
            "rules": "0.23",
            "kv_cache_dtype": "turboquant_k8v4",
            "kv_cache_dtype_skip_layers": ("0", "sliding_window"),
        },
        "skipped_kind_with_turboquant",
        "invalid literal for int() with base 10: 'sliding_window'",
        {"kv_cache_dtype": "fp8"},
    ),
    "block-without-vectors-0.33": (
        {"model": config("deepseek_v4_flash"), "block_size": 64, "rules": "0.33"},
        "block_without_vectors",
        "integer division or modulo by zero",
        {"block_size": None},
    ),
    "windows-of-convolutions": (
        {"model": inkling(), "rules": "0.33", "tensor_parallel": 16},
        "side_cache_refused",
        "sconv SWA cache supports tp_size <= num_kv_heads (8)",
        {"tensor_parallel": 8},
    ),
    "block-without-vectors": (
        {"model": config("deepseek_v4_flash"), "kv_cache_dtype": "fp8", "block_size": 64},
        "block_without_vectors",
        "",
        {"block_size": None},
    ),
    "cpu-mla": (
        {"model": kimi_linear(), "rules": "0.33", "platform": "cpu", "backend": "CPU_MLA"},
        "cpu_mla_without_prefix_caching",
        "--mamba-block-size can only be set with --enable-prefix-caching",
        {"backend": "AMX_MLA"},
    ),
    "hidden-states-of-unknown-size": (
        {"model": llama(hidden_size=None), "hidden_state_layers": 1, "num_speculative_tokens": 1},
        "hidden_size_unknown",
        None,
        {"hidden_state_layers": 0},
    ),
    "kda-state-dtype": (
        {"model": kimi_linear(), "rules": "0.33", "mamba_ssm_cache_dtype": "float16"},
        "kda_state_dtype",
        "KDA recurrent state supports only auto, float32, and bfloat16; got float16",
        {"mamba_ssm_cache_dtype": "auto"},
    ),
    "float-kv-cache-dtype": (
        {"model": llama(), "rules": "0.33", "kv_cache_dtype": "float16"},
        "float_kv_cache_dtype",
        (
            'kv_cache_dtype="float16" is incompatible with dtype="bfloat16". Please set '
            "`--kv-cache-dtype` to `auto` or `bfloat16`."
        ),
        {"kv_cache_dtype": "auto"},
    ),
    "architecture-not-served": (
        {"model": plamo2(), "rules": "0.33"},
        "architecture_not_served",
        "Model architecture Plamo2ForCausalLM was supported in vLLM until v0.26.0",
        {"rules": "0.23"},
    ),
    "architecture-not-named": (
        {"model": kimi_linear(architectures=None)},
        "architecture_not_named",
        "No model architectures are specified",
        {"rules": "0.33"},
    ),
    "gemma3-float16": (
        {"model": gemma3(), "dtype": "float16"},
        "float16_not_supported",
        "The model type 'gemma3' does not support float16.",
        {"dtype": "bfloat16"},
    ),
    "plamo2-float16": (
        {"model": plamo2(), "dtype": "float16"},
        "float16_not_supported",
        "The model type 'plamo2' does not support float16.",
        {"dtype": "bfloat16"},
    ),
    "bfloat16-before-ampere": (
        {"model": llama(), "device": "T4", "dtype": "bfloat16"},
        "bfloat16_not_supported",
        "Bfloat16 is only supported on GPUs with compute capability of at least 8.0.",
        {"dtype": "float16"},
    ),
    **{
        f"{method}-float32": (
            {
                "model": {**llama(), "quantization_config": {"quant_method": method}},
                "dtype": "float32",
            },
            "quantization_dtype",
            "torch.float32 is not supported for quantization method",
            {"dtype": "auto"},
        )
        for method in ("fp8", "quark")
    },
    "xpu-batch-invariance": (
        {
            "model": llama(),
            "platform": "xpu",
            "batch_invariant": True,
            "kv_cache_dtype": "fp8",
            "rules": "0.33",
        },
        "xpu_batch_invariance",
        "XPU batch invariance currently does not support quantized KV caches",
        {"batch_invariant": False},
    ),
    "max-model-len-without-limit": (
        {"model": mamba(max_position_embeddings=None), "max_model_len": -1},
        "max_model_len_not_limited",
        "max_model_len must be a positive integer, got int: -1",
        {"max_model_len": None},
    ),
    "max-model-len": (
        {"model": llama(), "max_model_len": 262145},
        "max_model_len_too_long",
        "User-specified max_model_len (262145) is greater than the derived max_model_len (",
        {"max_model_len": 262144},
    ),
    "turboquant-without-list": (
        {"model": kimi_linear(), "kv_cache_dtype": "turboquant_k8v4"},
        "turboquant_layers_not_identifiable",
        "TurboQuant KV cache requires identifiable",
        {"kv_cache_dtype": "auto"},
    ),
    "ultraquant-without-list": (
        {"model": zamba2(), "kv_cache_dtype": "ultraquant_4bit", "rules": "0.33"},
        "turboquant_layers_not_identifiable",
        "TurboQuant KV cache requires identifiable",
        {"kv_cache_dtype": "auto"},
    ),
    "heads": (
        {"model": llama(), "tensor_parallel": 12},
        "heads_not_divisible",
        "Total number of attention heads (32) must be divisible by tensor parallel size (12).",
        {"tensor_parallel": 8},
    ),
    "vocabulary": (
        {
            "model": llama(num_attention_heads=24, hidden_size=3072, vocab_size=128_000),
            "tensor_parallel": 3,
        },
        "vocabulary_not_divisible",
        "128000 is not divisible by 3",
        {"tensor_parallel": 2},
    ),
    "output-of-an-encoder-for-sound": (
        {
            "model": {
                "architectures": ["GraniteSpeechForConditionalGeneration"],
                "model_type": "granite_speech",
                "encoder_config": {"num_heads": 8, "output_dim": 42},
                "text_config": llama(model_type="granite"),
            },
            "tensor_parallel": 4,
        },
        "tower_not_divisible",
        "42 is not divisible by 4",
        {"tensor_parallel": 2},
    ),
    "tower": (
        {"model": "qwen3.5-27b", "tensor_parallel": 3},
        "tower_not_divisible",
        "16 is not divisible by 3",
        {"tensor_parallel": 2},
    ),
    "nvfp4-with-mla": (
        {"model": deepseek_v3(), "kv_cache_dtype": "nvfp4"},
        "nvfp4_with_mla",
        "nvfp4 KV cache is not supported with MLA",
        None,
    ),
    "mamba-block-size": (
        {"model": nemotron_h(), "mamba_block_size": 64},
        "mamba_block_size_without_prefix_caching",
        "--mamba-block-size can only be set with --enable-prefix-caching",
        None,
    ),
    "state-dimension": (
        {
            "model": qwen3_next(linear_num_key_heads=4, linear_num_value_heads=4),
            "tensor_parallel": 8,
        },
        "state_not_divisible",
        "4 is not divisible by 8",
        {"tensor_parallel": 4},
    ),
    "head-of-one-element": (
        {"model": llama(head_dim=1), "kv_cache_dtype": "nvfp4"},
        "head_size_too_small",
        None,
        {"kv_cache_dtype": "auto"},
    ),
    "heads-whose-derived-size-is-one": (
        {
            "model": bamba(
                num_attention_heads=48,
                num_key_value_heads=16,
                head_dim=32,
                hidden_size=64,
                mamba_expand=1,
                mamba_n_heads=1,
            ),
            "kv_cache_dtype": "nvfp4",
        },
        "head_size_too_small",
        None,
        {"kv_cache_dtype": "auto"},
    ),
    "method-that-0.33-lacks": (
        {
            "model": llama(),
            "rules": "0.33",
            "speculative_method": "medusa",
            "num_speculative_tokens": 2,
        },
        "speculative_method_unknown",
        None,
        {"speculative_method": "ngram"},
    ),
    "mtp-without-such-layers": (
        {"model": llama(), "speculative_method": "mtp", "num_speculative_tokens": 1},
        "no_mtp_layers",
        "Unsupported speculative method: 'mtp'",
        {"speculative_method": "ngram"},
    ),
    "tokens-that-two-mtp-layers-cannot-draft": (
        {"model": qwen3_next(num_nextn_predict_layers=2), "num_speculative_tokens": 3},
        "speculative_tokens_not_divisible",
        "num_speculative_tokens:3 must be divisible by n_predict=2",
        {"num_speculative_tokens": 2},
    ),
    "two-mtp-layers-of-nemotron": (
        {"model": nemotron_h(num_nextn_predict_layers=2), "num_speculative_tokens": 2},
        "mtp_layers_above_limit",
        "Only one MTP layer is supported for NemotronH-MTP",
        {"speculative_method": "ngram"},
    ),
    "dtype-of-a-drafter-in-0.23": (
        {
            "model": qwen3_next(num_nextn_predict_layers=1),
            "rules": "0.23",
            "num_speculative_tokens": 1,
            "draft_kv_cache_dtype": "fp8",
        },
        "draft_kv_cache_dtype_unknown",
        "1 validation error for SpeculativeConfig",
        {"draft_kv_cache_dtype": None},
    ),
    "mtp-layers-without-kinds": (
        {
            "model": llama(
                architectures=["ExaoneMoeForCausalLM"],
                model_type="exaone_moe",
                layer_types=["full_attention"] * 2,
                num_hidden_layers=2,
                num_nextn_predict_layers=3,
            ),
            "rules": "0.33",
            "num_speculative_tokens": 3,
        },
        "mtp_layers_not_built",
        "list index out of range",
        {"speculative_method": "ngram"},
    ),
    "head-of-another-method": (
        {**DRAFTED, "speculative_method": "eagle"},
        "drafter_class_unknown",
        "Model architectures ['EagleLlamaForCausalLMEagle3'] are not supported for now.",
        {"speculative_method": "eagle3"},
    ),
    "draft-model-without-attention": (
        {**DRAFTED, "draft_model": "mamba-codestral-7b", "speculative_method": "draft_model"},
        "draft_model_not_a_decoder",
        None,
        {"speculative_method": "ngram", "draft_model": None},
    ),
    "draft-model-of-no-class": (
        {
            **DRAFTED,
            "draft_model": {**DRAFT, "architectures": ["GptOssForCausalLMEagle3"]},
            "speculative_method": None,
        },
        "drafter_class_unknown",
        "Model architectures ['GptOssForCausalLMEagle3'] are not supported for now.",
        {"speculative_method": "ngram", "draft_model": None},
    ),
    "draft-model-of-other-tokens": (
        {
            "model": llama(vocab_size=1000),
            "draft_model": llama(vocab_size=2000),
            "num_speculative_tokens": 1,
        },
        "draft_vocabulary_differs",
        "Target and draft model should have the same vocabulary size. ",
        {"speculative_method": "ngram", "draft_model": None},
    ),
    "heads-of-the-drafter": (
        {
            **DRAFTED,
            "draft_model": {
                **DRAFT,
                "num_attention_heads": 6,
                "num_key_value_heads": 2,
                "hidden_size": 3072,
            },
            "tensor_parallel": 4,
        },
        "draft_heads_not_divisible",
        "Total number of attention heads (6) must be divisible by tensor parallel size (4).",
        {"speculative_method": "ngram", "draft_model": None},
    ),
    "ranks-of-the-drafter": (
        {**DRAFTED, "tensor_parallel": 4, "draft_tensor_parallel": 2},
        "draft_ranks_differ",
        "speculative_draft_tensor_parallel_size=2 cannot be other value",
        {"draft_tensor_parallel": None},
    ),
    "mtp-of-another-model": (
        {
            "model": llama(),
            "draft_model": qwen3_next(num_nextn_predict_layers=1),
            "num_speculative_tokens": 1,
        },
        "mtp_of_another_model",
        None,
        {"draft_model": None},
    ),
}


def rows(cases):
    return [pytest.param(*case, id=name) for name, case in cases.items()]


def changes_of(remedies):
    return [dict(remedy.changes) for remedy in remedies]


@in_groups
@pytest.mark.parametrize(("values", "code", "vllm_text", "remedy"), rows(PROBLEMS))
def test_a_problem_says_what_clashes_and_what_removes_it(values, code, vllm_text, remedy):
    plan = resolve(**values)
    problem = next(problem for problem in plan.problems if problem.code == code)
    assert (problem.severity == WARNING) == (code in WARNINGS)
    assert problem.operands
    assert problem.field in Scenario().to_dict()
    assert problem.field != ("platform" if "device" in values else "device")
    assert str(problem).startswith(f"{problem.severity} [{code}] ")
    if vllm_text is not None:
        assert problem.vllm_text.startswith(vllm_text)
    tried = changes_of(plan.remedies(problem))
    assert (tried == []) == (remedy is NO_REMEDY)
    assert remedy in (None, NO_REMEDY, *tried)
    for changes in tried:
        again = resolve(Scenario(**values).replace(**changes))
        assert code not in {other.code for other in again.problems}
    published = next(entry for entry in plan.to_dict()["problems"] if entry["code"] == code)
    assert [entry["changes"] for entry in published["remedies"]] == tried


@in_groups
@pytest.mark.parametrize(("values", "code", "vllm_text", "remedy"), rows(REFUSALS))
def test_a_refusal_says_what_clashes_and_what_lifts_it(values, code, vllm_text, remedy):
    scenario = Scenario(**values)
    with pytest.raises(Refused) as caught:
        resolve(scenario)
    refusal = caught.value
    assert refusal.code == code
    assert refusal.operands
    assert refusal.field in scenario.to_dict()
    assert (refusal.vllm_text or "").startswith(vllm_text or "")
    tried = changes_of(remedies_of_refusal(scenario, refusal))
    assert tried
    assert remedy is None or remedy in tried
    for changes in tried:
        assert resolve(scenario.replace(**changes)).errors == ()


def codes_in(call, position):
    """String literals given as the `position`-th argument of `call(...)` anywhere in core."""
    found = set()
    for source in Path(workbench.core.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            code = node.args[position] if name == call else None
            codes = (code.body, code.orelse) if isinstance(code, ast.IfExp) else (code,)
            found |= {one.value for one in codes if isinstance(one, ast.Constant)}
    return found


def test_every_code_in_core_has_a_case():
    found = codes_in("problem", 0) | codes_in("FlexRefusal", 0)
    assert found == {code for _values, code, *_ in PROBLEMS.values()} | UNREACHABLE
    refused = codes_in("Refused", 0) | codes_in("refusal", 0)
    assert refused == {code for _values, code, *_ in REFUSALS.values()}


def test_every_declared_problem_is_one_of_them():
    calls = ("problem", "refusal", "stops", "layout_error")
    found = {code for call in calls for code in codes_in(call, 0)}
    assert {name.partition(" ")[0] for name in problem_texts()} <= found


NANO_ON_XPU = {"model": nemotron_h(), "platform": "xpu", "tensor_parallel": 4}


def test_before_37467_the_platform_block_size_came_too_late():
    plan = resolve(**NANO_ON_XPU, rules="before-37467")
    # One rank: conv [3, 1536] bf16 and state [16, 64, 128] fp32; one KV head of 128 in bf16.
    conv, state = 3 * (64 * 64 + 2 * 8 * 128) // 4 * 2, 16 * 64 * 128 * 4
    tok = 1 * 2 * 128 * 2
    assert (conv + state, tok) == (533_504, 512)
    assert plan.mamba_page_size_bytes == conv + state
    assert plan.attention_bytes_per_token == tok
    # Aligned with 16, as if no platform had a say: 66 steps, 540,672 bytes.
    aligned = 16 * -(-533_504 // (16 * 512))
    assert aligned == 1056
    assert plan.trace.step("aligned_block_size").result == aligned
    assert plan.mamba_page_size_padded == aligned * tok == 540_672
    # Then XPU writes 64 over it: 16.5 attention pages in a mamba page.
    assert plan.block_size == 64
    assert plan.attention_page_size_bytes == 64 * tok == 32_768
    assert 540_672 / 32_768 == 16.5
    (problem,) = plan.errors
    assert problem.code == "pages_not_equal"
    assert problem.operands == {
        "attention_page_size_bytes": 32_768,
        "mamba_page_size_bytes": 540_672,
    }
    assert "16.5 is not whole" in problem.message
    assert {"rules": "0.23"} in changes_of(plan.remedies(problem))
    blocks = [change["block_size"] for change in problem.candidates if "block_size" in change]
    assert blocks == [64, 128, 256]


def test_since_37467_the_backend_comes_first():
    plan = resolve(**NANO_ON_XPU, rules="0.23")
    granularity = plan.trace.step("alignment_granule")
    assert (granularity.result, plan.backend) == (64, "FLASH_ATTN")
    assert plan.block_size == 64 * -(-533_504 // (64 * 512)) == 1088
    assert plan.block_size % 64 == 0
    assert plan.attention_page_size_bytes == 1088 * 512 == 557_056
    assert plan.mamba_page_size_padded == plan.attention_page_size_bytes
    assert plan.errors == ()


def test_both_rule_sets_agree_where_the_platform_has_no_default_of_its_own():
    here = {**NANO_ON_XPU, "platform": "cuda"}
    before = resolve(**here, rules="before-37467")
    since = resolve(**here, rules="0.23")
    assert (before.block_size, before.mamba_page_size_padded) == (1056, 540_672)
    assert (since.block_size, since.mamba_page_size_padded) == (1056, 540_672)


@pytest.mark.parametrize("rules", ["0.23", "0.33"])
def test_the_attention_of_the_first_layer_stops_before_its_experts(rules):
    """As both versions answered: the layers at both ends keep the model's dtype with TurboQuant."""
    ranks = {"model": "qwen3-30b-a3b", "rules": rules, "tensor_parallel": 2, "data_parallel": 5}
    plan = resolve(**ranks, device="H100", backend="FLASHMLA")
    assert [problem.code for problem in plan.errors][:1] == ["backend_not_valid"]
    packed = {"kv_cache_dtype": "turboquant_k8v4", "dtype": "float32"}
    with pytest.raises(Refused) as caught:
        resolve(**ranks, device="H100", **packed)
    assert caught.value.code == "experts_not_divisible"


def test_the_stages_of_a_class_are_checked_before_its_quantization():
    """As vLLM 0.23 answered."""
    requested = {"dtype": "float32", "quantization": "fp8_per_block", "pipeline_parallel": 2}
    with pytest.raises(Refused) as caught:
        resolve(model="minimax-text-01", rules="0.23", device="H100", **requested)
    assert caught.value.code == "stages_not_supported"


def test_xpu_keeps_no_padding_where_the_pages_were_equal():
    """GDN pages that fit exactly with a granularity of 16 stop fitting when XPU rounds to 64.

    vLLM's line about it cannot be printed: it wants a number of bytes.
    """
    equal = {"model": qwen3_5(), "backend": "TRITON_ATTN", "num_speculative_tokens": 1}
    assert resolve(**equal).mamba_page_size_padded is None
    plan = resolve(**equal, platform="xpu")
    assert plan.block_size == 576
    assert plan.mamba_page_size_padded is None
    assert "pages_not_equal" in {problem.code for problem in plan.errors}
    assert not [line for line in plan.log_lines if "XPU" in line]


def test_xpu_scales_the_padding_with_the_block():
    plan = resolve(model=qwen3_5(), backend="TRITON_ATTN", platform="xpu")
    assert (plan.block_size, plan.mamba_page_size_padded) == (576, 576 * 4096)
    assert plan.errors == ()


BLOCKS = [
    # answers of vLLM 0.23 and 0.33, which built these models; 0.33 refines the blocks of experts
    ("0.23", "qwen3-30b-a3b", 4, ["The output_size of gate's and up's weight = 192 is not div"]),
    ("0.33", "qwen3-30b-a3b", 4, []),
    ("0.23", "gpt-oss-20b", 2, ["The output_size of gate's and up's weight = 1440 is not div"]),
    ("0.33", "gpt-oss-20b", 2, []),
    ("0.23", "qwen3-30b-a3b", 2, []),
    ("0.33", "qwen3-8b", 8, []),
    ("0.23", "deepseek-v3", 32, ["Weight input_size_per_partition = 576 is not div"]),
    ("0.33", "deepseek-v3", 32, ["Weight input_size_per_partition = 576 is not div"]),
]


AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm"}


@pytest.mark.parametrize(
    ("name", "code", "says"),
    [
        ("glm-4.5-air", "no_integer_experts", "with a router that corrects its scores"),
        ("qwen3-30b-a3b", "experts_need_amx", "only on CPUs with AMX tiles"),
    ],
)
def test_experts_in_integers_run_on_a_cpu_unless_their_router_corrects_scores(name, code, says):
    model = {**catalog_config(name), "quantization_config": AWQ}
    plan = resolve(model=model, rules="0.33", platform="cpu", max_model_len=4096)
    (found,) = [one for one in plan.problems if one.code in {"no_integer_experts", code}]
    assert found.code == code
    assert says in found.message


@pytest.mark.parametrize(("rules", "name", "ranks", "texts"), BLOCKS)
def test_ranks_may_not_cut_a_block_of_weights(rules, name, ranks, texts):
    scenario = Scenario(model=in_fp8_blocks(name), tensor_parallel=ranks, rules=rules)
    found = [one for one in resolve(scenario).errors if one.code == "weight_block_cut"]
    assert len(found) == len(texts)
    assert all(one.vllm_text.startswith(text) for one, text in zip(found, texts, strict=True))


NVFP4 = {"quant_method": "modelopt", "quant_algo": "NVFP4"}
LINEAR = "Failed to find a kernel that can implement the NVFP4 linear layer."
EXPERTS = "No NvFp4 MoE backend supports the deployment configuration."
UNLISTED = "modelopt_fp4 quantization is currently not supported in xpu."
PLACES = [
    # answers of vLLM 0.23 and 0.33, which built these models; XPU of 0.33 lists the methods it has
    ("0.23", "qwen3-8b", {"xpu": LINEAR, "cpu": LINEAR}),
    ("0.33", "qwen3-8b", {"xpu": UNLISTED, "cpu": LINEAR}),
    ("0.23", "qwen3-30b-a3b", {"cpu": EXPERTS}),
    ("0.33", "qwen3-30b-a3b", {"xpu": UNLISTED, "cpu": EXPERTS}),
]


@pytest.mark.parametrize(("rules", "name", "refused"), PLACES)
def test_nvfp4_weights_need_a_kernel_of_the_platform(rules, name, refused):
    ignored = ["*attn*", "*gate", "lm_head"] if name == "qwen3-30b-a3b" else []
    model = {**catalog_config(name), "quantization_config": {**NVFP4, "ignore": ignored}}
    for platform in ("cuda", "rocm", "xpu", "cpu"):
        scenario = Scenario(model=model, platform=platform, rules=rules)
        if refused.get(platform) == UNLISTED:
            with pytest.raises(Refused) as found:
                resolve(scenario)
            assert found.value.vllm_text == UNLISTED
        else:
            errors = [one.vllm_text for one in resolve(scenario).errors]
            kernels = [text for text in errors if text in {LINEAR, EXPERTS}]
            assert kernels == ([refused[platform]] if platform in refused else []), platform


@given(st.text("abc-_12", max_size=12), st.lists(st.text("abc-_12", max_size=12), unique=True))
def test_the_nearest_names_are_those_of_difflib(text, names):
    assert _closest(text, names, 3) == get_close_matches(text, names, 3, 0.4)
