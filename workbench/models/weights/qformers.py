"""Weights of towers whose outputs a Q-Former gathers: BLIP-2's, Granite's for images and sound.

Source: `blip2.py`, `granite4_vision.py` and `granite_speech.py` in `model_executor/models`, 0.23
and 0.33.
"""

from collections.abc import Mapping
from math import ceil
from typing import Any

from workbench.core.formats import Format
from workbench.core.weights import Part
from workbench.models.weights.joined_vision import Tower, as_siglip, inside, sizes_of, vit
from workbench.models.weights.parts import Config, Sizes, column, cut, row, whole
from workbench.models.weights.stored import Unknown

BLIP = ("self_attn.qkv", "self_attn.projection", "mlp.fc1", "mlp.fc2")
FORMER: dict[str, Any] = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12}
FORMER |= {"cross_attention_frequency": 2, "encoder_hidden_size": 1408}
"""Sizes that its configuration class has."""
SMALL = {"num_hidden_layers": 1, "cross_attention_frequency": 1}


def _gathered(sizes: Mapping[str, int], queries: int, out: int) -> list[Part]:
    """Return so many queries, a Q-Former, and a layer after it, which every rank has whole."""
    width, inner, layers, every, outside = ({**FORMER, **sizes}[one] for one in FORMER)
    norm, square = whole("norm", width, bias=True), whole("proj", width, inputs=width, bias=True)
    feed = [whole("dense", inner, inputs=width, bias=True)]
    feed += [whole("output", width, inputs=inner, bias=True), norm]
    crossed = [*2 * [square], *2 * [whole("crossed", width, inputs=outside, bias=True)], norm]
    own = [*4 * [square], norm, *feed]
    return [
        whole("query", queries, inputs=width),
        norm,
        *layers * own,
        *ceil(layers / every) * crossed,
        whole("linear", out, inputs=width, bias=True),
    ]


def _blip2(config: Config, size: Sizes) -> list[Part]:
    tower = vit(size, 1408, 6144, 16, 39, 14, 224)
    if not inside(config, "vision_config").get("qkv_bias", True):
        raise Unknown("a tower of BLIP-2 without biases is not described")
    queries = int(config.fields.top.get("num_query_tokens", 32))
    query, *former = _gathered(inside(config, "qformer_config"), queries, config.hidden)
    return [
        query._replace(name="own_projector.query"),
        whole("class_embedding", tower.width),
        *tower.embedded(tower.places + 1),
        *tower.layers("vision_model.encoder.layers", BLIP),
        whole("post_layernorm", tower.width, bias=True),
        *former,
    ]


def _granite_vision(config: Config, size: Sizes) -> list[Part]:
    """Return SigLIP, and a Q-Former for each of its layers, and of places, that are read."""
    top, tower = config.fields.top, vit(size)
    found, width = tower.layers("vision_tower.vision_model.encoder.layers"), tower.width
    after, before = map(int, str(top.get("downsample_rate", "4/8")).split("/"))
    spatial = top.get("spatial_target_layers") if top.get("use_spatial_sampling") else ()
    count = len(top.get("deepstack_layer_map") or ()) + len(spatial or ())
    # WindowQFormerDownsampler reads no sizes of it
    former = {**SMALL, "hidden_size": width, "encoder_hidden_size": width}
    return [
        *tower.embedded(),
        whole("position_ids", tower.places, stored=Format(64)),
        *as_siglip(config, found, width, tower.inner),
        *count
        * [
            *_gathered(former, after**2, config.hidden),
            whole("image_positions", before**2, inputs=width),
            whole("norm", width, bias=True),
        ],
        whole("image_newline", config.hidden),
    ]


def _granite_speech(config: Config, _size: Sizes) -> list[Part]:
    """Return a conformer, and a Q-Former that gathers what it makes of a window."""
    size, top = sizes_of(config, "encoder_config"), config.fields.top
    width = size("hidden_dim", 1024)
    out = size("output_dim", 42)
    taps = size("conv_kernel_size", 15)
    inner, wide = width * size("feedforward_mult", 4), width * size("conv_expansion_factor", 2)
    each, far = size("dim_head", 128), 2 * size("max_pos_emb", 512) + 1
    heads, norm = each * size("num_heads", 8), whole("norm", width, bias=True)
    feed = [norm, cut("up_proj", inner, inputs=width, bias=True)]
    feed.append(row("down_proj", inner, width, bias=True, is_linear=False))
    layer = [
        *2 * feed,
        *3 * [norm],
        whole("to_qkv", 3 * heads, inputs=width),
        whole("to_out", width, inputs=heads, bias=True),
        whole("rel_pos_emb", far, inputs=each),
        whole("up_conv", 2 * wide, inputs=width, bias=True),
        whole("depth_conv", wide, inputs=taps),
        *2 * [whole("batch_norm", wide, bias=True)],
        whole("num_batches_tracked", 1, stored=Format(64)),
        whole("down_conv", width, inputs=wide, bias=True),
    ]
    queries = int(top.get("window_size", 15)) // int(top.get("downsample_rate", 5))
    return [
        whole("input_linear", width, inputs=size("input_dim", 160), bias=True),
        *size("num_layers", 10) * layer,
        column("encoder.out", out, inputs=width, bias=True),
        row("encoder.out_mid", out, width, bias=True),
        *_gathered(inside(config, "projector_config"), queries, config.hidden),
    ]


QFORMERS: Mapping[str, Tower] = {
    "blip-2": _blip2,
    "granite4_vision": _granite_vision,
    **dict.fromkeys(("granite_speech", "granite_speech_plus"), _granite_speech),
}
"""model_type of the whole file -> its tower."""
