"""Weights of towers for sound, and of what joins them to the text.

Source: `qwen2_audio.py`, `qwen2_5_omni_thinker.py`, `qwen3_omni_moe_thinker.py`,
`ultravox.py`, `voxtral.py` and `whisper.py` in `model_executor/models`, 0.23 and 0.33.
"""

from collections.abc import Mapping
from typing import Any

from workbench.core.weights import EARLIER, LATER, Part
from workbench.models.weights.joined_vision import PROJECTOR, Tower, blocks, inside, sizes_of
from workbench.models.weights.parts import Config, Sizes, cache_scales, column, row, whole
from workbench.models.weights.speech import KERNEL

AUDIO = "audio_config"
WIDTH, LAYERS, HEADS, INNER = (
    "d_model",
    "encoder_layers",
    "encoder_attention_heads",
    "encoder_ffn_dim",
)
ALSO = {WIDTH: "hidden_size", LAYERS: "num_hidden_layers", HEADS: "num_attention_heads"}
ALSO |= {INNER: "intermediate_size"}
"""Other names of them."""
HALVINGS = 3
"""Convolutions of Qwen3's, each of which makes half as many frequencies."""
QWEN = {WIDTH: 1280, LAYERS: 32, HEADS: 20, INNER: 5120, "num_mel_bins": 128}
QWEN |= {
    "window_size": 400,
    "downsample_factor": 4,
    "output_dim": 3584,
    "max_source_positions": 1500,
    "downsample_hidden_size": 480,
}
"""Sizes that their configuration classes have."""


def _sizes(config: Config, defaults: Mapping[str, int] = QWEN) -> Sizes:
    size, found = sizes_of(config, AUDIO), inside(config, AUDIO)
    return lambda key: size(ALSO[key] if ALSO.get(key) in found else key, defaults[key])


def _convolved(size: Sizes) -> list[Part]:
    """Return the convolutions before Whisper's layers, and the norm after them."""
    width = size(WIDTH)
    return [
        whole("conv1", width, inputs=KERNEL * size("num_mel_bins"), bias=True),
        whole("conv2", width, inputs=KERNEL * width, bias=True),
        whole("layer_norm", width, bias=True),
    ]


def _positions(size: Sizes, **more: Any) -> Part:
    return whole("embed_positions", size("max_source_positions"), inputs=size(WIDTH), **more)


def _divided(size: Sizes, place: str, **more: Any) -> list[Part]:
    return blocks(size(LAYERS), size(WIDTH), size(INNER), size(HEADS), place, **more)


def _undivided(size: Sizes, **more: Any) -> list[Part]:
    """Return layers of the Transformers library, which every rank has whole."""
    width, inner = size(WIDTH), size(INNER)
    return size(LAYERS) * [
        *2 * [whole("norm", width, bias=True, **more)],
        *3 * [whole("proj", width, inputs=width, bias=True, **more)],
        whole("k_proj", width, inputs=width, **more),
        whole("fc1", inner, inputs=width, bias=True, **more),
        whole("fc2", width, inputs=inner, bias=True, **more),
    ]


def qwen2_audio(config: Config, _size: Sizes) -> list[Part]:
    """Return the tower of Qwen2-Audio."""
    size = _sizes(config)
    projector = whole("projector", config.hidden, inputs=size(WIDTH), bias=True)
    return [*_convolved(size), *_undivided(size), _positions(size), projector]


def qwen2_omni(config: Config) -> list[Part]:
    """Return the tower for sound of Qwen2.5-Omni."""
    size = _sizes(config)
    out = size("output_dim")
    return [
        *_convolved(size),
        *_undivided(size),
        _positions(size, dtype="float32"),
        whole("bos_eos", 2, inputs=out),
        whole("proj", out, inputs=size(WIDTH), bias=True),
    ]


def qwen3_omni(config: Config, _size: Sizes | None = None) -> list[Part]:
    """Return the tower for sound of Qwen3-Omni and Qwen3-ASR.

    Where ranks do not divide its heads, each of them has all of its layers.
    """
    size = _sizes(config)
    width, channels, bins = size(WIDTH), size("downsample_hidden_size"), size("num_mel_bins")
    for _ in range(HALVINGS):
        bins = (bins + 1) // 2
    wide = KERNEL**2 * channels
    layers = _divided(size, "audio_tower.layers", is_linear=False, evenly=size(HEADS))
    return [
        whole("conv2d1", channels, inputs=KERNEL**2, bias=True),
        *2 * [whole("conv2d", channels, inputs=wide, bias=True)],
        whole("conv_out", width, inputs=channels * bins),
        *layers,
        whole("ln_post", width, bias=True),
        whole("proj1", width, inputs=width, bias=True),
        whole("proj2", size("output_dim"), inputs=width, bias=True),
        _positions(size, dtype="float32"),
    ]


WHISPER = {WIDTH: 1280, LAYERS: 32, HEADS: 20, INNER: 5120, "num_mel_bins": 80}
WHISPER |= {"max_source_positions": 1500}


def listening(config: Config) -> list[Part]:
    """Return the tower for sound of MiniCPM-o: Whisper of the Transformers library."""
    size = _sizes(config, WHISPER)
    out = size(INNER) // 4
    return [
        *_convolved(size),
        *_undivided(size),
        _positions(size),
        whole("linear1", config.hidden, inputs=out, bias=True),
        whole("linear2", config.hidden, inputs=config.hidden, bias=True),
    ]


