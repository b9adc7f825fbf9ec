"""Lightning attention: MiniMax-Text-01 and its relatives, and Bailing's hybrids with MLA."""

from __future__ import annotations

from dataclasses import replace

from workbench.core.model import FULL, SSM, Layer
from workbench.core.states import LinearAttention
from workbench.models.family import Family, register
from workbench.models.fields import Fields
from workbench.models.layer_lists import first_list, to_layers

NUMBERS: dict[object, str] = {0: SSM, 1: FULL}
WORDS: dict[object, str] = {"linear_attention": SSM, "full_attention": FULL}


def _layers(fields: Fields) -> tuple[Layer, ...]:
    kinds = first_list(fields, ("attn_type_list", "decoder_attention_types"), NUMBERS)
    if kinds is None:
        kinds = first_list(fields, ("layer_types",), WORDS)
    return to_layers([FULL] * fields.layer_count() if kinds is None else kinds)


def _library_layers(fields: Fields) -> tuple[Layer, ...]:
    """Return transformers' default for an absent list: even layers full, odd ones linear."""
    listed = ("attn_type_list", "decoder_attention_types", "layer_types")
    if any(fields.has(key) for key in listed):
        return _layers(fields)
    count = fields.layer_count()
    return to_layers([SSM if index % 2 else FULL for index in range(count)])


def _bailing_layers(fields: Fields) -> tuple[Layer, ...]:
    size = fields.integer("layer_group_size", 1, minimum=-1)
    count = fields.layer_count()
    full = [size <= 0 or (index + 1) % size == 0 for index in range(count)]
    return to_layers([FULL if is_full else SSM for is_full in full])


def _state(fields: Fields) -> LinearAttention:
    return LinearAttention(
        fields.integer("num_attention_heads", name="linear_num_heads"),
        fields.integer("head_dim", name="linear_head_dim"),
    )


def _head_or_share(fields: Fields) -> LinearAttention:
    heads = fields.integer("num_attention_heads", name="linear_num_heads")
    if fields.has("head_dim"):
        return LinearAttention(heads, fields.integer("head_dim", name="linear_head_dim"))
    size = fields.integer("hidden_size") // heads
    fields.note("linear_head_dim", size, "hidden_size // num_attention_heads")
    return LinearAttention(heads, size)


def _bailing_state(fields: Fields) -> LinearAttention:
    return replace(
        _head_or_share(fields), mla_head_dim=fields.integer("qk_rope_head_dim", 64, name="mla_head")
    )


register(
    Family(
        "minimax_text_01",
        model_types={
            "minimax_text_01": ("MiniMaxText01ForCausalLM",),
            "minimax_m1": ("MiniMaxM1ForCausalLM",),
        },
        layers=_layers,
        state=_state,
    ),
    Family(
        "minimax",
        model_types={"minimax": ("MiniMaxForCausalLM",)},
        layers=_library_layers,
        state=_head_or_share,
    ),
    Family(
        "bailing_hybrid",
        # Ling 3 (BailingMoeV3ForCausalLM) has the same model_type and Kimi delta attention.
        model_types={"bailing_hybrid": ("BailingMoeV2_5ForCausalLM",)},
        layers=_bailing_layers,
        state=_bailing_state,
        names_attention_layers=False,
    ),
)
