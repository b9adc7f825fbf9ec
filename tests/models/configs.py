"""Small valid config.json objects, one function per family; keyword arguments change fields.

The geometry is entered by hand. A change to None removes the field.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workbench.core.architectures import architecture_of
from workbench.models.family import FAMILIES as READERS

Config = dict[str, Any]


def changed(config: Config, changes: Config) -> Config:
    """A copy with fields replaced, added, or (None) removed, and a class that generates."""
    found = {**config, **changes}
    if "architectures" not in changes and (name := generating(found.get("model_type"))):
        found["architectures"] = [name]
    return {key: value for key, value in found.items() if value is not None}


def generating(model_type: Any) -> str | None:
    """The class that generates under a model type, as its files name it."""
    if model_type in READERS and (names := READERS[model_type].architectures_of(model_type)):
        return names[0]
    return architecture_of(model_type)


def attention(heads: int, kv_heads: int, head_size: int) -> Config:
    """The attention fields that most families share."""
    return {
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_size,
        "hidden_size": heads * head_size,
        "max_position_embeddings": 262144,
        "dtype": "bfloat16",
    }


def nemotron_h(**changes: Any) -> Config:
    """Nemotron-3-Nano-30B-A3B's geometry in four layers."""
    config = {
        **attention(32, 2, 128),
        "model_type": "nemotron_h",
        "hybrid_override_pattern": "ME*-",
        "mamba_num_heads": 64,
        "mamba_head_dim": 64,
        "n_groups": 8,
        "ssm_state_size": 128,
        "conv_kernel": 4,
        "chunk_size": 128,
    }
    return changed(config, changes)


def bamba(**changes: Any) -> Config:
    """Bamba-9B's geometry in three layers."""
    config = {
        **attention(32, 8, 128),
        "model_type": "bamba",
        "num_hidden_layers": 3,
        "attn_layer_indices": [1],
        "mamba_expand": 2,
        "mamba_n_heads": 128,
        "mamba_d_head": 64,
        "mamba_n_groups": 1,
        "mamba_d_state": 128,
        "mamba_d_conv": 4,
        "mamba_chunk_size": 256,
    }
    return changed(config, changes)


def granitemoehybrid(**changes: Any) -> Config:
    """Granite-4.0-H-Small's geometry in three layers."""
    config = {
        **bamba(attn_layer_indices=None),
        "model_type": "granitemoehybrid",
        "layer_types": ["mamba", "attention", "mamba"],
    }
    return changed(config, changes)


def falcon_h1(**changes: Any) -> Config:
    """A Falcon-H1 whose state is wider than expand * hidden."""
    config = {
        **attention(12, 2, 128),
        "model_type": "falcon_h1",
        "num_hidden_layers": 2,
        "mamba_d_ssm": 3072,
        "mamba_expand": 2,
        "mamba_n_heads": 24,
        "mamba_d_head": 128,
        "mamba_n_groups": 1,
        "mamba_d_state": 256,
        "mamba_d_conv": 4,
        "mamba_chunk_size": 128,
    }
    return changed(config, changes)


def zamba2(**changes: Any) -> Config:
    """Zamba2's shape: a shared attention block before some mamba layers."""
    config = {
        "model_type": "zamba2",
        "num_attention_heads": 32,
        "num_key_value_heads": 32,
        "hidden_size": 2560,
        "max_position_embeddings": 4096,
        "dtype": "bfloat16",
        "num_hidden_layers": 3,
        "layers_block_type": ["mamba", "hybrid", "mamba"],
        "mamba_expand": 2,
        "n_mamba_heads": 80,
        "mamba_ngroups": 2,
        "mamba_d_state": 64,
        "mamba_d_conv": 4,
        "chunk_size": 256,
    }
    return changed(config, changes)


