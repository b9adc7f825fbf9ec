"""Defaults of configuration classes for fields that config.json omits.

From the classes that vLLM 0.23 and 0.33 load (transformers 5 and their own), which agree. Only
fields that published files omit: layers and widths are required, except of Moondream.
Null does not count as omitted.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from workbench.core.package_data import package_data

LENGTH, KV_HEADS, WINDOW = "max_position_embeddings", "num_key_value_heads", "sliding_window"
HEADS, HEAD, ROPE = "num_attention_heads", "head_dim", "rope_parameters"
SLIDES, MAMBA_CHUNK = "use_sliding_window", "mamba_chunk_size"
SHARED, CHUNK = "num_kv_shared_layers", "attention_chunk_size"
ORIGINAL = "original_max_position_embeddings"
WIDTHS = ("num_hidden_layers", HEADS, "hidden_size")
PARTS = (
    *("linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim"),
    *("linear_value_head_dim", "linear_conv_kernel_dim", "kv_lora_rank", "qk_nope_head_dim"),
    *("qk_rope_head_dim", "v_head_dim", "index_topk", "index_head_dim"),
)
"""Parts of linear and of latent attention: every reader has them from the classes."""
CLASS_FIELDS = (*WIDTHS, KV_HEADS, HEAD, LENGTH, WINDOW, *PARTS)
"""What tools/config_classes.py records of a class, in this order; and then these two."""
PERIOD, EXPERTS = "full_attention_every", "experts_of_class"
EXPERT_FIELDS = ("num_experts", "moe_num_experts", "n_routed_experts", "num_local_experts")
"""Where vLLM looks for the number of experts (`ModelArchConfigConvertorBase.get_num_experts`)."""

FROM_CLASS = {
    (LENGTH,): (
        *("cohere_asr", "deepseek_v2", "deepseek_v3", "glm4_moe_lite", "glm_moe_dsa", "granite"),
        *("granitemoe", "granitemoehybrid", "hunyuan_v1_dense", "llama", "longcat_flash"),
        *("olmo2", "olmo3", "olmo_hybrid", "phi3", "zamba2"),
    ),
    (LENGTH, KV_HEADS): (
        *("bamba", "ernie4_5_moe", "exaone4", "falcon_h1", "glm4_moe", "jamba", "lfm2"),
        *("lfm2_moe", "minimax", "mixtral", "qwen2", "qwen2_moe", "qwen3_moe", "smollm3"),
        "starcoder2",
    ),
    (LENGTH, KV_HEADS, HEAD): (
        *("ernie4_5", "gemma", "glm4", "minimax_m2", "nemotron_h", "qwen3", "qwen3_5_moe_text"),
        *("qwen3_5_text", "qwen3_next", "seed_oss"),
    ),
    (LENGTH, KV_HEADS, HEAD, WINDOW): ("gemma2", "gpt_oss"),
    (LENGTH, KV_HEADS, HEAD, WINDOW, HEADS): ("gemma3_text", "gemma3n_text", "gemma4_text"),
    (LENGTH, KV_HEADS, HEAD, HEADS): ("llama4_text",),
    (LENGTH, HEAD, WINDOW, HEADS): ("deepseek_v4",),
    (LENGTH, KV_HEADS, WINDOW): ("mistral",),
    (LENGTH, WINDOW): ("cohere2",),
}
"""Fields -> text model_types that have them from their class, as config_classes.json says."""
OMITTED = {name: fields for fields, names in FROM_CLASS.items() for name in names}
WINDOW_UNUSED = {WINDOW: 4096, SLIDES: False}
CONFIG_DEFAULTS: dict[str, Mapping[str, Any]] = {
    # vLLM loads DeepSeek V3's class for both.
    **{name: {LENGTH: 4096} for name in ("deepseek_v32", "kimi_k2")},
    **dict.fromkeys(("qwen2", "qwen2_moe", "qwen3", "qwen3_moe"), WINDOW_UNUSED),
    **{name: {MAMBA_CHUNK: 256} for name in ("bamba", "granitemoehybrid")},
    **{name: {"chunk_size": 256} for name in ("mamba2", "zamba2")},
    "falcon_h1": {"mamba_d_ssm": 1024, MAMBA_CHUNK: 256},
    "gemma3_text": {"vocab_size": 262_208},
    "gemma3n_text": {SHARED: 15},
    "gpt_oss": {ROPE: {"rope_type": "yarn", "factor": 32.0, ORIGINAL: 4096}},
    "llama4_text": {CHUNK: 8192},
    "moondream3": {
        LENGTH: 4096,
        HEADS: 32,
        "hidden_size": 2048,
        "num_hidden_layers": 24,
        "num_local_experts": 64,
    },
    "nemotron_h": {"chunk_size": 128},
    "smollm3": {SLIDES: False},
    "step5": {"max_seq_len": 4096},
    "whisper": {"max_target_positions": 448},
}
"""Text model_type -> field -> value, where that file has none or that of another class."""

WRAPPERS = {
    "bailing_moe_v3_vl": "bailing_hybrid",
    "kimi_k25": "deepseek_v3",
    "kimi_k3": "kimi_linear",
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


def text_type(model_type: object) -> str:
    """Return the model_type of a text configuration that names none, "" where no class says it."""
    return WRAPPERS.get(model_type, "") if isinstance(model_type, str) else ""


def defaults_of(model_type: object) -> Mapping[str, Any]:
    """Return the defaults of a text configuration, none if its class is not known."""
    name = text_type(model_type) or (model_type if isinstance(model_type, str) else "")
    keys = {*PARTS, *OMITTED.get(name, ())}
    of_class = {key: value for key, value in _classes().get(name, {}).items() if key in keys}
    return {**of_class, **CONFIG_DEFAULTS.get(name, {})}


def class_defaults(model_type: str, *, is_nested: bool) -> Mapping[str, Any]:
    """Return the defaults of any configuration class of transformers, for the default reader.

    A part of a multimodal file omits even layers and widths (LLaVA); a whole file does not.
    """
    found = _classes().get(WRAPPERS.get(model_type, model_type), {})
    return {key: value for key, value in found.items() if is_nested or key not in WIDTHS}


@lru_cache(maxsize=1)
def _classes() -> Mapping[str, Mapping[str, Any]]:
    """Return what tools/config_classes.py found, where 0.23 and 0.33 agree."""
    found: Mapping[str, Mapping[str, Any]] = package_data("workbench.models", "config_classes.json")
    return found
