"""Decoders that also cache an encoder's keys and values: Whisper, Cohere's ASR, FireRedLID, Parse.

Sources: `whisper.py`, `cohere_asr.py` and `nemotron_parse.py` of 0.23 and 0.33, `fireredlid.py` of
0.23, `nemotron_parse3_5.py` of 0.33, whose decoder reads the encoder as a part of its prompt; the
defaults are those of the configuration classes.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from workbench.core.model import CROSS, FULL, SLIDING, Attention, Layer
from workbench.models.attention import has_window
from workbench.models.config_defaults import WINDOW
from workbench.models.family import register
from workbench.models.fields import MAX_INTEGER, MAX_LAYERS, Fields
from workbench.models.listed import listed_name

PREFIX = "RadioMBartPrefixForCausalLM"
"""The class without cross attention."""


class Names(NamedTuple):
    """What a configuration calls the decoder's layers, heads and width, with defaults if any."""

    layers: tuple[str, int | None]
    heads: tuple[str, int | None]
    width: tuple[str, int | None]
    place: tuple[str, ...] = ()
    """Keys of the object that has them."""


def _place(fields: Fields, names: Names) -> Fields:
    for key in names.place:
        fields = fields.child(key)
    return fields


def _read(fields: Fields, field: tuple[str, int | None], maximum: int = MAX_INTEGER) -> int:
    key, default = field
    if default is None:
        return fields.integer(key, maximum=maximum)
    return fields.integer(key, default, maximum=maximum)


def _layers(names: Names) -> Callable[[Fields], tuple[Layer, ...]]:
    """Return a reader of layers that attend to the tokens, then to the encoder."""

    def read(fields: Fields) -> tuple[Layer, ...]:
        count = _read(_place(fields, names), names.layers, MAX_LAYERS)
        # CacheConfig.sliding_window is that of every layer of the decoder, 0.23 and 0.33
        own = SLIDING if has_window(fields) else FULL
        kinds = (own,) if listed_name(fields.top, "") == PREFIX else (own, CROSS)
        return tuple(Layer(number=number, kind=kind) for number in range(count) for kind in kinds)

    return read


def _attention(names: Names) -> Callable[[Fields], Attention]:
    """Return a reader of heads: as many for keys as for queries, over the width of the decoder."""

    def read(fields: Fields) -> Attention:
        place = _place(fields, names)
        heads, width = _read(place, names.heads), _read(place, names.width)
        if width % heads:
            raise place.contradiction(names.width[0], f"{width} elements for {heads} heads")
        place.note("head_size", width // heads, f"{names.width[0]} // {names.heads[0]}")
        shared = place.integer("self_attention_kv_heads", heads, name="num_kv_heads")
        whole = listed_name(fields.top, "") != PREFIX
        return Attention(
            num_heads=heads,
            num_kv_heads=heads if whole else shared,
            head_size=width // heads,
            window_tokens=fields.integer(WINDOW) if has_window(fields) else None,
        )

    return read


def _stated(names: Names) -> Callable[[Fields], Attention]:
    """Return a reader of the heads that vLLM counts, which has no word for shared ones here."""
    read = _attention(names)

    def counted(fields: Fields) -> Attention:
        built = read(fields)
        # ModelConfig.get_head_size, which the layers do not read
        size = fields.integer("head_dim", built.head_size)
        return replace(built, num_kv_heads=built.num_heads, head_size=size)

    return counted


READ = {
    "whisper": (
        ("WhisperForConditionalGeneration",),
        Names(("decoder_layers", 4), ("decoder_attention_heads", 6), ("d_model", 384)),
    ),
    "cohere_asr": (
        ("CohereAsrForConditionalGeneration",),
        Names(
            ("num_layers", None),
            ("num_attention_heads", None),
            ("hidden_size", None),
            ("transf_decoder", "config_dict"),
        ),
    ),
    "fireredlid": (
        ("FireRedLIDForConditionalGeneration",),
        Names(("n_layers_lid_dec", 6), ("n_head", 20), ("d_model", 1280)),
    ),
    "nemotron_parse": (
        ("NemotronParseForConditionalGeneration", PREFIX),
        Names(("decoder_layers", None), ("decoder_attention_heads", None), ("d_model", None)),
    ),
}
"""model_type -> its architectures, and where the configuration has the decoder."""

for _model_type, (_architectures, _names) in READ.items():
    register(
        _model_type,
        {_model_type: _architectures},
        _layers(_names),
        attention=_attention(_names),
        stated=_stated(_names),
        is_encoder_decoder=True,
    )
