"""Families with gated delta nets: Qwen3-Next, Qwen3.5 and OLMo-Hybrid."""

from __future__ import annotations

from workbench.core.dtypes import FLOAT_BYTES
from workbench.core.model import FULL, SSM, Layer
from workbench.core.states import GatedDeltaNet
from workbench.models.family import Family, register
from workbench.models.fields import Fields
from workbench.models.layer_lists import first_list, to_layers

WORDS: dict[object, str] = {"linear_attention": SSM, "full_attention": FULL}
FIXED_INTERVAL = 4


def _every(fields: Fields, interval: int) -> tuple[Layer, ...]:
    count = fields.layer_count()
    return to_layers([SSM if (index + 1) % interval else FULL for index in range(count)])


def _next_layers(fields: Fields) -> tuple[Layer, ...]:
    """Without a list vLLM 0.23 takes every fourth layer, whatever the interval field says."""
    kinds = first_list(fields, ("layer_types",), WORDS)
    return _every(fields, FIXED_INTERVAL) if kinds is None else to_layers(kinds)


def _layers(fields: Fields) -> tuple[Layer, ...]:
    kinds = first_list(fields, ("layer_types",), WORDS)
    if kinds is not None:
        return to_layers(kinds)
    return _every(fields, fields.integer("full_attention_interval", FIXED_INTERVAL))


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
    Family("qwen3_next", ("qwen3_next",), _next_layers, _state),
    Family(
        "qwen3_5",
        ("qwen3_5", "qwen3_5_moe", "qwen3_5_text", "qwen3_5_moe_text"),
        _layers,
        _state,
        ssm_cache_dtype=_ssm_cache_dtype,
    ),
    Family("olmo_hybrid", ("olmo_hybrid",), _layers, _state),
)