def ultravox(config: Config, _size: Sizes) -> list[Part]:
    """Return the tower of Ultravox, and its projector with a gate."""
    size, top = _sizes(config, WHISPER), config.fields.top
    joined = size(WIDTH) * int(top.get("stack_factor", 8))
    middle = int(top.get("hidden_size", 4096))
    gated = middle // (1 + (top.get("projector_act", "swiglu") == "swiglu"))
    is_middle = bool(top.get("projector_ln_mid", False))
    name = "multi_modal_projector.linear"
    ends = [(f"{name}_1", middle, joined), (f"{name}_2", config.hidden, gated)]
    own = [whole(one, outputs, inputs=inputs) for one, outputs, inputs in ends]
    return [
        *_convolved(size),
        *(one._replace(kind=EARLIER) for one in _undivided(size)),
        *(one._replace(kind=LATER) for one in _divided(size, "audio_tower.layers")),
        _positions(size),
        whole("ln_pre", joined),
        whole("ln_end", gated if is_middle else config.hidden),
        *(one._replace(kind=EARLIER) for one in own),
        *(one._replace(kind=LATER, is_linear=True) for one in own),
    ]


def flamingo(config: Config, _size: Sizes) -> list[Part]:
    """Return the tower of Audio Flamingo 3 and Music Flamingo, which also keeps angles of time."""
    size, top = _sizes(config), config.fields.top
    bias, head = bool(top.get("projector_bias", True)), int(top.get("head_dim", 0))
    angles = (whole("inv_freq", head, dtype="float32"),) * bool(head)
    return [
        *_convolved(size),
        *_undivided(size),
        _positions(size),
        whole("linear_1", config.hidden, inputs=size(WIDTH), bias=bias),
        whole("linear_2", config.hidden, inputs=config.hidden, bias=bias),
        *angles,
        *(one._replace(inputs=int(top["max_position_embeddings"])) for one in angles),
    ]


def glm_asr(config: Config, _size: Sizes) -> list[Part]:
    """Return the tower of GLM-ASR: Whisper's with angles in place of positions."""
    size, middle = _sizes(config), 2 * config.hidden
    angles = inside(config, AUDIO).get("rope_parameters") or {}
    turned = size(WIDTH) // size(HEADS) * angles.get("partial_rotary_factor", 0.5)
    return [
        *_convolved(size),
        *_divided(size, "audio_tower.layers"),
        column(f"{PROJECTOR}.linear_1", middle, inputs=size(INNER), bias=True),
        row(f"{PROJECTOR}.linear_2", middle, config.hidden, bias=True),
        whole("inv_freq", int(turned) // 2, dtype="float32"),
    ]


def voxtral(config: Config, _size: Sizes) -> list[Part]:
    """Return the tower of Voxtral: Whisper's, its frequencies, and what joins four moments."""
    size = _sizes(config)
    bands, joined = size("num_mel_bins"), size("downsample_factor") * size(WIDTH)
    return [
        *_convolved(size),
        *_divided(size, "whisper_encoder.whisper_encoder.layers"),
        _positions(size, dtype="float32"),
        whole("mel", size("window_size") // 2 + 1, inputs=bands, dtype="float32", kind=LATER),
        whole("w_in", config.hidden, inputs=joined),
        whole("w_out", config.hidden, inputs=config.hidden),
    ]


def voxtral_realtime(config: Config, size: Sizes) -> list[Part]:
    """Return the tower of Voxtral Realtime, whose layers have gates, angles and caches."""
    conv1, conv2, _norm, *_, mel, w_in, w_out = voxtral(config, size)
    sizes, head = _sizes(config), int(inside(config, AUDIO).get("head_dim", 64))
    places = int(inside(config, AUDIO).get("max_position_embeddings", 1500))
    layers = _divided(sizes, "whisper_encoder.whisper_encoder.layers", gated=True, norm_bias=False)
    return [
        *(conv1, conv2, mel, w_in, w_out),
        *(one._replace(bias=one.bias and len(one.outputs) != 2) for one in layers),
        *sizes(LAYERS) * [cache_scales("scales")],
        whole("layer_norm", sizes(WIDTH)),
        whole("cos_sin_cache", places, inputs=head),
        whole("time_embedding.inv_freq", config.hidden // 2, dtype="float32"),
    ]


LARGE = {**QWEN, "max_source_positions": 1500}
"""Whisper of Kimi-Audio, which has a file of its own next to config.json."""


def _adapted(config: Config, size: Sizes, place: str, inputs: int) -> list[Part]:
    """Return Whisper, and two layers and a norm after several moments are joined."""
    return [
        *_convolved(size),
        *_divided(size, f"{place}.layers"),
        _positions(size),
        whole("adaptor.0", config.hidden, inputs=inputs, bias=True),
        whole("adaptor.3", config.hidden, inputs=config.hidden, bias=True),
        whole("adaptor.4", config.hidden, bias=True),
    ]


def kimi_audio(config: Config, _size: Sizes) -> list[Part]:
    """Return the tower of Kimi-Audio."""
    inputs = config.size("kimia_adaptor_input_dim", default=5120)
    return _adapted(config, _sizes(config, LARGE), "audio_tower", inputs)


def moss(config: Config, _size: Sizes) -> list[Part]:
    """Return the tower of MOSS Transcribe."""
    size, inputs = _sizes(config, WHISPER), int(config.fields.top.get("adaptor_input_dim", 4096))
    return _adapted(config, size, "whisper_encoder", inputs)


SOUND: Mapping[str, Tower] = {
    "MoonshotKimiaForCausalLM": kimi_audio,
    "MossTranscribeDiarizeForConditionalGeneration": moss,
    "VoxtralForConditionalGeneration": voxtral,
    "VoxtralRealtimeGeneration": voxtral_realtime,
    "qwen2_audio": qwen2_audio,
    "qwen3_asr": qwen3_omni,
    "ultravox": ultravox,
    **dict.fromkeys(("audioflamingo3", "musicflamingo"), flamingo),
    "glmasr": glm_asr,
}
"""model_type of the whole file -> its tower."""
