"""Weights of towers for images that are CLIP ViT-L/14 of 336 pixels, whatever the file says.

Source: `phi3v.py` and `molmo.py` in `model_executor/models`, 0.23 and 0.33.
"""

from collections.abc import Mapping

from workbench.core.weights import Part
from workbench.models.weights.joined_vision import Tower, Vit, clip
from workbench.models.weights.parts import Config, Sizes, column, cut, row, whole
from workbench.models.weights.stored import Unknown

CLIP = Vit(width=1024, inner=4096, heads=16, depth=23, patch=14, image=336, channels=3)
"""CLIP ViT-L/14 of 336 pixels up to its second last layer, which Phi-3-V and Molmo read."""
MERGED = 4
"""Patches of a token."""
POOLED = 2
"""Layers of Molmo's tower whose outputs are read together."""


def _phi3(config: Config, _size: Sizes) -> list[Part]:
    """Return the tower of Phi-3-V, and a second embedding of words."""
    wide = CLIP.width * MERGED
    rows = -(-config.size("vocab_size") // 64) * 64
    place = "vision_embed_tokens.img_processor.vision_model.encoder.layers"
    return [
        cut("embed_tokens", rows, inputs=config.hidden),
        *2 * [whole("separator", wide)],
        *clip(CLIP, place),
        whole("position_ids", CLIP.places + 1, inputs=2, dtype="float32"),
        whole("img_projection.0", config.hidden, inputs=wide, bias=True),
        whole("img_projection.2", config.hidden, inputs=config.hidden, bias=True),
    ]


def _molmo(config: Config, _size: Sizes) -> list[Part]:
    """Return the tower of Molmo, and attention that pools its patches."""
    if config.fields.top.get("vision_backbone"):
        raise Unknown("a tower of Molmo with sizes of its own is not described")
    width, inner = CLIP.width, config.size("intermediate_size") // 2
    heads = (CLIP.heads, width // CLIP.heads)
    pooling, projector = "vision_backbone.image_pooling_2d", "vision_backbone.image_projector"
    apart = {"inputs": POOLED * width, "bias": True}
    return [
        *clip(CLIP, "vision_backbone.image_vit.transformer.resblocks"),
        whole("pad_embed", 2, inputs=POOLED * width),
        *(column(f"{pooling}.w{one}", heads, **apart) for one in "qkv"),
        row(f"{pooling}.wo", width, width, bias=True),
        column(f"{projector}.merged_linear", inner, inner, inputs=width),
        row(f"{projector}.down_proj", inner, config.hidden),
    ]


CLIPPED: Mapping[str, Tower] = {"phi3_v": _phi3, "molmo": _molmo}
"""model_type of the whole file -> its tower."""
