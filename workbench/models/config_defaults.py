"""Defaults of configuration classes for fields that config.json omits.

From the classes that vLLM 0.23 and 0.33 load (transformers 5 and their own), which agree. Only
fields that published files omit: layers and widths are required, except of Moondream.
Null does not count as omitted.
"""

import json
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from typing import Any

LENGTH, KV_HEADS, WINDOW = "max_position_embeddings", "num_key_value_heads", "sliding_window"
HEADS, HEAD, ROPE = "num_attention_heads", "head_dim", "rope_parameters"
SLIDES, MAMBA_CHUNK = "use_sliding_window", "mamba_chunk_size"
SHARED, CHUNK = "num_kv_shared_layers", "attention_chunk_size"
ORIGINAL = "original_max_position_embeddings"
WIDTHS = frozenset({"num_hidden_layers", HEADS, "hidden_size"})
PARTS = frozenset(
    {
        *("linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim"),
        *("linear_value_head_dim", "linear_conv_kernel_dim", "kv_lora_rank", "qk_nope_head_dim"),
        *("qk_rope_head_dim", "v_head_dim", "index_topk", "index_head_dim"),
    }
)
"""Parts of linear and of latent attention: every reader has them from the classes."""
GPT_OSS_ROPE = {"rope_type": "yarn", "factor": 32.0, ORIGINAL: 4096}

CONFIG_DEFAULTS: dict[str, Mapping[str, Any]] = {
    **{name: {LENGTH: 2048} for name in ("deepseek_v2", "hunyuan_v1_dense", "llama")},
    **{name: {LENGTH: 2048} for name in ("granite", "granitemoe", "olmo2", "olmo3")},
    **{name: {LENGTH: 4096} for name in ("deepseek_v3", "deepseek_v32", "kimi_k2", "phi3")},
    "deepseek_v4": {LENGTH: 1048576, WINDOW: 128, HEADS: 64, HEAD: 512, "index_head_dim": 128},
    **{name: {LENGTH: 202752} for name in ("glm4_moe_lite", "glm_moe_dsa")},
    **{name: {LENGTH: 128000, KV_HEADS: 8} for name in ("lfm2", "lfm2_moe")},
    "bamba": {LENGTH: 262144, KV_HEADS: 8, MAMBA_CHUNK: 256},
    "cohere_asr": {LENGTH: 1024},
    "cohere2": {LENGTH: 8192, WINDOW: 4096},
    "ernie4_5": {LENGTH: 131072, KV_HEADS: 2, HEAD: 128},
    "ernie4_5_moe": {LENGTH: 131072, KV_HEADS: 4},
    "exaone4": {LENGTH: 2048, KV_HEADS: 32},
    "falcon_h1": {LENGTH: 8192, KV_HEADS: 8, "mamba_d_ssm": 1024, MAMBA_CHUNK: 256},
    "gemma": {LENGTH: 8192, KV_HEADS: 16, HEAD: 256},
    "gemma2": {LENGTH: 8192, KV_HEADS: 4, HEAD: 256, WINDOW: 4096},
    "gemma3_text": {LENGTH: 131072, KV_HEADS: 4, HEAD: 256, WINDOW: 4096, HEADS: 8},
    "gemma3n_text": {LENGTH: 32768, KV_HEADS: 2, HEAD: 256, WINDOW: 512, SHARED: 15, HEADS: 8},
    "gemma4_text": {LENGTH: 131072, KV_HEADS: 4, HEAD: 256, WINDOW: 512, HEADS: 8},
    "glm4": {LENGTH: 131072, KV_HEADS: 2, HEAD: 128},
    "glm4_moe": {LENGTH: 131072, KV_HEADS: 8},
    "gpt_oss": {LENGTH: 131072, KV_HEADS: 8, HEAD: 64, WINDOW: 128, ROPE: GPT_OSS_ROPE},
    "granitemoehybrid": {LENGTH: 2048, MAMBA_CHUNK: 256},
    "jamba": {LENGTH: 262144, KV_HEADS: 8},
    "llama4_text": {LENGTH: 131072, KV_HEADS: 8, HEAD: 128, HEADS: 40, CHUNK: 8192},
    "longcat_flash": {LENGTH: 131072},
    "mamba2": {"chunk_size": 256},
    "minimax": {LENGTH: 131072, KV_HEADS: 8},
    "minimax_m2": {LENGTH: 196608, KV_HEADS: 8, HEAD: 128},
    "mistral": {LENGTH: 131072, KV_HEADS: 8, WINDOW: 4096},
    "mixtral": {LENGTH: 131072, KV_HEADS: 8},
    "moondream3": {LENGTH: 4096, HEADS: 32, "hidden_size": 2048, "num_hidden_layers": 24},
    "nemotron_h": {LENGTH: 4096, KV_HEADS: 8, HEAD: 128, "chunk_size": 128},
    "olmo_hybrid": {LENGTH: 65536},
    "qwen2": {LENGTH: 32768, KV_HEADS: 32, WINDOW: 4096, SLIDES: False},
    "qwen2_moe": {LENGTH: 32768, KV_HEADS: 16, WINDOW: 4096, SLIDES: False},
    "qwen3": {LENGTH: 32768, KV_HEADS: 32, HEAD: 128, WINDOW: 4096, SLIDES: False},
    "qwen3_5_moe_text": {LENGTH: 32768, KV_HEADS: 2, HEAD: 256},
    "qwen3_5_text": {LENGTH: 32768, KV_HEADS: 4, HEAD: 256},
    "qwen3_moe": {LENGTH: 32768, KV_HEADS: 4, WINDOW: 4096, SLIDES: False},
    "qwen3_next": {LENGTH: 32768, KV_HEADS: 2, HEAD: 256},
    "seed_oss": {LENGTH: 524288, KV_HEADS: 8, HEAD: 128},
    "smollm3": {LENGTH: 32768, KV_HEADS: 4, SLIDES: False},
    "starcoder2": {LENGTH: 4096, KV_HEADS: 2},
    "step5": {"max_seq_len": 4096},
    "whisper": {"max_target_positions": 448},
    "zamba2": {LENGTH: 4096, "chunk_size": 256},
}
"""Text model_type -> field -> value."""

