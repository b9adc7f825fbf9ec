"""Weights of towers whose patches convolutions gather: HyperCLOVA X SEED Vision and Kanana-V.

Source: `hyperclovax_vision.py`, `kanana_v.py` and `fuyu.py` in `model_executor/models`, 0.23 and
0.33, and RegStage of timm.
"""

from collections.abc import Mapping
from typing import Any

from workbench.core.weights import Part
from workbench.models.weights.joined_vision import Tower, encoder, inside, qwen2, sizes_of
from workbench.models.weights.parts import Config, Sizes, column, whole
from workbench.models.weights.stored import Unknown

KERNEL, SQUEEZED, DEPTH, READ = 9, 4, 3, 2
"""Of a block of RegNet: places that it reads, channels to one of its excitation. Blocks of a stage
and layers after the second one."""


def _stage(depth: int, inputs: int, width: int) -> list[Part]:
    """Return so many blocks of RegNet, which every rank has whole."""
    parts: list[Part] = []
    for wide in (inputs, *(depth - 1) * [width]):
        norm, less = whole("bn", width, bias=True), wide // SQUEEZED
        parts += [whole("conv1", width, inputs=wide), whole("conv2", width, inputs=KERNEL)]
        parts += [whole("fc1", less, inputs=width, bias=True)]
        parts += [whole("fc2", width, inputs=less, bias=True)]
        parts += [whole("conv3", width, inputs=width), *3 * [norm]]
        parts += (wide != width) * [whole("downsample", width, inputs=wide), norm]
    return parts


def _gathered(depth: int, inputs: int, width: int, merged: int, out: int, read: int) -> list[Part]:
    """Return two stages, the second of which reads so many patches at once, and layers after."""
    more: dict[str, Any] = {"bias": True}
    return [
        *_stage(depth, inputs, width),
        *_stage(depth, merged * width, width),
        whole("readout", out, inputs=width, **more),
        *(read - 1) * [whole("readout", out, inputs=out, **more)],
    ]


def _hyperclova(config: Config, size: Sizes) -> list[Part]:
    """Return the tower of HyperCLOVA X SEED Vision, up to the layer that is read."""
    top, width = config.fields.top, size("hidden_size", 1152)
    if top.get("mm_projector_type") != "cabstractor":
        raise Unknown("such a projector of HyperCLOVA X is not described")
    tower = encoder(config, size, has_norm=False, read="use_nth_layer")
    places = (size("image_size", 384) // size("patch_size", 14)) ** 2
    return [
        *(one._replace(name=one.name.replace("tower", "model", 1)) for one in tower),
        *bool(top.get("proj_pos_emb", True)) * [whole("pos_emb", places, inputs=width)],
        *bool(top.get("proj_prenorm")) * [whole("prenorm", width, bias=True)],
        *_gathered(DEPTH, width, width, 1, config.hidden, READ),
        *bool(top.get("anyres")) * [whole("image_newline", config.hidden)],
    ]


def _kanana(config: Config, size: Sizes) -> list[Part]:
    """Return the tower of Kanana-V: that of Qwen2-VL without what joins its patches."""
    joint = sizes_of(config, "projector_config")
    patch, *layers, _norm, _first, _second, angles = qwen2(config, size)
    inputs, width = joint("encoder_hidden_size", 1280), joint("hidden_size", 1024)
    places = bool(inside(config, "projector_config").get("pos_emb", True))
    merged, read = joint("merge_size", 2) ** 2, joint("mlp_depth", 2)
    out = joint("output_hidden_size", 2048)
    return [
        *(one._replace(is_linear=False) for one in (patch, *layers, angles)),
        *places * [whole("pos_emb", joint("pos_emb_size", 576), inputs=inputs)],
        *_gathered(joint("depth", 3), inputs, width, merged, out, read),
    ]


def _fuyu(config: Config, _size: Sizes) -> list[Part]:
    """Return the one layer that reads Fuyu's patches."""
    top = config.fields.top
    pixels = int(top.get("num_channels", 3)) * int(top.get("patch_size", 30)) ** 2
    return [column("vision_embed_tokens", config.hidden, inputs=pixels, bias=True)]


ABSTRACTED: Mapping[str, Tower] = {
    "hyperclovax_vlm": _hyperclova,
    "kanana-1.5-v": _kanana,
    "fuyu": _fuyu,
}
"""model_type of the whole file -> its tower."""
