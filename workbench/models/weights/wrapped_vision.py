"""Weights of towers for images that are SigLIP or InternVL's, each with a projector of its own.

Source: `aya_vision.py`, `phi4siglip.py`, `keye.py`, `ovis2_5.py`, `nvlm_d.py` and
`eagle2_5_vl.py` in `model_executor/models`, 0.23 and 0.33.
"""

from collections.abc import Mapping

from workbench.core.weights import Part
from workbench.models.weights.document_vision import DOTS
from workbench.models.weights.joined_vision import (
    GATED,
    PROJECTOR,
    SO400M,
    Tower,
    as_siglip,
    blocks,
    encoder,
    inside,
    vit,
)
from workbench.models.weights.more_vision import internvl
from workbench.models.weights.parts import Config, Sizes, column, row, whole
from workbench.models.weights.stored import Unknown

INDICATORS, DUMMY_HEADS = 4, 7
"""Tokens of Ovis 2.5 around an image; heads that NVLM-D adds."""
OVIS_INDICATORS = 5
"""The same of earlier ones."""
PACKED = 2**15
"""Rows of Keye's table of positions for packed patches."""


def _joined(config: Config, width: int, name: str = "mlp1") -> list[Part]:
    """Return two layers with biases after a norm, which every rank has whole."""
    return [
        whole(f"{name}.norm", width, bias=True),
        whole(f"{name}.1", config.hidden, inputs=width, bias=True),
        whole(f"{name}.3", config.hidden, inputs=config.hidden, bias=True),
    ]


