"""Weights of towers of other libraries, which every rank has whole, and of Bagel.

Source: `openvla.py` and `bagel.py` in `model_executor/models`, 0.23 and 0.33; VibeVoice's of the
Transformers library, 0.33.
"""

from collections.abc import Mapping

from workbench.core.weights import Part
from workbench.models.weights.joined_vision import (
    SO400M,
    Tower,
    Vit,
    as_siglip,
    inside,
    sizes_of,
    vit,
)
from workbench.models.weights.parts import Config, Sizes, column, row, whole

DINO, DINO_TOKENS = Vit._make((1024, 4096, 16, 24, 14, 224, 3)), 5
"""The first tower of OpenVLA, and its vectors next to those of patches."""
SIGLIP = Vit._make(SO400M)._replace(image=224)
"""The second one: vLLM takes no others."""
WIDER, STRIDES = 2, 2
"""How much each of VibeVoice's stages is wider than the last, and strides in a convolution."""


def _timm(tower: Vit, scales: int) -> list[Part]:
    """Return a tower of the library timm. scales: of each layer."""
    width, norm = tower.width, whole("norm", tower.width, bias=True)
    layer = [
        *2 * [norm],
        whole("attn.qkv", 3 * width, inputs=width, bias=True),
        whole("attn.proj", width, inputs=width, bias=True),
        *_wide(tower),
        *scales * [whole("gamma", width)],
    ]
    return [*tower.embedded(), *tower.depth * layer, norm]


def _wide(tower: Vit) -> list[Part]:
    first = whole("fc1", tower.inner, inputs=tower.width, bias=True)
    return [first, whole("fc2", tower.width, inputs=tower.inner, bias=True)]


def _openvla(config: Config, _size: Sizes) -> list[Part]:
    """Return two towers side by side, a last layer that pools, and a projector of three layers."""
    width, hidden = SIGLIP.width, config.hidden
    both = DINO.width + width
    square = whole("attn_pool", width, inputs=width, bias=True)
    return [
        whole("tokens", DINO_TOKENS, inputs=DINO.width),
        *_timm(DINO, scales=2),
        *_timm(SIGLIP, scales=0),
        whole("attn_pool.latent", width),
        *4 * [square],
        whole("attn_pool.norm", width, bias=True),
        *_wide(SIGLIP),
        column("projector.fc1", 4 * both, inputs=both, bias=True),
        row("projector.fc2", 4 * both, hidden, bias=True),
        column("projector.fc3", (1, hidden), inputs=hidden, bias=True),
    ]


def _vibevoice(config: Config, _size: Sizes) -> list[Part]:
    """Return what reads the sound of VibeVoice, and what it means, and a projector of each."""
    hidden = config.hidden
    return [
        part
        for kind in ("acoustic", "semantic")
        for part in (
            *_convolved(config, f"{kind}_tokenizer_encoder"),
            whole(
                f"model.multi_modal_projector.{kind}_linear_1",
                hidden,
                inputs=sizes_of(config, f"{kind}_tokenizer_encoder_config")("hidden_size", 64),
                bias=True,
                is_linear=True,
            ),
            whole("norm", hidden),
            whole(
                f"model.multi_modal_projector.{kind}_linear_2",
                hidden,
                inputs=hidden,
                bias=True,
                is_linear=True,
            ),
        )
    ]


def _convolved(config: Config, name: str) -> list[Part]:
    """Return stages of convolutions and MLPs, each wider than the last."""
    size, found = sizes_of(config, f"{name}_config"), inside(config, f"{name}_config")
    kernel, times, first = size("kernel_size", 7), size("ffn_expansion", 4), size("num_filters", 32)
    inputs, parts, width = size("channels", 1) * kernel, [], first
    for at, depth in enumerate(found["depths"]):
        width, place = first * WIDER**at, f"model.{name}.conv_layers.0.stage.0.ffn"
        layer = [
            *4 * [whole("norm", width)],
            whole(f"{place}.linear1", times * width, inputs=width, bias=True, is_linear=True),
            whole(f"{place}.linear2", width, inputs=times * width, bias=True, is_linear=True),
            whole("mixer.conv", width, inputs=kernel, bias=True),
        ]
        parts += [whole("conv", width, inputs=inputs, bias=True), *depth * layer]
        inputs = width * STRIDES * [*found["downsampling_ratios"], 0][at]
    return [*parts, whole("head.conv", size("hidden_size", 64), inputs=kernel * width, bias=True)]


def _bagel(config: Config, _size: Sizes) -> list[Part]:
    """Return SigLIP, what joins it, and a vector for every place of the largest image."""
    tower, hidden = vit(sizes_of(config, "vit_config"), 768, 3072, 12, 12, 16, 224), config.hidden
    side = int(config.fields.top.get("vit_max_num_patch_per_side", 70))
    layers = tower.layers("vit_model.vision_model.encoder.layers")
    return [
        *tower.embedded(),
        whole("position_ids", tower.places, inputs=2, dtype="float32"),
        *as_siglip(config, layers, tower.width, tower.inner),
        whole("post_layernorm", tower.width, bias=True),
        column("connector.fc1", hidden, inputs=tower.width, bias=True),
        row("connector.fc2", hidden, hidden, bias=True),
        whole("vit_pos_embed", side**2, inputs=hidden, dtype="float32"),
    ]


OF_LIBRARIES: Mapping[str, Tower] = {
    "openvla": _openvla,
    "VibeVoiceAsrForConditionalGeneration": _vibevoice,
    "BagelForConditionalGeneration": _bagel,
}
"""model_type of the whole file, or the class -> its tower."""