def plamo2(**changes: Any) -> Config:
    """PLaMo-2-1B's geometry in four layers."""
    config = {
        "model_type": "plamo2",
        "num_attention_heads": 32,
        "num_key_value_heads": 4,
        "hidden_size": 2048,
        "hidden_size_per_head": 128,
        "max_position_embeddings": 10485760,
        "dtype": "bfloat16",
        "num_hidden_layers": 4,
        "mamba_step": 2,
        "mamba_num_heads": 32,
        "mamba_d_state": 64,
        "mamba_d_conv": 4,
        "mamba_chunk_size": 256,
    }
    return changed(config, changes)


def jamba(**changes: Any) -> Config:
    """Jamba-mini's geometry in eight layers."""
    config = {
        **attention(32, 8, 128),
        "model_type": "jamba",
        "num_hidden_layers": 8,
        "attn_layer_period": 8,
        "attn_layer_offset": 4,
        "mamba_expand": 2,
        "mamba_d_state": 16,
        "mamba_d_conv": 4,
    }
    return changed(config, changes)


def mamba(**changes: Any) -> Config:
    """A pure Mamba-1 model."""
    config = {
        "model_type": "mamba",
        "num_hidden_layers": 2,
        "hidden_size": 2560,
        "intermediate_size": 5120,
        "state_size": 16,
        "conv_kernel": 4,
        "dtype": "bfloat16",
    }
    return changed(config, changes)


def mamba2(**changes: Any) -> Config:
    """Mamba-Codestral-7B's geometry in two layers."""
    config = {
        "model_type": "mamba2",
        "num_hidden_layers": 2,
        "hidden_size": 4096,
        "expand": 2,
        "num_heads": 128,
        "head_dim": 64,
        "n_groups": 8,
        "state_size": 128,
        "conv_kernel": 4,
        "chunk_size": 256,
        "dtype": "bfloat16",
    }
    return changed(config, changes)


def lfm2(**changes: Any) -> Config:
    """LFM2-1.2B's geometry in three layers."""
    config = {
        **attention(32, 8, 64),
        "model_type": "lfm2",
        "num_hidden_layers": 3,
        "layer_types": ["conv", "full_attention", "conv"],
        "conv_dim": 2048,
        "conv_L_cache": 3,
    }
    return changed(config, changes)


def lfm2_moe(**changes: Any) -> Config:
    """LFM2-8B-A1B's geometry in three layers."""
    return changed({**lfm2(conv_dim=None), "model_type": "lfm2_moe"}, changes)


def qwen3_next(**changes: Any) -> Config:
    """Qwen3-Next-80B-A3B's geometry in eight layers."""
    config = {
        **attention(16, 2, 256),
        "model_type": "qwen3_next",
        "num_hidden_layers": 8,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 32,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4,
    }
    return changed(config, changes)


def qwen3_5(*, kv_heads: int = 4, value_heads: int = 32, **changes: Any) -> Config:
    """Qwen3.5-4B's geometry in eight layers, under `text_config` as it ships."""
    text = {
        **qwen3_next(),
        "model_type": "qwen3_5_text",
        "num_key_value_heads": kv_heads,
        "linear_num_value_heads": value_heads,
        "mamba_ssm_dtype": "float32",
    }
    text = changed(text, {"architectures": None, **changes})
    return changed({"model_type": "qwen3_5", "text_config": text}, {})


def olmo_hybrid(**changes: Any) -> Config:
    """An OLMo-Hybrid with every dimension of its delta nets given."""
    config = {
        **qwen3_next(head_dim=None),
        "num_attention_heads": 32,
        "num_key_value_heads": 32,
        "hidden_size": 4096,
        "model_type": "olmo_hybrid",
        "layer_types": ["linear_attention"] * 3 + ["full_attention"],
        "num_hidden_layers": 4,
    }
    return changed(config, changes)


