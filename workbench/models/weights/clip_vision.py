"""Weights of towers for images that are CLIP ViT-L/14 of 336 pixels, whatever the file says.

Source: `phi3v.py` and `molmo.py` in `model_executor/models`, 0.23 and 0.33.
"""

from collections.abc import Mapping

from workbench.core.weights import Part
from workbench.models.weights.joined_vision import Tower, blocks
from workbench.models.weights.parts import Config, Sizes, column, cut, row, whole
from workbench.models.weights.stored import Unknown

CLIP = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24}
CLIP |= {"num_attention_heads": 16, "image_size": 336, "patch_size": 14}
"""CLIP ViT-L/14 of 336 pixels, whose second last layer Phi-3-V and Molmo read."""
USED, PLACES = CLIP["num_hidden_layers"] - 1, 24**2 + 1
MERGED = 4
"""Patches of a token."""
POOLED = 2
"""Layers of Molmo's tower whose outputs are read together."""


def _clip(place: str) -> list[Part]:
    """Return the layers of CLIP up to the second last, and the norm before them."""
    width = CLIP["hidden_size"]
    return [
        whole("class_embedding", width),
        whole("patch_embedding", width, inputs=3 * CLIP["patch_size"] ** 2),
        whole("position_embedding", PLACES, inputs=width),
        whole("pre_layrnorm", width, bias=True),
        *blocks(USED, width, CLIP["intermediate_size"], CLIP["num_attention_heads"], place),
    ]


def _phi3(config: Config, _size: Sizes) -> list[Part]:
    """Return the tower of Phi-3-V, and a second embedding of words."""
    wide = CLIP["hidden_size"] * MERGED
    rows = -(-config.size("vocab_size") // 64) * 64
    place = "vision_embed_tokens.img_processor.vision_model.encoder.layers"
    return [
        cut("embed_tokens", rows, inputs=config.hidden),
        *2 * [whole("separator", wide)],
        *_clip(place),
        whole("position_ids", PLACES, inputs=2, dtype="float32"),
        whole("img_projection.0", config.hidden, inputs=wide, bias=True),
        whole("img_projection.2", config.hidden, inputs=config.hidden, bias=True),
    ]


def _molmo(config: Config, _size: Sizes) -> list[Part]:
    """Return the tower of Molmo, and attention that pools its patches."""
    if config.fields.top.get("vision_backbone"):
        raise Unknown("a tower of Molmo with sizes of its own is not described")
    width, inner, heads = (
        CLIP["hidden_size"],
        config.size("intermediate_size") // 2,
        (CLIP["num_attention_heads"], CLIP["hidden_size"] // CLIP["num_attention_heads"]),
    )
    pooling, projector = "vision_backbone.image_pooling_2d", "vision_backbone.image_projector"
    apart = {"inputs": POOLED * width, "bias": True}
    return [
        *_clip("vision_backbone.image_vit.transformer.resblocks"),
        whole("pad_embed", 2, inputs=POOLED * width),
        *(column(f"{pooling}.w{one}", heads, **apart) for one in "qkv"),
        row(f"{pooling}.wo", width, width, bias=True),
        column(f"{projector}.merged_linear", inner, inner, inputs=width),
        row(f"{projector}.down_proj", inner, config.hidden),
    ]


CLIPPED: Mapping[str, Tower] = {"phi3_v": _phi3, "molmo": _molmo}
"""model_type of the whole file -> its tower."""
