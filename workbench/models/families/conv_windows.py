"""Inkling: short convolutions, whose last inputs are kept in windows alongside the attention.

Sources: `InklingConvState`, `InklingAttention` and `InklingMultiTokenPredictor` in
`vllm/models/inkling/`, 0.33, and `hf_config_override` in config/speculative.py.
"""

from dataclasses import replace

from workbench.core.arithmetic import next_power_of_2
from workbench.core.draft_parts import Mtp
from workbench.core.model import FULL, SLIDING, Attention, CompressedCache, Layer
from workbench.models.attention import read_attention
from workbench.models.family import register
from workbench.models.fields import MAX_LAYERS, Fields
from workbench.models.mtp import COUNT, READERS

WINDOWS, MTP_PART = "local_layer_ids", "mtp_config"
KERNELS, TAPS = ("sconv_kernel_size", "conv_kernel_size"), 4
BACKEND = "INKLING_SCONV_SWA"
STREAMS = 2
"""Convolutions of keys and values; as many again of what attention and MLP put out."""


def _heads(fields: Fields, kind: str) -> tuple[int, int]:
    """Return KV heads and the size of a head, of the layers of a kind."""
    attention = read_attention(fields)
    if kind == FULL:
        return attention.num_kv_heads, attention.head_size
    return (
        fields.integer("swa_num_key_value_heads", attention.num_kv_heads),
        fields.integer("swa_head_dim", attention.head_size),
    )


def _layer(fields: Fields, kind: str) -> tuple[Layer, ...]:
    """Return the window of the convolutions of a layer, then its attention."""
    heads, size = _heads(fields, kind)
    taps = next((fields.integer(key) for key in KERNELS if fields.has(key)), TAPS)
    inputs = CompressedCache(
        part=".conv_state",
        # A power of two, so that the page is as large in every layer.
        elements=next_power_of_2(STREAMS * (size + fields.integer("hidden_size") // heads)),
        stored="bfloat16",
        window_tokens=taps,
        block_size=taps,
        backend=BACKEND,
        num_heads=heads,
        splits_heads=True,
        is_plain=True,
    )
    own = (heads, size) if kind == SLIDING else (None, None)
    return (
        Layer(number=0, kind=SLIDING, cache=inputs),
        Layer(number=0, kind=kind, num_kv_heads=own[0], head_size=own[1], makes_spec=True),
    )


def _numbered(fields: Fields, count: int, windows: frozenset[int], first: int) -> tuple[Layer, ...]:
    layers = {kind: _layer(fields, kind) for kind in (FULL, SLIDING)}
    return tuple(
        layer._replace(number=first + at)
        for at in range(count)
        for layer in layers[SLIDING if at in windows else FULL]
    )


def _layers(fields: Fields) -> tuple[Layer, ...]:
    count = fields.layer_count()
    return _numbered(fields, count, fields.index_list(WINDOWS) or frozenset(), 0)


def _attention(fields: Fields) -> Attention:
    window = fields.integer("sliding_window_size", 512, name="window_tokens")
    return replace(
        read_attention(fields),
        window_tokens=window,
        own_backend="FLASH_ATTN",
        side_backends=(BACKEND,),
        hides_own_heads=True,
    )


def _mtp(fields: Fields, model_type: str, first: int) -> Mtp | None:
    """Return a block for each prediction, with the windows that the file's own part names."""
    if MTP_PART not in fields.top:
        return None
    place = Fields({MTP_PART: fields.top[MTP_PART]}).child(MTP_PART)
    count = place.integer(COUNT, 0, name="mtp_layers", minimum=0, maximum=MAX_LAYERS)
    windows = place.index_list(WINDOWS) or frozenset()
    return Mtp(
        model_type=model_type,
        layers=_numbered(fields, count, windows, first),
        first_index=0,
        predictions=count,
        is_nested=False,
        chained=count,
        is_cut=True,
    )


register(
    "conv_windows",
    {
        "inkling_mm_model": ("InklingForConditionalGeneration",),
        "inkling_model": ("InklingForCausalLM",),
    },
    _layers,
    attention=_attention,
)
READERS |= dict.fromkeys(("inkling_mm_model", "inkling_model"), _mtp)
