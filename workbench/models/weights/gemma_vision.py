"""Weights of the towers of Gemma 3n and 4, which every rank has whole, and of DiffusionGemma.

Source: `gemma3n_mm.py`, `gemma4_mm.py` and `gemma4_unified.py` in `model_executor/models`, 0.23 and
0.33.
"""

from collections.abc import Mapping

from workbench.core.described import COMPRESSED
from workbench.core.formats import Format
from workbench.core.weights import Part
from workbench.models.quantization import quantization_method
from workbench.models.towers import takes_sizes
from workbench.models.weights.joined_vision import Tower, inside, sizes_of
from workbench.models.weights.parts import Config, Sizes, column, row, vocabulary, whole
from workbench.models.weights.stored import Unknown

TIMM = {"mobilenetv5_300m_enc": 294_126_912}
"""Name of a convolutional network of timm -> its parameters, which no file changes."""
SPOKEN = {"hidden_size": 1536, "conf_num_hidden_layers": 12, "conf_num_attention_heads": 8}
SPOKEN |= {"conf_conv_kernel_size": 5, "conf_attention_chunk_size": 12, "input_feat_size": 128}
SPOKEN |= {"conf_attention_context_left": 13, "conf_attention_context_right": 0}
"""Sizes that Gemma 3n's configuration of sound has."""
QKV = ("q_proj", "k_proj", "v_proj")
CHANNELS = (128, 32)
"""Of its two convolutions, each of which makes half as many bands."""