def _aya(config: Config, size: Sizes) -> list[Part]:
    """Return the tower of Aya Vision, and a projector with a gate."""
    top = config.fields.top
    width = size("hidden_size", 1152) * int(top.get("downsample_factor", 2)) ** 2
    inner = int(top.get("alignment_intermediate_size") or config.hidden)
    return [
        *encoder(config, size),
        whole("layernorm", width, bias=True),
        whole("linear_1", inner, inputs=width, bias=True),
        whole("linear_2", config.hidden, inputs=inner // 2, bias=True),
    ]


def _eagle(config: Config, size: Sizes) -> list[Part]:
    """Return the tower of Eagle 2.5."""
    share = config.fields.top.get("downsample_ratio", 0.5)
    return [
        *encoder(config, size),
        *_joined(config, size("hidden_size", 1152) * int(1 / share) ** 2),
    ]


def _phi4(config: Config, size: Sizes) -> list[Part]:
    """Return the tower of Phi-4 with SigLIP 2, whose last layer is not built."""
    tower = vit(size, *SO400M[:4], 16)
    used = tower._replace(depth=tower.depth - 1)
    return [
        *tower.embedded(size("num_patches", 256)),
        *used.layers("vision_tower.vision_model.encoder.layers"),
        column(f"{PROJECTOR}.linear_1", config.hidden, inputs=tower.width, bias=True),
        row(f"{PROJECTOR}.linear_2", config.hidden, config.hidden, bias=True),
    ]


def _keye(config: Config, size: Sizes) -> list[Part]:
    """Return the tower of Keye, with a table of positions for packed patches."""
    tower, width = vit(size), size("hidden_size", 1152)
    wide = width * size("spatial_merge_size", 2) ** 2
    normed = width if config.fields.top.get("model_type") == "Keye" else wide
    layers = tower.layers("visual.vision_model.encoder.layers")
    return [
        *tower.embedded(),
        whole("packing_position_embedding", PACKED, inputs=width),
        whole("position_ids", tower.places, inputs=2, dtype="float32"),
        *as_siglip(config, layers, width, tower.inner),
        whole("post_layernorm", width, bias=True),
        whole("pre_norm", normed, bias=True),
        column("mlp_AR.linear_1", wide, inputs=wide, bias=True),
        row("mlp_AR.linear_2", wide, config.hidden, bias=True),
        whole("inv_freq", width // tower.heads // 4, dtype="float32"),
    ]


def _ovis(config: Config, _size: Sizes) -> list[Part]:
    """Return the tower of Ovis 2.5, which chooses words of a vocabulary of its own."""
    found, top = inside(config, "vit_config"), config.fields.top
    width, heads, patch = (
        int(found[key]) for key in ("hidden_size", "num_attention_heads", "patch_size")
    )
    words, place = int(top["visual_vocab_size"]), "visual_tokenizer.vit.vision_model"
    head, places = words - INDICATORS, int(found["image_size"]) // patch
    layers, inner = int(found["num_hidden_layers"]), int(found["intermediate_size"])
    is_kept, is_turned = found.get("preserve_original_pe"), found.get("use_rope")
    pixels = int(found.get("num_channels", 3)) * patch**2 * int(found.get("temporal_patch_size", 1))
    return [
        whole("patch_embedding", width, inputs=pixels, bias=True),
        *[whole("position_embedding", places**2, inputs=width)] * bool(is_kept),
        *blocks(layers, width, inner, heads, f"{place}.encoder.layers"),
        whole("post_layernorm", width, bias=True),
        whole("head.0", head, inputs=width * int(found["hidden_stride"]) ** 2),
        whole("head.1", head, bias=True),
        whole("vte", words, inputs=config.hidden),
        *[whole("inv_freq", width // heads // 4, dtype="float32")] * bool(is_turned),
    ]


def _ovis2(config: Config, _size: Sizes) -> list[Part]:
    """Return the tower of Ovis 1.6 and 2 where it is AIMv2, and words of its own."""
    found = inside(config, "visual_tokenizer_config")
    backbone, stride, words = found["backbone_config"], found["hidden_stride"], found["vocab_size"]
    if not str(backbone["model_type"]).startswith("aimv2") or backbone.get("use_bias"):
        raise Unknown("such a tower of Ovis is not described")
    tower, hidden = vit(backbone.get, 1024, 2816, 8, 24, 14, 224), config.hidden
    width, head, place = tower.width, words - OVIS_INDICATORS, "visual_tokenizer.backbone.trunk"
    return [
        *tower.embedded(),
        whole("patchifier.norm", width),
        *tower.layers(f"{place}.blocks", DOTS, bias=bool(backbone.get("qkv_bias")), **GATED),
        whole("head.0", head, inputs=width * stride**2),
        whole("head.1", head, bias=True),
        whole("vte", words, inputs=hidden),
    ]


def _nvlm(config: Config, size: Sizes) -> list[Part]:
    """Return the tower of NVLM-D: InternVL's with more heads, and a projector without biases."""
    width, heads = size("hidden_size", 3200), size("num_attention_heads", 25)
    each, more, middle = width // heads, heads + DUMMY_HEADS, config.size("intermediate_size")
    *tower, norm, _first, _second = internvl(config, size)
    place = "vision_model.encoder.layers.0.attn"
    bias = bool(inside(config, "vision_config").get("qkv_bias"))
    qkv = column(f"{place}.qkv", *3 * [(more, each)], inputs=width, bias=bias, evenly=more)
    proj = row(f"{place}.proj", more * each, width, bias=True, evenly=more)
    own = {one.name: one for one in (qkv, proj)}
    wide = norm.outputs[0][0]
    return [
        *(own.get(one.name, one) for one in tower),
        norm,
        whole("mlp1.1", middle, inputs=wide),
        whole("mlp1.3", config.hidden, inputs=middle),
    ]


WRAPPED: Mapping[str, Tower] = {
    "aya_vision": _aya,
    "eagle_2_5_vl": _eagle,
    "phi4-siglip": _phi4,
    **dict.fromkeys(("Keye", "KeyeVL1_5"), _keye),
    **dict.fromkeys(("ovis2_5", "ovis2_6", "ovis2_6_moe"), _ovis),
    "NVLM_D": _nvlm,
    "ovis": _ovis2,
}
"""model_type of the whole file -> its tower."""
