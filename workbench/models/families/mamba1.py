"""Families with Mamba-1 layers: Jamba, and the pure Mamba and Falcon-Mamba."""

from __future__ import annotations

from workbench.core.model import FULL, SSM, Layer
from workbench.core.states import Mamba1
from workbench.models.family import Family, register
from workbench.models.fields import Fields
from workbench.models.layer_lists import ssm_everywhere, to_layers


def _jamba_layers(fields: Fields) -> tuple[Layer, ...]:
    period = fields.integer("attn_layer_period", 8)
    offset = fields.integer("attn_layer_offset", 4, minimum=0)
    if offset >= period:
        raise fields.contradiction(
            "attn_layer_offset", f"{offset} never occurs in a period of {period} layers"
        )
    count = fields.layer_count()
    return to_layers([FULL if index % period == offset else SSM for index in range(count)])


def _jamba_state(fields: Fields) -> Mamba1:
    inner = int(fields.number("mamba_expand", 2) * fields.integer("hidden_size"))
    fields.note("intermediate_size", inner, "mamba_expand * hidden_size")
    return Mamba1(
        intermediate_size=inner,
        state_size=fields.integer("mamba_d_state", 16),
        conv_kernel=fields.integer("mamba_d_conv", 4),
    )


def _pure_state(fields: Fields) -> Mamba1:
    return Mamba1(
        intermediate_size=fields.integer("intermediate_size"),
        state_size=fields.integer("state_size", 16),
        conv_kernel=fields.integer("conv_kernel", 4),
    )


register(
    Family(
        "jamba",
        model_types={"jamba": ("JambaForCausalLM",)},
        layers=_jamba_layers,
        state=_jamba_state,
        supports_all_mode=True,
    ),
    Family(
        "mamba",
        model_types={"mamba": ("MambaForCausalLM",), "falcon_mamba": ("FalconMambaForCausalLM",)},
        layers=ssm_everywhere,
        state=_pure_state,
        attention=lambda _fields: None,
        is_hybrid=False,
        is_attention_free=True,
        supports_all_mode=True,
    ),
)
