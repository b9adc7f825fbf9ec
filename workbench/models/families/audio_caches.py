"""Voxtral Realtime: its encoder is causal, and keeps keys and values of the sound as well.

Source: `WhisperCausalAttentionWithBlockPooling` of `whisper_causal.py`, 0.23 and 0.33.
"""

from dataclasses import replace
from fractions import Fraction

from workbench.core.model import FULL, SLIDING, CompressedCache, Layer
from workbench.models.family import register
from workbench.models.fields import MAX_LAYERS, Fields

NAMES = {
    "layers": ("encoder_layers", "num_hidden_layers"),
    "heads": ("encoder_attention_heads", "num_attention_heads"),
    "size": ("encoder_head_dim", "head_dim"),
}
"""Of the encoder: as vLLM makes them of params.json, and in config.json."""
POOLS = ("block_pool_size", "downsample_factor")
"""Vectors of the sound in the place of one token."""


def _layers(fields: Fields) -> tuple[Layer, ...]:
    sound = Fields({"audio_config": fields.top.get("audio_config")}).child("audio_config")
    pool, place = (POOLS[0], sound) if sound.has(POOLS[0]) else (POOLS[1], Fields(fields.top))
    vectors = place.integer(pool, 4, minimum=2)
    found = {
        part: sound.integer(next((one for one in names if sound.has(one)), names[0]), minimum=1)
        for part, names in NAMES.items()
    }
    cache = CompressedCache(
        part="",
        elements=found["size"],
        tokens_per_state=Fraction(1, vectors),
        window_tokens=sound.integer("sliding_window"),
        num_heads=found["heads"],
        splits_heads=True,
        is_plain=True,
    )
    count, own = fields.layer_count(), min(found["layers"], MAX_LAYERS)
    # Pipeline stages cut the encoder, too (make_layers); its layers are numbered like the decoder's
    # that are as far on.
    encoder = (
        Layer(
            number=at * count // own,
            kind=SLIDING,
            cache=replace(cache, part=f".whisper_encoder.{at}"),
        )
        for at in range(own)
    )
    return (*encoder, *(Layer(number=number, kind=FULL) for number in range(count)))


register(
    "audio_caches",
    dict.fromkeys(("voxtral_realtime", "voxtral_realtime_params"), ("VoxtralRealtimeGeneration",)),
    _layers,
    slides=True,
)
