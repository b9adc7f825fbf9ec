"""Defaults of configuration classes for fields that config.json omits.

From the classes that vLLM 0.23 and 0.33 load (transformers 5 and their own), which agree; those
that follow from other fields are not among them. Of whole files layers and widths are required,
except of Moondream.
Null does not count as omitted.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from workbench.core.package_data import package_data

LENGTH, KV_HEADS, WINDOW = "max_position_embeddings", "num_key_value_heads", "sliding_window"
HEADS, HEAD, ROPE = "num_attention_heads", "head_dim", "rope_parameters"
SLIDES, FIRST_WINDOW = "use_sliding_window", "max_window_layers"
MAMBA_CHUNK = "mamba_chunk_size"
SHARED, CHUNK = "num_kv_shared_layers", "attention_chunk_size"
ORIGINAL = "original_max_position_embeddings"
WIDTHS = ("num_hidden_layers", HEADS, "hidden_size", "intermediate_size", "vocab_size")
PARTS = (
    *("linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim"),
    *("linear_value_head_dim", "linear_conv_kernel_dim", "kv_lora_rank", "qk_nope_head_dim"),
    *("q_lora_rank", "qk_rope_head_dim", "v_head_dim", "index_topk", "index_head_dim"),
)
"""Parts of linear and of latent attention."""
CLASS_FIELDS = (*WIDTHS, KV_HEADS, HEAD, LENGTH, WINDOW, *PARTS)
"""What tools/config_classes.py records of a class, in this order; and then these two."""
PERIOD, EXPERTS = "full_attention_every", "experts_of_class"
EXPERT_FIELDS = ("num_experts", "moe_num_experts", "n_routed_experts", "num_local_experts")
"""Where vLLM looks for the number of experts (`ModelArchConfigConvertorBase.get_num_experts`)."""

TAKES_SWITCH = frozenset(
    {
        *("qwen2", "qwen2_moe", "qwen2_vl_text", "qwen2_5_vl_text", "qwen2_5_omni_text"),
        *("qwen2_5_omni_talker", "qwen3", "qwen3_moe", "deepseek_ocr2_encoder", "smollm3"),
    }
)
"""model_types whose class takes the window away where `use_sliding_window` is false; to the other
classes it means nothing, and of code in a checkpoint it is taken for granted."""
WINDOW_UNUSED = {WINDOW: 4096, SLIDES: False}
CONFIG_DEFAULTS: dict[str, Mapping[str, Any]] = {
    # vLLM loads DeepSeek V3's class for both.
    **{name: {LENGTH: 4096} for name in ("deepseek_v32", "kimi_k2")},
    **dict.fromkeys(("qwen2_moe", "qwen3_moe"), WINDOW_UNUSED),
    **{name: {**WINDOW_UNUSED, FIRST_WINDOW: 28} for name in ("qwen2", "qwen3")},
    **{name: {FIRST_WINDOW: 80} for name in ("qwen2_vl_text", "qwen2_5_vl_text")},
    "qwen2_5_omni_text": {FIRST_WINDOW: 28},
    "dots1": {FIRST_WINDOW: 62},
    "ernie4_5_moe": {"moe_num_shared_experts": 2},
    "muse_glimmer_assistant": {"vocab_size": 202_048},
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
        "vocab_size": 51_200,
    },
    "nemotron_h": {"chunk_size": 128},
    "smollm3": {SLIDES: False},
    "step5": {"max_seq_len": 4096},
    "whisper": {"max_target_positions": 448},
}
"""Text model_type -> field -> value, where that file has none or that of another class."""
BY_RELEASE = {"kimi_linear": (LENGTH, 4096), "step3p5": ("max_seq_len", 4096)}
"""model_type -> a length field, and what its class has for it in some releases only."""
WITHOUT_HEADS = ("deepseek_v4", "gemma3_text", "gemma3n_text", "gemma4_text", "llama4_text")
"""Text model_types of which whole files omit even the heads."""

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
    "qwen2_vl": "qwen2_vl_text",
    "qwen2_5_vl": "qwen2_5_vl_text",
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


def defaults_of(model_type: str, *, is_nested: bool) -> Mapping[str, Any]:
    """Return the defaults of a text configuration, none if its class is not known.

    A part of a multimodal file omits even layers and widths (LLaVA); a whole file does not.
    """
    name = WRAPPERS.get(model_type, model_type)
    of_class = _classes().get(name, {}).items()
    unset = {BY_RELEASE.get(name, ("",))[0], *(() if is_nested else WIDTHS)}
    unset -= {HEADS} if name in WITHOUT_HEADS else set()
    omitted = {key: value for key, value in of_class if key not in unset}
    return {**omitted, **CONFIG_DEFAULTS.get(name, {})}


def takes_switch(model_type: str) -> bool:
    """Return whether `use_sliding_window` means something in a file of this type."""
    return model_type in TAKES_SWITCH or model_type not in _classes()


@lru_cache(maxsize=1)
def _classes() -> Mapping[str, Mapping[str, Any]]:
    """Return what tools/config_classes.py found, where 0.23 and 0.33 agree."""
    found: Mapping[str, Mapping[str, Any]] = package_data("workbench.models", "config_classes.json")
    return found
