"""MiMo-V2: values narrower than keys, and sliding layers with heads of their own.

Sources: `MiMoV2FlashDecoderLayer` of 0.23 and 0.33.
"""

from dataclasses import replace

from workbench.core.model import FULL, SLIDING, Attention, Layer
from workbench.models.attention import read_attention
from workbench.models.family import register
from workbench.models.fields import Fields
from workbench.models.layer_lists import Words, first_list

PATTERN: Words = {0: FULL, 1: SLIDING}
VALUES, OF_WINDOWS = "v_head_dim", "swa_"


def _attention(fields: Fields) -> Attention:
    whole = replace(read_attention(fields), window_tokens=fields.integer("sliding_window_size"))
    size = fields.integer(VALUES, whole.head_size)
    has_windows = SLIDING in _kinds(fields)
    for key, own in ((OF_WINDOWS + VALUES, size), (OF_WINDOWS + "head_dim", whole.head_size)):
        if has_windows and fields.integer(key, own) != own:
            raise fields.contradiction(key, f"sliding layers with other heads than the {own} here")
    return replace(
        whole,
        value_head_size=None if size == whole.head_size else size,
        has_sinks=has_windows and fields.raw("add_swa_attention_sink_bias") is True,
    )


def _kinds(fields: Fields) -> tuple[str, ...]:
    kinds = first_list(fields, {"hybrid_layer_pattern": PATTERN})
    if kinds is None:
        raise fields.missing("hybrid_layer_pattern", "the kinds of layers")
    return kinds


def _layers(fields: Fields) -> tuple[Layer, ...]:
    heads = read_attention(fields).num_kv_heads
    own = fields.integer("swa_num_key_value_heads", heads)
    return tuple(
        Layer(number=at, kind=kind, num_kv_heads=own if kind == SLIDING and own != heads else None)
        for at, kind in enumerate(_kinds(fields))
    )


_NAMES = tuple(f"MiMoV2{name}ForCausalLM" for name in ("Flash", "", "Omni"))
register(
    "narrow_values",
    dict.fromkeys(("mimo_v2", "mimo_v2_flash", "mimo_v2_omni"), _NAMES),
    _layers,
    attention=_attention,
    is_hybrid=False,
)
