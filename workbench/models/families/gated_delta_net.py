"""Families with gated delta nets: Qwen3-Next, Qwen3.5 and OLMo-Hybrid."""

from __future__ import annotations

from dataclasses import replace

from workbench.core.dtypes import FLOAT_BYTES
from workbench.core.model import FULL, SSM, Attention, Layer
from workbench.core.states import GatedDeltaNet
from workbench.models.attention import read_attention
from workbench.models.family import Family, register
from workbench.models.fields import Fields
from workbench.models.layer_lists import first_list, to_layers

WORDS: dict[object, str] = {"linear_attention": SSM, "full_attention": FULL}
FIXED_INTERVAL = 4


def _every(fields: Fields, interval: int) -> tuple[Layer, ...]:
    count = fields.layer_count()
    return to_layers([SSM if (index + 1) % interval else FULL for index in range(count)])


def _next_layers(fields: Fields) -> tuple[Layer, ...]:
    """Return every fourth layer without a list, as vLLM 0.23 does, whatever the interval says."""
    kinds = first_list(fields, ("layer_types",), WORDS)
    return _every(fields, FIXED_INTERVAL) if kinds is None else to_layers(kinds)


def _layers(fields: Fields) -> tuple[Layer, ...]:
    kinds = first_list(fields, ("layer_types",), WORDS)
    if kinds is not None:
        return to_layers(kinds)
    return _every(fields, fields.integer("full_attention_interval", FIXED_INTERVAL))


def _olmo_layers(fields: Fields) -> tuple[Layer, ...]:
    """Return every fourth layer as full without a list, and the last one if there is none."""
    kinds = first_list(fields, ("layer_types",), WORDS)
    layers = _every(fields, FIXED_INTERVAL) if kinds is None else to_layers(kinds)
    if kinds is None and all(layer.kind == SSM for layer in layers):
        layers = (*layers[:-1], Layer(layers[-1].number, FULL))
    if len({layer.kind for layer in layers}) == 1:
        raise fields.contradiction("layer_types", "both kinds of layers are needed")
    return layers


def _olmo_state(fields: Fields) -> GatedDeltaNet:
    """Compute absent dimensions: heads as in attention, keys 3/4 of a head, values twice."""
    heads = fields.integer("num_attention_heads")
    key_heads = fields.integer("linear_num_key_heads", heads)
    key_dim = int(0.75 * fields.integer("hidden_size") / key_heads)
    return GatedDeltaNet(
        num_key_heads=key_heads,
        num_value_heads=fields.integer("linear_num_value_heads", heads),
        key_head_dim=fields.integer("linear_key_head_dim", key_dim),
        value_head_dim=fields.integer(
            "linear_value_head_dim", 2 * fields.integer("linear_key_head_dim", key_dim)
        ),
        conv_kernel=fields.integer("linear_conv_kernel_dim", 4),
    )


def _olmo_attention(fields: Fields) -> Attention:
    """Return the attention geometry; a head_dim in the file is not read."""
    attention = read_attention(fields)
    size = fields.integer("hidden_size") // attention.num_heads
    fields.note("head_size", size, "hidden_size // num_attention_heads")
    return replace(attention, head_size=size)


def _state(fields: Fields) -> GatedDeltaNet:
    return GatedDeltaNet(
        num_key_heads=fields.integer("linear_num_key_heads"),
        num_value_heads=fields.integer("linear_num_value_heads"),
        key_head_dim=fields.integer("linear_key_head_dim", 128),
        value_head_dim=fields.integer("linear_value_head_dim", 128),
        conv_kernel=fields.integer("linear_conv_kernel_dim", 4),
    )


def _ssm_cache_dtype(fields: Fields) -> str | None:
    return fields.word("mamba_ssm_dtype", tuple(FLOAT_BYTES), name="mamba_ssm_cache_dtype")


register(
    Family(
        "qwen3_next",
        model_types={"qwen3_next": ("Qwen3NextForCausalLM",)},
        layers=_next_layers,
        state=_state,
    ),
    Family(
        "qwen3_5",
        model_types={
            "qwen3_5": ("Qwen3_5ForConditionalGeneration",),
            "qwen3_5_moe": ("Qwen3_5MoeForConditionalGeneration",),
            "qwen3_5_text": ("Qwen3_5ForCausalLM",),
            "qwen3_5_moe_text": ("Qwen3_5MoeForCausalLM",),
        },
        layers=_layers,
        state=_state,
        ssm_cache_dtype=_ssm_cache_dtype,
    ),
    Family(
        "olmo_hybrid",
        model_types={"olmo_hybrid": ("OlmoHybridForCausalLM",)},
        layers=_olmo_layers,
        state=_olmo_state,
        attention=_olmo_attention,
    ),
)
