"""Weights of towers whose patches another attention gathers: MiniCPM-V and -o, DeepSeek-VL2.

Source: `minicpmv.py`, `minicpmo.py`, `idefics2_vision_model.py` and `deepseek_vl2.py` in
`model_executor/models`, 0.23 and 0.33.
"""

from collections.abc import Mapping
from itertools import pairwise

from workbench.core.weights import Part
from workbench.models.weights.joined_vision import SO400M, Tower, Vit, vit
from workbench.models.weights.parts import Config, Sizes, cut, row, whole
from workbench.models.weights.sound import listening
from workbench.models.weights.stored import Unknown

SIDE, FRAMES = 70, 36_000
"""Places of an image to a side, and of a video, for which a table is made."""
GATHERING = ("2.5", "2.6", "4.0", "4.5")
"""Versions that have such an attention; the last one sees videos, too."""
VIT = Vit(width=1152, inner=4304, heads=16, depth=27, patch=14, image=384, channels=3)
"""DeepSeek-VL2's tower, which is one of timm's (vit_so400m_patch14_siglip_384)."""


def _gathered(config: Config, width: int, queries: int, *, sees_video: bool) -> list[Part]:
    """Return the attention that makes so many tokens of an image, which every rank has whole."""
    hidden, place = config.hidden, "resampler"
    tables = [(SIDE**2, True), (FRAMES, sees_video)]
    return [
        whole("query", queries, inputs=hidden),
        *2 * [whole("proj", hidden, inputs=hidden)],
        whole(f"{place}.kv_proj", hidden, inputs=width, is_linear=True),
        whole("attn.in_proj", 3 * hidden, inputs=hidden, bias=True),
        *4 * [whole("bias", hidden)],
        *3 * [whole("norm", hidden)],
        *(whole("pos_embed", n, inputs=hidden, dtype="float32") for n, used in tables if used),
    ]


def _minicpm(config: Config, size: Sizes) -> list[Part]:
    """Return the tower of MiniCPM-V."""
    top, version = config.fields.top, str(config.raw("version"))
    if version not in GATHERING:
        raise Unknown(f"the tower of MiniCPM-V {version[:10]} is not described")
    tower, queries = vit(size, *SO400M[:5], 980), config.size("query_num", default=64)
    used = tower._replace(depth=tower.depth - bool(top.get("drop_vision_last_layer", True)))
    return [
        *tower.embedded(),
        *used.layers("vpm.encoder.layers"),
        whole("post_layernorm", tower.width, bias=True),
        *_gathered(config, tower.width, queries, sees_video=version == GATHERING[-1]),
    ]


def _minicpm_o(config: Config, size: Sizes) -> list[Part]:
    """Return the towers of MiniCPM-o, which also listens."""
    return [*_minicpm(config, size), *listening(config)]


def _deepseek_vl2(config: Config, _size: Sizes) -> list[Part]:
    """Return the tower of DeepSeek-VL2: ranks divide its MLPs alone."""
    top = config.fields.top
    projector = top.get("projector_config") or {}
    known = projector.get("projector_type", "downsample_mlp_gelu") == "downsample_mlp_gelu"
    if top.get("quantization_config") or not known:
        raise Unknown("the tower of such a DeepSeek-VL2 is not described")
    width, inner = VIT.width, VIT.inner
    feed = [
        cut("fc1", inner, inputs=width, bias=True),
        row("fc2", inner, width, bias=True, is_linear=False),
    ]
    norm, square = whole("norm", width, bias=True), whole("proj", width, inputs=width, bias=True)
    layer = [*2 * [norm], whole("qkv", 3 * width, inputs=width, bias=True), square, *feed]
    wide = width * int(projector.get("downsample_ratio", 2)) ** 2
    middle = config.hidden * int(projector.get("mlp_ratio", 1))
    sizes = [wide, *(int(projector.get("depth", 2)) - 1) * [middle], config.hidden]
    return [
        *2 * [whole("image_newline", config.hidden)],
        *VIT.embedded(),
        *VIT.depth * layer,
        *2 * [norm],
        whole("latent", width),
        *2 * [square],
        whole("kv", 2 * width, inputs=width, bias=True),
        *feed,
        *(whole("projector", out, inputs=inputs, bias=True) for inputs, out in pairwise(sizes)),
    ]


RESAMPLED: Mapping[str, Tower] = {
    "minicpmv": _minicpm,
    "minicpmo": _minicpm_o,
    "DeepseekVLV2ForCausalLM": _deepseek_vl2,
}
"""model_type of the whole file, or the class that several of them share -> its tower."""
