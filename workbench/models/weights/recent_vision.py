"""Weights of towers for images: GLM's and Kimi's.

Source: the module of each class in `model_executor/models`, 0.23 and 0.33.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from workbench.core.described import COMPRESSED
from workbench.core.weights import Part
from workbench.models.quantization import quantization_method
from workbench.models.weights.joined_vision import (
    BLOCKS,
    GATED,
    QWEN,
    Tower,
    blocks,
    inside,
    vit,
)
from workbench.models.weights.parts import Config, Sizes, column, row, whole
from workbench.models.weights.stored import Unknown

MERGED = 4
"""Patches that become one token."""
GLM = ("attn.qkv_proj", *QWEN[1:])
"""As the class calls them where there is a method of quantization."""
KIMI_K3 = {"norm_type": "rmsnorm", "mm_projector_type": "patchmergerv2", "attn_bias": False}
KIMI_K3 |= {"linear_bias": False, "patch_embed_proj_bias": False}
"""What its configuration class has, and the described tower needs."""
MOONVIT = ("wqkv", "wo", "mlp.fc0", "mlp.fc1")


def joined_patches(
    size: Sizes, block: list[Part], context: int, *, length: int = 8192, **more: Any
) -> list[Part]:
    """Return a tower of GLM's around its layers: four patches become one token.

    context: elements inside of what merges them. length: of the table of angles. more: of the
    linear layers.
    """
    width, out = size("hidden_size"), size("out_hidden_size")
    pixels = size("in_channels", 3) * size("temporal_patch_size", 2) * size("patch_size", 14) ** 2
    merged = width * size("spatial_merge_size", 2) ** 2
    return [
        whole("patch_embed", width, inputs=pixels, bias=True),
        *block,
        whole("post_layernorm", width),
        whole("downsample", out, inputs=merged, bias=True),
        column("visual.merger.proj", out, inputs=out, **more),
        whole("merger.norm", out, bias=True),
        column("visual.merger.gate_up_proj", context, context, inputs=out, **more),
        row("visual.merger.down_proj", context, out, **more),
        whole("cos_sin_cache", length, inputs=width // size("num_heads") // 2),
    ]


def _with_defaults(size: Sizes, **defaults: int) -> Sizes:
    return lambda key, default=None: size(key, defaults.get(key, default))


def _glm4v(_config: Config, size: Sizes) -> list[Part]:
    size = _with_defaults(
        size, hidden_size=1536, out_hidden_size=4096, num_heads=12, intermediate_size=13_696
    )
    width, inner = size("hidden_size"), size("out_hidden_size")
    places = (size("image_size", 336) // size("patch_size", 14)) ** 2
    layers = blocks(
        size("depth", 24), width, inner, size("num_heads"), BLOCKS, GLM, bias=False, **GATED
    )
    return [
        *joined_patches(size, layers, size("intermediate_size")),
        whole("position_embedding", places, inputs=width),
        whole("position_ids", places, inputs=2, dtype="float32"),  # 64-bit integers
        whole("post_conv_layernorm", width),
    ]


def normed_blocks(size: Sizes, **more: Any) -> list[Part]:
    """Return layers that norm queries and keys. more: of the linear layers."""
    count, width, heads = size("depth", 24), size("hidden_size"), size("num_heads")
    layers = blocks(count, width, size("intermediate_size"), heads, BLOCKS, GLM, **GATED, **more)
    return [*layers, *2 * count * [whole("qk_norm", width // heads)]]


SMALL = {"hidden_size": 1024, "out_hidden_size": 1536, "num_heads": 16, "intermediate_size": 4096}


def _glm_ocr(config: Config, size: Sizes) -> list[Part]:
    size = _with_defaults(size, **SMALL)
    return joined_patches(size, normed_blocks(size), config.size("intermediate_size"))


def glm5(config: Config, size: Sizes) -> list[Part]:
    """Return the tower of GLM-5.3-Flash, whose class never quantizes it."""
    size = _with_defaults(size, **SMALL)
    joint, more = size("projection_intermediate_size", 10_240), {"is_linear": False}
    length = config.size("max_position_embeddings", default=2**20)
    return joined_patches(size, normed_blocks(size, **more), joint, length=length, **more)


def _kimi_vl(config: Config, size: Sizes) -> list[Part]:
    """Return the tower of Kimi-VL, whose class never quantizes it."""
    tower, places = vit(size), size("init_pos_emb_height", 64) * size("init_pos_emb_width", 64)
    width, wide = tower.width, tower.width * MERGED
    return [
        *tower.embedded(places),
        *tower.layers("vision_tower.encoder.blocks", MOONVIT, is_linear=False),
        *2 * [whole("norm", width, bias=True)],
        whole("linear_1", wide, inputs=wide, bias=True),
        whole("linear_2", config.hidden, inputs=wide, bias=True),
    ]


def takes_description(config: Config) -> bool:
    """Return whether a tower of Kimi's gets what the checkpoint says of its weights.

    Source: `_maybe_ignore_quant_config` of `kimi_k25.py` and `kimi_k3`, 0.23 and 0.33.
    """
    return quantization_method(config.fields) != COMPRESSED


def _kimi_k3(config: Config, size: Sizes) -> list[Part]:
    """Return the tower of Kimi K3, without biases, and a projector with its norm at the end."""
    settings = inside(config, "vision_config")
    stated = (settings.get(key, default) for key, default in KIMI_K3.items())
    if tuple(stated) != tuple(KIMI_K3.values()):
        raise Unknown("a tower of Kimi K3 with other norms or biases is not described")
    width, heads = size("vt_hidden_size", 1024), size("vt_num_attention_heads", 12)
    places = size("init_pos_emb_height", 64) * size("init_pos_emb_width", 64)
    layers, inner = size("vt_num_hidden_layers", 27), size("vt_intermediate_size", 4096)
    each, wide = size("qkv_hidden_size", 1536) // heads, width * MERGED
    # is_vit_use_data_parallel: every rank has all heads that they cannot divide
    kind: dict[str, Any] = {"is_linear": takes_description(config)}
    tower = partial(blocks, each=each, bias=False, norm_bias=False, evenly=heads)
    return [
        whole("patch_embed", width, inputs=3 * size("patch_size", 14) ** 2),
        whole("pos_emb", places, inputs=width),
        whole("time_weight", size("init_pos_emb_time", 4), inputs=width, dtype="float32"),
        *tower(layers, width, inner, heads, "vision_tower.encoder.blocks", MOONVIT, **kind),
        whole("norm", width),
        whole("mm_projector.linear_1", wide, inputs=wide, **kind),
        whole("mm_projector.linear_2", config.hidden, inputs=wide, **kind),
        whole("norm", config.hidden),
    ]


RECENT: Mapping[str, Tower] = {
    **dict.fromkeys(("glm4v", "glm4v_moe"), _glm4v),
    "glm_ocr": _glm_ocr,
    "glm5_next": glm5,
    "kimi_vl": _kimi_vl,
    "kimi_k3": _kimi_k3,
}
"""model_type of the whole file -> its tower."""