def kimi_linear(**changes: Any) -> Config:
    """Kimi-Linear-48B-A3B's geometry in four layers; its `head_dim` is not what is cached."""
    config = {
        **attention(32, 32, 72),
        "model_type": "kimi_linear",
        "num_hidden_layers": 4,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "qk_nope_head_dim": 128,
        "v_head_dim": 128,
        "linear_attn_config": {
            "kda_layers": [1, 2, 3],
            "full_attn_layers": [4],
            "num_heads": 32,
            "head_dim": 128,
            "short_conv_kernel_size": 4,
        },
    }
    return changed(config, changes)


def minimax_text_01(**changes: Any) -> Config:
    """MiniMax-Text-01's geometry in four layers."""
    config = {
        **attention(64, 8, 128),
        "model_type": "minimax_text_01",
        "num_hidden_layers": 4,
        "attn_type_list": [0, 0, 0, 1],
    }
    return changed(config, changes)


def bailing_hybrid(**changes: Any) -> Config:
    """A Bailing hybrid: linear attention, and MLA in every fourth layer."""
    config = {
        **attention(32, 32, 128),
        "model_type": "bailing_hybrid",
        "num_hidden_layers": 4,
        "layer_group_size": 4,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "qk_nope_head_dim": 128,
        "v_head_dim": 128,
    }
    return changed(config, changes)


def llama(**changes: Any) -> Config:
    """Llama-3.1-8B's geometry in two layers."""
    config = {**attention(32, 8, 128), "model_type": "llama", "num_hidden_layers": 2}
    return changed(config, changes)


def nemotron_nas(**changes: Any) -> Config:
    """A searched architecture in four blocks: 8, no, 4 and 1 KV heads."""
    groups = (4, None, 8, 32)
    config = {
        **attention(32, 8, 128),
        "model_type": "nemotron-nas",
        "num_hidden_layers": 4,
        "num_key_value_heads": None,
        "block_configs": [
            {"attention": {"no_op": group is None, "n_heads_in_group": group}, "ffn": {}}
            for group in groups
        ],
    }
    return changed(config, changes)


def gpt_oss(**changes: Any) -> Config:
    """gpt-oss's geometry in four layers: sinks, every other layer slides."""
    config = {
        **attention(64, 8, 64),
        "model_type": "gpt_oss",
        "num_hidden_layers": 4,
        "sliding_window": 128,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
    }
    return changed(config, changes)


def gemma3(**changes: Any) -> Config:
    """Gemma-3-27B's geometry in six layers, under `text_config`."""
    text = {
        **attention(32, 16, 128),
        "model_type": "gemma3_text",
        "num_hidden_layers": 6,
        "sliding_window": 1024,
    }
    text = changed(text, {"architectures": None, **changes})
    return changed({"model_type": "gemma3", "text_config": text}, {})


def deepseek_v3(**changes: Any) -> Config:
    """DeepSeek-V3's cache geometry in two layers."""
    config = {
        **attention(128, 128, 56),
        "model_type": "deepseek_v3",
        "num_hidden_layers": 2,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "qk_nope_head_dim": 128,
        "v_head_dim": 128,
    }
    return changed(config, changes)


def inkling(**changes: Any) -> Config:
    """Inkling's geometry in two layers, the first one with a window."""
    config = {
        **attention(64, 8, 128),
        "model_type": "inkling_model",
        "hidden_size": 6144,
        "num_hidden_layers": 2,
        "swa_num_key_value_heads": 16,
        "swa_head_dim": 128,
        "sliding_window_size": 512,
        "local_layer_ids": [0],
        "sconv_kernel_size": 4,
    }
    return changed(config, changes)


FAMILIES: dict[str, Callable[..., Config]] = {
    builder.__name__: builder
    for builder in (
        nemotron_h,
        bamba,
        granitemoehybrid,
        falcon_h1,
        zamba2,
        plamo2,
        jamba,
        mamba,
        mamba2,
        lfm2,
        lfm2_moe,
        qwen3_next,
        qwen3_5,
        olmo_hybrid,
        kimi_linear,
        minimax_text_01,
        bailing_hybrid,
        llama,
        gpt_oss,
        gemma3,
        deepseek_v3,
    )
}
"""Family -> its builder."""
