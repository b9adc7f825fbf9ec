"""LFM2: short convolutions and attention; the conv width comes from another field with MoE."""

from __future__ import annotations

from workbench.core.model import FULL, SSM, Layer
from workbench.core.states import ShortConv
from workbench.models.family import Family, register
from workbench.models.fields import Fields
from workbench.models.layer_lists import first_list, to_layers

WORDS: dict[object, str] = {"conv": SSM, "full_attention": FULL}


def _layers(fields: Fields) -> tuple[Layer, ...]:
    kinds = first_list(fields, ("layer_types",), WORDS)
    if kinds is not None:
        return to_layers(kinds)
    count = fields.layer_count()
    attention = fields.index_list("full_attn_idxs", count)
    if attention is None:
        attention = frozenset(range(count))
    return to_layers([FULL if index in attention else SSM for index in range(count)])


def _listed_layers(fields: Fields) -> tuple[Layer, ...]:
    kinds = first_list(fields, ("layer_types",), WORDS)
    if kinds is None:
        raise fields.missing("layer_types", "the kinds of layers")
    return to_layers(kinds)


def _dense_state(fields: Fields) -> ShortConv:
    return ShortConv(fields.integer("conv_dim"), fields.integer("conv_L_cache", 3))


def _wide_state(fields: Fields) -> ShortConv:
    width = fields.integer("hidden_size", name="conv_dim")
    return ShortConv(width, fields.integer("conv_L_cache", 3))


register(
    Family("lfm2", model_types={"lfm2": ("Lfm2ForCausalLM",)}, layers=_layers, state=_dense_state),
    Family(
        "lfm2_moe",
        model_types={"lfm2_moe": ("Lfm2MoeForCausalLM",)},
        layers=_listed_layers,
        state=_wide_state,
    ),
    Family(
        "lfm2_vl",
        model_types={
            "lfm2_vl": ("Lfm2VlForConditionalGeneration",),
            "lfm2-vl": ("Lfm2VlForConditionalGeneration",),
        },
        layers=_layers,
        state=_wide_state,
    ),
)
