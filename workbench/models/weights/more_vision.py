"""Weights of towers for images with gated MLPs, and of the layers between them and the text."""

from workbench.core.weights import EARLIER, LATER, Part
from workbench.models.weights.joined_vision import BLOCKS, GATED, QWEN, blocks, used_layers
from workbench.models.weights.parts import Config, Sizes, column, cut, row, whole

PIXTRAL = (
    *("attention.qkv_proj", "attention.o_proj"),
    *("feed_forward.gate_up_proj", "feed_forward.down_proj"),
)
MERGER = {"linear_fc1": "visual.merger.mlp.0", "linear_fc2": "visual.merger.mlp.2"}
"""Layers that join patches -> as vLLM calls them."""
INTERNVL = ("attn.qkv", "attn.proj", "mlp.fc1", "mlp.fc2")
PIXTRAL_LAYERS = "vision_tower.transformer.layers"


def patch_inputs(size: Sizes, edge: int) -> int:
    """Return the elements of one patch of several frames. edge: in pixels, where none is given."""
    pixels = size("patch_size", edge) ** 2
    return size("in_channels", 3) * size("temporal_patch_size", 2) * pixels


def qwen2_5(_config: Config, size: Sizes) -> list[Part]:
    """Return the tower of Qwen2.5-VL."""
    width, inner, heads = (
        size("hidden_size", 3584),
        size("intermediate_size", 3420),
        size("num_heads", 16),
    )
    patch = patch_inputs(size, 14)
    wide, each = width * size("spatial_merge_size", 2) ** 2, width // heads
    return [
        whole("patch_embed", width, inputs=patch),
        *blocks(size("depth", 32), width, inner, heads, BLOCKS, QWEN, is_linear=False, **GATED),
        whole("ln_q", width),
        cut("linear_fc1", wide, inputs=wide, bias=True),
        row("linear_fc2", wide, size("out_hidden_size", 3584), bias=True, is_linear=False),
        whole("cos_sin_cache", 8192, inputs=each // 2),
    ]


def pixtral(config: Config, size: Sizes) -> list[Part]:
    """Return the tower of Mistral 3, and what merges its patches."""
    width, inner, heads = (
        size("hidden_size", 1024),
        size("intermediate_size", 4096),
        size("num_attention_heads", 16),
    )
    patch, each = size("patch_size", 16), size("head_dim", width // heads)
    layers = used_layers(config, size("num_hidden_layers", 24))
    patches, top = (size("image_size", 1024) // patch) ** 2, config.fields.top
    bias, projector = bool(top.get("multimodal_projector_bias", False)), "multi_modal_projector"
    return [
        whole("patch_conv", width, inputs=size("num_channels", 3) * patch**2),
        whole("ln_pre", width),
        *blocks(layers, width, inner, heads, PIXTRAL_LAYERS, PIXTRAL, bias=False, **GATED),
        # transformers' table of angles: one row per patch, and since 5.11 one row in all
        *2 * [whole("inv_freq", patches, inputs=each, dtype="float32", kind=EARLIER)],
        *2 * [whole("inv_freq", each // 2, dtype="float32", kind=LATER)],
        whole("norm", width),
        whole("merging_layer", width, inputs=width * int(top.get("spatial_merge_size", 2)) ** 2),
        column(f"{projector}.linear_1", config.hidden, inputs=width, bias=bias),
        row(f"{projector}.linear_2", config.hidden, config.hidden, bias=bias),
    ]


def internvl(config: Config, size: Sizes) -> list[Part]:
    """Return the tower of InternVL, and what makes one token of four patches."""
    width, inner, patch = (
        size("hidden_size", 3200),
        size("intermediate_size", 12_800),
        size("patch_size", 14),
    )
    heads, top = size("num_attention_heads", 25), config.fields.top
    given = top["vision_config"]
    has_bias = given.get("norm_type", "rms_norm") == "layer_norm"
    is_normed = given.get("qk_normalization", given.get("use_qk_norm", True))
    normed = [whole("qk_norm", width)] * bool(is_normed)
    wide = width * int(1 / top.get("downsample_ratio", 0.5)) ** 2
    place, bias = (
        "vision_model.encoder.layers",
        given.get("qkv_bias", given.get("attention_bias", False)),
    )
    layer = [
        *2 * [whole("scale", width)],
        *2 * normed,
        *blocks(1, width, inner, heads, place, INTERNVL, norm_bias=has_bias),
    ]
    layer = [one._replace(bias=bias) if one.name.endswith("qkv") else one for one in layer]
    return [
        whole("class_embedding", width),
        whole("patch_embedding", width, inputs=3 * patch**2, bias=True),
        whole("position_embedding", (size("image_size", 224) // patch) ** 2 + 1, inputs=width),
        *(range(size("num_hidden_layers", 48))[top.get("select_layer", -1)] + 1) * layer,
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


def plain_attention(width: int, heads: int, *, bias: bool = True) -> list[Part]:
    """Return attention of all heads, whose output has a bias."""
    head = (heads, width // heads)
    return [
        cut("qkv", head, head, head, inputs=width, bias=bias),
        row("proj", width, width, bias=True, is_linear=False),
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
    width, inner = size("hidden_size", 1536), size("intermediate_size", 8960)
    top, frames = config.fields.top, size("patch_temporal", 2)
    joined, out = int(top.get("out_hidden_size", 6144)), int(top.get("projector_hidden_size", 4096))
    layer = [
        *2 * [whole("norm", width, bias=True)],
        *plain_attention(width, size("num_attention_heads", 16)),
        whole("c_fc", inner, inputs=width, bias=True),
        whole("c_proj", width, inputs=inner, bias=True),
    ]
    return [
        whole("conv1", width, inputs=3 * frames * size("patch_size", 14) ** 2),
        whole("positions", size("pos_emb_height", 32) * size("pos_emb_width", 32), inputs=width),
        *2 * [whole("norm", width, bias=True)],
        *size("num_hidden_layers", 50) * layer,
        whole("adapter.c_fc", out, inputs=joined),
        whole("adapter.c_proj", out, inputs=out),
        whole("projection", config.hidden, inputs=out),
    ]
