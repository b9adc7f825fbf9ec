"""Weights of towers that are like no other: Molmo 2, Ernie 4.5 VL, Aria and more.

Source: the module of each class in `model_executor/models`, 0.23 and 0.33.
"""

from collections.abc import Mapping
from typing import Any

from workbench.core.formats import Format
from workbench.core.weights import LATER, Part
from workbench.models.weights.joined_vision import (
    BLOCKS,
    INTERNVL,
    SO400M,
    Tower,
    blocks,
    encoder,
    inside,
    sizes_of,
    vit,
)
from workbench.models.weights.more_vision import qwen2_5
from workbench.models.weights.parts import Config, Sizes, column, cut, row, whole

MOLMO = ("attention.merged_qkv", "attention.wo", "feed_forward.w1", "feed_forward.w2")
ONEVISION = ("self_attn.qkv", "self_attn.proj", "mlp.fc1", "mlp.fc2")


def _molmo2(config: Config, _size: Sizes) -> list[Part]:
    """Return the tower of Molmo 2 up to the last layer that is read, and what pools its patches."""
    size, adapter = sizes_of(config, "vit_config"), sizes_of(config, "adapter_config")
    width, heads, count = size("hidden_size", 1152), size("num_attention_heads", 16), 27
    read = inside(config, "adapter_config").get("vit_layers", (-3, -9))
    layers = size("num_hidden_layers", count)
    used = max(one + layers if one < 0 else one for one in read) + 1
    pooled = (adapter("num_attention_heads", 16), adapter("head_dim", 72))
    out, inner = adapter("hidden_size", 1152), adapter("intermediate_size", 18_944)
    pooling, projector = "vision_backbone.image_pooling_2d", "vision_backbone.image_projector"
    more: dict[str, Any] = {"inputs": len(read) * width, "bias": True}
    place = "vision_backbone.image_vit.transformer.resblocks"
    return [
        whole("positional_embedding", size("image_num_pos", 577), inputs=width),
        whole("patch_embedding", width, inputs=3 * size("image_patch_size", 14) ** 2, bias=True),
        *blocks(used, width, size("intermediate_size", 4304), heads, place, MOLMO),
        column(f"{pooling}.q_proj", pooled, **more),
        column(f"{pooling}.merged_kv", *2 * [pooled], **more),
        row(f"{pooling}.o_proj", pooled[0] * pooled[1], out, bias=True),
        column(f"{projector}.merged_linear", inner, inner, inputs=out),
        row(f"{projector}.down_proj", inner, config.hidden),
    ]


def _ernie(config: Config, size: Sizes) -> list[Part]:
    """Return the tower of Ernie 4.5 VL, and what joins its patches over places and time."""
    width, heads, top = size("embed_dim", 1280), size("num_heads", 16), config.fields.top
    wide = int(top["pixel_hidden_size"]) * int(top.get("spatial_conv_size", 2)) ** 2
    sides = [wide, wide * int(top.get("temporal_conv_size", 2)) * bool(top["use_temporal_conv"])]
    inner, pixels = width * size("mlp_ratio", 4), 3 * size("patch_size", 14) ** 2
    joints = (
        part
        for inputs in filter(None, sides)
        for part in (
            *(cut("linear", wide, inputs=one, bias=True) for one in (inputs, wide)),
            whole("norm", wide, bias=True),
        )
    )
    return [
        whole("patch_embed", width, inputs=pixels),
        *blocks(size("depth", 32), width, inner, heads, "vision_model.blocks", INTERNVL),
        whole("ln", width, bias=True),
        *joints,
        cut("mlp", config.hidden, inputs=wide, bias=True),
        whole("after_norm", config.hidden),
        whole("inv_freq", width // heads // 4, dtype="float32", kind=LATER),
        whole("visual_token_ids", 5, stored=Format(64), kind=LATER),
    ]


def _aria(config: Config, size: Sizes) -> list[Part]:
    """Return the tower of Aria, and attention that gathers its patches."""
    width, queries = size("hidden_size", 1152), config.fields.top["projector_patch_to_query_dict"]
    inner, square = config.hidden, whole("proj", width, inputs=width)
    return [
        *encoder(config, size, has_ids=False, has_norm=False),
        whole("query", max(queries.values()), inputs=width),
        *3 * [square],
        *5 * [square._replace(bias=True)],
        *3 * [whole("layer_norm", width, bias=True)],
        cut("linear_in", inner, inputs=width),
        row("linear_out", inner, config.hidden, is_linear=False),
    ]


def _pangu(config: Config, size: Sizes) -> list[Part]:
    """Return the tower of openPangu-VL: that of Qwen2.5-VL, with a merger for every read layer."""
    scheme = config.fields.top.get("quantization_config") or {}
    is_linear = scheme.get("quant_method") != "gptq"  # of which vLLM takes no quantized tower
    patch, *parts, norm, first, second, _angles = qwen2_5(config, size)
    merged = [
        one._replace(name=f"visual.merger.0.mlp.{place}", is_linear=is_linear)
        for place, one in ((0, first), (2, second))
    ]
    read = inside(config, "vision_config").get("mm_unit_vision_select_layer", (-1, -3))
    out = size("out_hidden_size", 3584)
    return [
        patch,
        *(one._replace(is_linear=is_linear and one.name.startswith(BLOCKS)) for one in parts),
        whole("final_layernorm", *norm.outputs[0][:1]),
        *len(read) * [norm, *merged],
        whole("vision_projection", config.hidden, inputs=out, bias=True),
    ]


def _onevision2(config: Config, size: Sizes) -> list[Part]:
    """Return the tower of LLaVA-OneVision 2, never quantized, with angles of three axes."""
    tower, out = vit(size, 1024, 4096, 16, 24), size("text_hidden_size", config.hidden)
    width, wide = tower.width, tower.width * size("spatial_merge_size", 2) ** 2
    return [
        *tower.embedded(bias=False)[:1],
        *2 * [whole("norm", width, bias=True)],
        *tower.layers("visual.encoder.layers", ONEVISION, is_linear=False),
        column("visual.merger.mlp.0", wide, inputs=wide, bias=True, is_linear=False),
        row("visual.merger.mlp.2", wide, out, bias=True, is_linear=False),
        whole("inv_freq", width // tower.heads // 2, dtype="float32"),
    ]


def _cosmos(config: Config, size: Sizes) -> list[Part]:
    """Return the tower of Cosmos 3 Edge: SigLIP 2, and a projector after a norm."""
    tower, joint = vit(size, *SO400M[:4], 16), config.fields.top["projector_hidden_size"]
    wide = tower.width * size("spatial_merge_size", 2) ** 2
    norm = whole("norm", tower.width, bias=True)
    return [
        *tower.embedded(size("num_patches", 256)),
        *tower.layers("visual.encoder.encoder.layers"),
        *2 * [norm],
        column("visual.projector.linear_fc1", joint, inputs=wide, bias=True),
        row("visual.projector.linear_fc2", joint, config.hidden, bias=True),
    ]


RARE: Mapping[str, Tower] = {
    "molmo2": _molmo2,
    "ernie4_5_moe_vl": _ernie,
    "aria": _aria,
    "openpangu_vl": _pangu,
    "llava_onevision2": _onevision2,
    "cosmos3_edge": _cosmos,
}
"""model_type of the whole file -> its tower."""