WRAPPERS = {
    "gemma3": "gemma3_text",
    "gemma3n": "gemma3n_text",
    "gemma4": "gemma4_text",
    "gemma4_unified": "gemma4_text",
    "gemma4_unified_text": "gemma4_text",
    "diffusion_gemma": "gemma4_text",
    "diffusion_gemma_text": "gemma4_text",
    "llama4": "llama4_text",
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
    "lfm2_vl": "lfm2",
    "lfm2-vl": "lfm2",
    "nemotron_h_puzzle": "nemotron_h",
}
"""model_type -> the model_type of its text configuration if that names none."""


def defaults_of(model_type: object) -> Mapping[str, Any]:
    """Return the defaults of a text configuration, none if its class is not known."""
    named = model_type if isinstance(model_type, str) else ""
    name = WRAPPERS.get(named, named)
    parts = {key: value for key, value in _classes().get(name, {}).items() if key in PARTS}
    return {**parts, **CONFIG_DEFAULTS.get(name, {})}


def class_defaults(model_type: str, *, is_nested: bool) -> Mapping[str, Any]:
    """Return the defaults of any configuration class of transformers, for the default reader.

    A part of a multimodal file omits even layers and widths (LLaVA); a whole file does not.
    """
    found = _classes().get(WRAPPERS.get(model_type, model_type), {})
    return {key: value for key, value in found.items() if is_nested or key not in WIDTHS}


@lru_cache(maxsize=1)
def _classes() -> Mapping[str, Mapping[str, Any]]:
    """Return what tools/config_classes.py found, where 0.23 and 0.33 agree."""
    file = resources.files("workbench.models") / "config_classes.json"
    found: dict[str, Mapping[str, Any]] = json.loads(file.read_text(encoding="utf-8"))
    return found