def _gemma3n(config: Config, _size: Sizes) -> list[Part]:
    """Return a network of convolutions for images and a conformer for sound."""
    name = inside(config, "vision_config").get("architecture")
    sound = inside(config, "audio_config")
    if name not in TIMM or tuple(sound.get("sscp_conv_channel_size", CHANNELS)) != CHANNELS:
        raise Unknown("such a tower of Gemma 3n is not described")
    width, layers, heads, taps, chunk, bands, left, right = ({**SPOKEN, **sound}[n] for n in SPOKEN)
    layer = [
        *_conformer(width, taps),
        whole("numbers", width // heads + 6),  # a scale, and limits of gradients
        whole("mask", chunk, inputs=chunk + left - 1 + right, stored=Format(8)),
        whole("softcap", 1 + width // 2, dtype="float32"),
    ]
    return [
        whole("timm_model", TIMM[name]),
        *_embedded(config, "vision_config", 2048),
        *_embedded(config, "audio_config", width),
        *_subsampled(width, *CHANNELS, bands),
        *layers * layer,
    ]


def _conformer(width: int, taps: int, *, is_linear: bool = False) -> list[Part]:
    """Return what a layer for sound has in Gemma 3n and 4."""

    def linear(name: str, outputs: int, inputs: int = width) -> Part:
        place = f"audio_tower.layers.0.{name}"
        return whole(place, outputs, inputs=inputs, is_linear=is_linear)

    norm, squares = whole("norm", width), [f"{one}.linear" for one in (*QKV, "post")]
    feeds = [
        linear(f"feed_forward{number}.ffw_layer_{layer}.linear", *sizes)
        for number in (1, 2)
        for layer, sizes in ((1, (4 * width, width)), (2, (width, 4 * width)))
    ]
    return [
        *feeds,
        *9 * [norm],
        *(linear(f"self_attn.{name}", width) for name in (*squares, "relative_k_proj")),
        linear("lconv1d.linear_start.linear", 2 * width),
        linear("lconv1d.linear_end.linear", width),
        whole("depthwise_conv1d", width, inputs=taps),
    ]


def _subsampled(
    width: int, first: int, second: int, bands: int, *, is_linear: bool = False
) -> list[Part]:
    """Return the two convolutions that shorten sound, and what reads their channels."""
    reads = "audio_tower.subsample_conv_projection.input_proj_linear"
    return [
        whole("conv_0", first, inputs=9),
        whole("conv_1", second, inputs=9 * first),
        whole("norms", first + second),
        whole(reads, width, inputs=bands // 4 * second, is_linear=is_linear),
    ]


def _embedded(config: Config, key: str, width: int) -> list[Part]:
    return [
        vocabulary("embedding", int(inside(config, key).get("vocab_size", 128)), width),
        *2 * [whole("embedding_norm", width)],
        row("embedding_projection", width, config.hidden, is_linear=False),
    ]


def _gemma4(config: Config, size: Sizes) -> list[Part]:
    """Return the tower of Gemma 4, which every rank has whole."""
    width, inner = size("hidden_size", 768), size("intermediate_size", 3072)
    heads, each = size("num_attention_heads", 12), size("head_dim", 64)
    kv, patch = size("num_key_value_heads", 12), size("patch_size", 16)
    is_linear = _takes_description(config, width, inner)

    def linear(name: str, outputs: int, inputs: int) -> Part:
        place = f"vision_tower.encoder.layers.0.{name}.linear"
        return whole(place, outputs, inputs=inputs, is_linear=is_linear)

    layer = [
        *4 * [whole("norm", width)],
        linear("self_attn.q_proj", heads * each, width),
        *(linear(f"self_attn.{name}", kv * each, width) for name in QKV[1:]),
        linear("self_attn.o_proj", width, heads * each),
        *2 * [whole("qk_norm", each)],
        *(linear(f"mlp.{name}_proj", inner, width) for name in ("gate", "up")),
        linear("mlp.down_proj", width, inner),
    ]
    found = config.fields.top.get("vision_config") or {}
    # the least and the most that goes into and comes out of each of seven layers
    layer += [whole("clipped", 7 * 4)] * bool(found.get("use_clipped_linears"))
    reads = "vision_tower.patch_embedder.input_proj"
    joins = "embed_vision.embedding_projection"
    return [
        whole("position_embedding", 2, inputs=size("position_embedding_size", 10_240) * width),
        whole(reads, width, inputs=3 * patch**2, is_linear=is_linear),
        *size("num_hidden_layers", 16) * layer,
        whole(joins, config.hidden, inputs=width, is_linear=is_linear),
        *2 * bool(found.get("standardize")) * [whole("std", width)],
        whole("inv_freq", each // 2, dtype="float32"),
        *_gemma4_sound(config),
    ]


def _takes_description(config: Config, *sizes: int) -> bool:
    """Return whether a tower of Gemma 4 gets what the checkpoint says of its weights.

    Source: `_get_tower_quant_config` of `gemma4_mm.py`, 0.33; 0.23 asks for the sizes of the one
    for images alone.
    """
    return takes_sizes(config.fields, *sizes) or quantization_method(config.fields) == COMPRESSED


def _gemma4_sound(config: Config) -> list[Part]:
    """Return the conformer of a Gemma 4 that hears; none where the file has no such part."""
    if config.fields.top.get("audio_config") is None:
        return []
    size = sizes_of(config, "audio_config")
    width, out = size("hidden_size", 1024), size("output_proj_dims", 1536)
    first, second = inside(config, "audio_config").get("subsampling_conv_channels", CHANNELS)
    is_clipped = inside(config, "audio_config").get("use_clipped_linears", True)
    is_linear = _takes_description(config, width)
    layer = [
        *_conformer(width, size("conv_kernel_size", 5), is_linear=is_linear),
        whole("numbers", width // size("num_attention_heads", 8) + 1),  # a scale, and a soft limit
        *[whole("clipped", 10 * 4)] * bool(is_clipped),
    ]
    joins = "embed_audio.embedding_projection"
    return [
        *_subsampled(width, first, second, first, is_linear=is_linear),
        *size("num_hidden_layers", 12) * layer,
        whole("audio_tower.output_proj", out, inputs=width, bias=True, is_linear=is_linear),
        whole("inv_timescales", width // 2),
        whole(joins, config.hidden, inputs=out, is_linear=is_linear),
    ]


def _gemma4_unified(config: Config, size: Sizes) -> list[Part]:
    """Return what reads patches, and frames of sound, without a tower."""
    dim, edge = size("mm_embed_dim", 3840), size("patch_size", 16) * size("pooling_kernel_size", 3)
    sound, pixels = config.fields.top.get("audio_config"), 3 * edge**2
    parts = [
        whole("pos_embedding", 2 * size("mm_posemb_size", 1120), inputs=dim),
        whole("patch_ln1", pixels, bias=True),
        column("patch_dense", dim, inputs=pixels, bias=True),
        *2 * [whole("norm", dim, bias=True)],
        whole("embedding_projection", config.hidden, inputs=dim),
    ]
    if sound is not None:
        parts.append(whole("audio", config.hidden, inputs=sound.get("audio_embed_dim", 640)))
    return [one._replace(name=f"vision_embedder.{one.name}") for one in parts]


def _diffusion(config: Config, size: Sizes) -> list[Part]:
    """Return the tower of DiffusionGemma, and what reads the tokens of the last step."""
    hidden, inner = config.hidden, config.size("intermediate_size")
    last = [whole("up", inner, inner, inputs=hidden), whole("down_proj", hidden, inputs=inner)]
    return [*_gemma4(config, size), whole("pre_norm", hidden), *last]


GEMMA: Mapping[str, Tower] = {
    "gemma3n": _gemma3n,
    "gemma4": _gemma4,
    "gemma4_unified": _gemma4_unified,
    "diffusion_gemma": _diffusion,
}
"""model_type of the whole file -> its tower."""
