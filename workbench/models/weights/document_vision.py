"""Weights of towers for images of models that read documents.

Source: `deepseek_ocr.py`, `paddleocr_vl.py` and `dots_ocr.py` in `model_executor/models`, 0.23 and
0.33.
"""

from collections.abc import Mapping

from workbench.core.weights import Part
from workbench.models.weights.joined_vision import (
    GATED,
    QWEN,
    Tower,
    Vit,
    as_siglip,
    blocks,
    clip,
    inside,
    vit,
)
from workbench.models.weights.parts import Config, Sizes, column, row, whole

DOTS = (*QWEN[:2], "mlp.fc13", "mlp.fc2")
SAM_PLACES, SAM_WIDTH, SAM_LAYERS, SAM_WHOLE = 64, 768, 12, 4
"""Of the first tower of DeepSeek-OCR, which no file changes: patches to a side, elements, layers,
and how many of these attend to all patches. The others attend to `SAM_WINDOW` patches to a side."""
SAM_WINDOW, SAM_HEAD = 14, 64
SAM_NECK = (256, 512)
"""Channels after the layers, each half as many places as before."""
QWEN_SMALL, QWEN_HEAD, QUERIES = (896, (128, 4864), 24), 64, (144, 256)
"""Of the second tower of DeepSeek-OCR 2: width, keys and inside of its MLP, layers; and the vectors
that it reads an image of either size by."""
CLIP = Vit(width=1024, inner=4096, heads=16, depth=24, patch=14, image=224, channels=3)
"""The second tower of DeepSeek-OCR, which reads what the first one makes."""


def _sam(last: int) -> list[Part]:
    """Return SAM, which every rank has whole. last: channels after it."""
    width, head, inner = SAM_WIDTH, SAM_HEAD, 4 * SAM_WIDTH
    first, second = SAM_NECK
    layer = [
        *2 * [whole("norm", width, bias=True)],
        whole("qkv", 3 * width, inputs=width, bias=True),
        whole("proj", width, inputs=width, bias=True),
        whole("lin1", inner, inputs=width, bias=True),
        whole("lin2", width, inputs=inner, bias=True),
    ]
    sides = {SAM_PLACES: SAM_WHOLE, SAM_WINDOW: SAM_LAYERS - SAM_WHOLE}
    return [
        whole("sam.pos_embed", SAM_PLACES**2, inputs=width),
        whole("sam.patch_embed", width, inputs=3 * 16**2, bias=True),
        *SAM_LAYERS * layer,
        *(
            whole("rel_pos", 2 * side - 1, inputs=head)
            for side, count in sides.items()
            for _ in range(2 * count)
        ),
        whole("neck.0", first, inputs=width),
        whole("neck.2", first, inputs=9 * first),
        *2 * [whole("neck.norm", first, bias=True)],
        whole("net_2", second, inputs=9 * first),
        whole("net_3", last, inputs=9 * second),
    ]


def _deepseek_ocr(config: Config, _size: Sizes) -> list[Part]:
    """Return two towers, one after the other: SAM and CLIP."""
    hidden = config.hidden
    return [
        *2 * [whole("image_newline", hidden)],
        *_sam(CLIP.width),
        *clip(CLIP, "vision_model.transformer.layers", has_ids=True),
        whole("projector", hidden, inputs=2 * CLIP.width, bias=True),
    ]


def _deepseek_ocr2(config: Config, _size: Sizes) -> list[Part]:
    """Return SAM, and a Qwen2 of 0.5B that reads what it makes; every rank has both whole."""
    top, width, (keys, inner), layers = config.fields.top, *QWEN_SMALL
    square = whole("proj", width, inputs=width)
    layer = [
        *(square._replace(bias=True), square),
        *2 * [whole("kv", keys, inputs=width, bias=True)],
        *3 * [whole("mlp", inner, inputs=width)],
        *2 * [whole("norm", width)],
    ]
    return [
        whole("view_seperator", config.hidden),
        *_sam(width),
        *layers * layer,
        whole("norm", width),
        whole("query", sum(QUERIES), inputs=width),
        whole("inv_freq", QWEN_HEAD, dtype="float32"),
        whole("projector", config.hidden, inputs=top["projector_config"]["input_dim"], bias=True),
    ]


def _paddle(config: Config, size: Sizes) -> list[Part]:
    """Return the tower of PaddleOCR-VL: SigLIP with angles, and a projector of two layers."""
    tower = vit(size, 768, 3072, 12, 12, 14, 224)
    width, layers = tower.width, tower.layers("visual.vision_model.encoder.layers")
    wide = width * size("spatial_merge_size", 2) ** 2
    return [
        *tower.embedded(),
        whole("position_ids", tower.places, inputs=2, dtype="float32"),
        *as_siglip(config, layers, width, tower.inner),
        *2 * [whole("norm", width, bias=True)],
        whole("linear_1", wide, inputs=wide, bias=True),
        whole("linear_2", config.hidden, inputs=wide, bias=True),
        whole("inv_freq", width // tower.heads // 4, dtype="float32"),
    ]


def _dots(config: Config, size: Sizes) -> list[Part]:
    """Return the tower of dots.ocr, whose layer after the patches is never quantized."""
    width, heads = size("embed_dim", 1536), size("num_attention_heads", 12)
    wide, channels = width * size("spatial_merge_size", 2) ** 2, size("num_channels", 3)
    layers = size("num_hidden_layers", 42)
    inner = size("intermediate_size", 4224)
    bias = bool(inside(config, "vision_config").get("use_bias"))
    return [
        whole("patch_embed", width, inputs=channels * size("patch_size", 14) ** 2, bias=True),
        *2 * [whole("norm", width)],
        *blocks(layers, width, inner, heads, "vision_tower.blocks", DOTS, bias=bias, **GATED),
        whole("ln_q", width, bias=True),
        column("merger.mlp.0", wide, inputs=wide, bias=True, is_linear=False),
        row("merger.mlp.2", wide, size("hidden_size", 1536), bias=True, is_linear=False),
        whole("inv_freq", width // heads // 4, dtype="float32"),
    ]


DOCUMENTS: Mapping[str, Tower] = {
    **dict.fromkeys(("DeepseekOCRForCausalLM", "UnlimitedOCRForCausalLM"), _deepseek_ocr),
    "DeepseekOCR2ForCausalLM": _deepseek_ocr2,
    "paddleocr_vl": _paddle,
    "dots_ocr": _dots,
}
"""model_type of the whole file, or the class that several of them share -> its tower."""
