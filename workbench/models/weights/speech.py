"""Weights of Whisper: a decoder that also attends to an encoder of sound.

Source: `WhisperEncoder`, `WhisperDecoder` and their layers in `whisper.py`, 0.23 and 0.33.
"""

from dataclasses import replace

from workbench.core.weights import Part
from workbench.models.weights.parts import Config, attention, column, norms, row, whole

KERNEL = 3
"""Width of both convolutions before the encoder."""


def whisper_layer(config: Config, number: int) -> list[Part]:
    """Return a layer of the decoder, which has as many as `decoder_layers` says."""
    if not config.attends(number):
        return []
    names = ("self_attn", "encoder_attn")
    both = [attention(config, one, bias=True, out_bias=True, out="out_proj") for one in names]
    return [
        *both[0],
        *both[1],
        *_mlp(config, config.size("decoder_ffn_dim")),
        *norms(config, 3, bias=True),
    ]


def whisper_rest(config: Config) -> list[Part]:
    """Return the positions of the decoder, and the encoder, whose attention has no cache."""
    hidden, heads = config.hidden, config.size("encoder_attention_heads")
    own = replace(config.attention, num_heads=heads, num_kv_heads=heads, head_size=hidden // heads)
    layer = [
        *attention(config, bias=True, out_bias=True, out="out_proj", heads=own)[:2],
        *_mlp(config, config.size("encoder_ffn_dim")),
        *norms(config, 2, bias=True),
    ]
    return [
        whole("embed_positions", config.size("max_target_positions"), inputs=hidden),
        whole("encoder.embed_positions", config.size("max_source_positions"), inputs=hidden),
        whole("encoder.conv1", hidden, inputs=KERNEL * config.size("num_mel_bins"), bias=True),
        whole("encoder.conv2", hidden, inputs=KERNEL * hidden, bias=True),
        *norms(config, 1, bias=True),
        *(
            part._replace(name=f"encoder.layers.{number}.{part.name}")
            for number in range(config.size("encoder_layers"))
            for part in layer
        ),
    ]


def _mlp(config: Config, inner: int) -> list[Part]:
    return [
        column("mlp.fc1", inner, inputs=config.hidden, bias=True),
        row("mlp.fc2", inner, config.hidden, bias=True),
    ]
