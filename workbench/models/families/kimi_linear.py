"""Kimi-Linear: Kimi delta attention beside MLA, both listed with indexes that start at 1."""

from __future__ import annotations

from workbench.core.model import FULL, SSM, Layer
from workbench.core.states import KimiDeltaAttention
from workbench.models.family import Family, register
from workbench.models.fields import Fields
from workbench.models.layer_lists import to_layers


def _layers(fields: Fields) -> tuple[Layer, ...]:
    count = fields.layer_count()
    linear = fields.child("linear_attn_config")
    delta = linear.index_list("kda_layers", count, first=1)
    if delta is None:
        raise linear.missing("kda_layers", "the kinds of layers")
    full = linear.index_list("full_attn_layers", count, first=1)
    if full is not None and (full & delta or len(full | delta) != count):
        raise linear.contradiction(
            "full_attn_layers", f"with kda_layers it must name each of the {count} layers once"
        )
    return to_layers([SSM if index in delta else FULL for index in range(count)])


def _state(fields: Fields) -> KimiDeltaAttention:
    linear = fields.child("linear_attn_config")
    return KimiDeltaAttention(
        num_heads=linear.integer("num_heads", name="kda_num_heads"),
        head_dim=linear.integer("head_dim", name="kda_head_dim"),
        conv_kernel=linear.integer("short_conv_kernel_size", 4),
    )


register(
    Family(
        "kimi_linear",
        {"kimi_linear": ("KimiLinearForCausalLM",)},
        _layers,
        _state,
        names_attention_layers=False,
    )
)
