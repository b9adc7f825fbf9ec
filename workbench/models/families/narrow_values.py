"""MiMo-V2: values narrower than keys, and sliding layers with heads of their own.

Sources: `MiMoV2FlashDecoderLayer` of 0.23 and 0.33.
"""

from dataclasses import replace

from workbench.core.draft_parts import Mtp
from workbench.core.model import FULL, SLIDING, Attention, Layer
from workbench.models.attention import read_attention
from workbench.models.family import register
from workbench.models.fields import Fields
from workbench.models.layer_lists import Words, first_list
from workbench.models.mtp import READERS

PATTERN: Words = {0: FULL, 1: SLIDING}
VALUES, OF_WINDOWS = "v_head_dim", "swa_"


def _attention(fields: Fields) -> Attention:
    whole = replace(read_attention(fields), window_tokens=fields.integer("sliding_window_size"))
    sizes = {kind: _sizes(fields, kind) for kind in dict.fromkeys((FULL, *_kinds(fields)))}
    values = {None if value == size else value for size, value in sizes.values()}
    has_sinks = SLIDING in sizes and fields.raw("add_swa_attention_sink_bias") is True
    # Only windows have sinks: backends of ordinary heads are chosen with and without them.
    if len(values) > 1 or (has_sinks and values == {None}):
        what = f"sliding layers have keys and values of {sizes[SLIDING]} elements; the others have"
        what += f" {sizes[FULL]}. Give both kinds equal values, narrower than the keys of both"
        what += ", or set add_swa_attention_sink_bias to false" if len(values) == 1 else ""
        raise fields.contradiction(OF_WINDOWS + VALUES, what)
    return replace(whole, value_head_size=values.pop(), hides_own_heads=True, has_sinks=has_sinks)


def _sizes(fields: Fields, kind: str) -> tuple[int, int]:
    """Return the elements of a key and of a value of the layers of one kind."""
    size = read_attention(fields).head_size
    values = fields.integer(VALUES, size)
    if kind == FULL:
        return size, values
    return fields.integer(OF_WINDOWS + "head_dim", size), fields.integer(
        OF_WINDOWS + VALUES, values
    )


def _kinds(fields: Fields) -> tuple[str, ...]:
    kinds = first_list(fields, {"hybrid_layer_pattern": PATTERN})
    if kinds is None:
        raise fields.missing("hybrid_layer_pattern", "the kinds of layers")
    return kinds


def _layer(fields: Fields, kind: str) -> Layer:
    whole, size = read_attention(fields), _sizes(fields, kind)[0]
    own = fields.integer("swa_num_key_value_heads", whole.num_kv_heads)
    return Layer(
        number=0,
        kind=kind,
        num_kv_heads=own if kind == SLIDING and own != whole.num_kv_heads else None,
        head_size=None if size == whole.head_size else size,
    )


def _layers(fields: Fields) -> tuple[Layer, ...]:
    layers = {kind: _layer(fields, kind) for kind in PATTERN.values()}
    return tuple(layers[kind]._replace(number=at) for at, kind in enumerate(_kinds(fields)))


def _mtp(fields: Fields, model_type: str, first: int) -> Mtp:
    """Return one sliding layer, whatever number is declared (`_MIMO_V2_FLASH_NUM_MTP_LAYERS`)."""
    layer = _layer(fields, SLIDING)._replace(number=first)
    return Mtp(model_type=model_type, layers=(layer,), first_index=0, predictions=1)


_NAMES = tuple(f"MiMoV2{name}ForCausalLM" for name in ("Flash", "", "Omni"))
register(
    "narrow_values",
    dict.fromkeys(("mimo_v2", "mimo_v2_flash", "mimo_v2_omni"), _NAMES),
    _layers,
    attention=_attention,
)
READERS |= dict.fromkeys(_NAMES, _mtp)
