"""Weights of towers for images with gated MLPs, and of the layers between them and the text."""

from collections.abc import Mapping
from typing import Any

from workbench.core.weights import EARLIER, LATER, Part
from workbench.models.weights.joined_vision import (
    BLOCKS,
    GATED,
    INTERNVL,
    JOINED,
    OF_INTERNVL,
    OF_PIXTRAL,
    QWEN,
    QWEN3,
    blocks,
    inside,
    vit,
)
from workbench.models.weights.parts import Config, Sizes, column, cut, row, whole
from workbench.models.weights.taken import used_layers

PIXTRAL = (
    *("attention.qkv_proj", "attention.o_proj"),
    *("feed_forward.gate_up_proj", "feed_forward.down_proj"),
)
MERGER = {"linear_fc1": "visual.merger.mlp.0", "linear_fc2": "visual.merger.mlp.2"}
"""Layers that join patches -> as vLLM calls them."""
PIXTRAL_LAYERS = "vision_tower.transformer.layers"


def patch_inputs(size: Sizes, edge: int) -> int:
    """Return the elements of one patch of several frames. edge: in pixels, where none is given."""
    pixels = size("patch_size", edge) ** 2
    return size("in_channels", 3) * size("temporal_patch_size", 2) * pixels


def qwen2_5(_config: Config, size: Sizes) -> list[Part]:
    """Return the tower of Qwen2.5-VL."""
    width, inner = size("hidden_size", 3584), size("intermediate_size", 3420)
    wide, heads = width * size("spatial_merge_size", 2) ** 2, size("num_heads", 16)
    return [
        whole("patch_embed", width, inputs=patch_inputs(size, 14)),
        *blocks(size("depth", 32), width, inner, heads, BLOCKS, QWEN, is_linear=False, **GATED),
        whole("ln_q", width),
        cut("linear_fc1", wide, inputs=wide, bias=True),
        row("linear_fc2", wide, size("out_hidden_size", 3584), bias=True, is_linear=False),
        whole("cos_sin_cache", 8192, inputs=width // heads // 2),
    ]


def qwen3(size: Sizes, joint: list[Part], **more: Any) -> list[Part]:
    """Return the tower of Qwen3-VL. joint: what joins its patches. more: of the linear layers."""
    width, heads, inner = size("hidden_size", 1152), size("num_heads", 16), "intermediate_size"
    return [
        whole("patch_embed", width, inputs=patch_inputs(size, 16), bias=True),
        whole("pos_embed", size("num_position_embeddings", 2304), inputs=width),
        *blocks(size("depth", 27), width, size(inner, 4304), heads, BLOCKS, QWEN3, **more),
        *joint,
        whole("cos_sin_cache", 8192, inputs=width // heads // 2),
    ]


def pixtral(config: Config, size: Sizes) -> list[Part]:
    """Return the tower of Mistral 3, and what merges its patches."""
    tower, top = vit(size, *OF_PIXTRAL), config.fields.top
    width = tower.width
    bias, projector = bool(top.get("multimodal_projector_bias", False)), "multi_modal_projector"
    return [
        *pixtral_tower(config, size),
        whole("norm", width),
        whole("merging_layer", width, inputs=width * int(top.get("spatial_merge_size", 2)) ** 2),
        column(f"{projector}.linear_1", config.hidden, inputs=width, bias=bias),
        row(f"{projector}.linear_2", config.hidden, config.hidden, bias=bias),
    ]


def pixtral_tower(config: Config, size: Sizes) -> list[Part]:
    """Return Pixtral's tower as the Transformers library has it (`PixtralHFVisionModel`)."""
    tower = vit(size, *OF_PIXTRAL)
    each = size("head_dim", tower.width // tower.heads)
    used = tower._replace(depth=used_layers(config, tower.depth))
    return [
        *tower.embedded(bias=False)[:1],
        whole("ln_pre", tower.width),
        *used.layers(PIXTRAL_LAYERS, PIXTRAL, bias=False, **GATED),
        # transformers' table of angles: one row per patch, and since 5.11 one row in all
        *2 * [whole("inv_freq", tower.places, inputs=each, dtype="float32", kind=EARLIER)],
        *2 * [whole("inv_freq", each // 2, dtype="float32", kind=LATER)],
    ]


def llava(config: Config, size: Sizes) -> list[Part]:
    """Return the tower of LLaVA, which may be Pixtral's, and its two layers."""
    if inside(config, "vision_config").get("model_type") != "pixtral":
        return JOINED["llava"](config, size)
    bias = bool(config.fields.top.get("multimodal_projector_bias", True))
    first, second = (f"multi_modal_projector.linear_{one}" for one in (1, 2))
    return [
        *pixtral_tower(config, size),
        column(first, config.hidden, inputs=size("hidden_size", 1024), bias=bias),
        row(second, config.hidden, config.hidden, bias=bias),
    ]


def mistral_pixtral(config: Config, size: Sizes) -> list[Part]:
    """Return the tower of files in Mistral's own format, which is never quantized."""
    tower, found = vit(size, *OF_PIXTRAL), config.fields.top["vision_config"]
    width, bias = tower.width, bool(found.get("adapter_bias", True))
    normed = [whole("norm", width)] * bool(found.get("add_pre_mm_projector_layer_norm"))
    merger = whole("patch_merger", width, inputs=width * size("spatial_merge_size", 1) ** 2)
    return [
        *tower.embedded(bias=False)[:1],
        whole("ln_pre", width),
        *tower.layers(PIXTRAL_LAYERS, PIXTRAL, bias=False, is_linear=False, **GATED),
        *normed,
        *[merger] * (found.get("mm_projector_id") == "patch_merge"),
        whole("w_in", config.hidden, inputs=width, bias=bias),
        whole("w_out", config.hidden, inputs=config.hidden, bias=bias),
    ]


def norms_queries(given: Mapping[str, Any]) -> bool:
    """Return whether a tower of InternVL norms queries and keys, by its object in the file."""
    return bool(given.get("qk_normalization", given.get("use_qk_norm", True)))


def internvl(config: Config, size: Sizes) -> list[Part]:
    """Return the tower of InternVL, and what makes one token of four patches."""
    tower, top = vit(size, *OF_INTERNVL), config.fields.top
    width, given = tower.width, top["vision_config"]
    has_bias = given.get("norm_type", "rms_norm") == "layer_norm"
    wide = width * int(1 / top.get("downsample_ratio", 0.5)) ** 2
    bias = given.get("qkv_bias", given.get("attention_bias", False))
    one_layer = tower._replace(depth=1)
    layer = [
        *2 * [whole("scale", width)],
        *2 * norms_queries(given) * [whole("qk_norm", width)],
        *one_layer.layers("vision_model.encoder.layers", INTERNVL, norm_bias=has_bias),
    ]
    layer = [one._replace(bias=bias) if one.name.endswith("qkv") else one for one in layer]
    # InternParallelAttention: whole on every rank where its heads do not divide, as 25 do not
    attention, heads = ("attn.qkv", "attn.proj"), size("num_attention_heads", 25)
    layer = [one._replace(evenly=heads) if one.name.endswith(attention) else one for one in layer]
    return [
        whole("class_embedding", width),
        *tower.embedded(tower.places + 1),
        *(range(tower.depth)[top.get("select_layer", -1)] + 1) * layer,
        whole("mlp1.norm", wide, bias=True),
        whole("mlp1.1", config.hidden, inputs=wide, bias=True),
        whole("mlp1.3", config.hidden, inputs=config.hidden, bias=True),
    ]


def skywork(config: Config, size: Sizes) -> list[Part]:
    """Return the tower of Skywork R1V: InternVL's, with a projector that may be quantized."""
    joint = ("mlp1.1", "mlp1.3")
    return [
        one._replace(is_linear=one.is_linear or one.name in joint) for one in internvl(config, size)
    ]


def exaone(config: Config, size: Sizes) -> list[Part]:
    """Return the tower of EXAONE 4.5: that of Qwen2.5-VL, with fewer heads for keys and values."""
    heads, kv = size("num_heads", 16), size("num_key_value_heads", 8)
    each, qkv = size("hidden_size", 3584) // heads, f"{BLOCKS}.0.{QWEN[0]}"
    outputs = tuple((count, each) for count in (heads, kv, kv))
    found = qwen2_5(config, size)
    return [one._replace(outputs=outputs) if one.name == qkv else one for one in found]


def muse_glimmer(config: Config, size: Sizes) -> list[Part]:
    """Return the tower of Muse Glimmer, whose MLPs and projections every rank has whole."""
    tower, frames = vit(size, 1536, 8960, 16, 50), size("patch_temporal", 2)
    width, inner, top = tower.width, tower.inner, config.fields.top
    joined, out = int(top.get("out_hidden_size", 6144)), int(top.get("projector_hidden_size", 4096))
    layer = [
        *2 * [whole("norm", width, bias=True)],
        *tower.layers("", is_linear=False)[2:4],
        whole("c_fc", inner, inputs=width, bias=True),
        whole("c_proj", width, inputs=inner, bias=True),
    ]
    return [
        whole("conv1", width, inputs=3 * frames * tower.patch**2),
        whole("positions", size("pos_emb_height", 32) * size("pos_emb_width", 32), inputs=width),
        *2 * [whole("norm", width, bias=True)],
        *tower.depth * layer,
        whole("adapter.c_fc", out, inputs=joined),
        whole("adapter.c_proj", out, inputs=out),
        whole("projection", config.hidden, inputs=out),
    ]
