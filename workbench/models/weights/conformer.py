"""Weights of the towers of Phi-4-MM: SigLIP for images, and a conformer for sound.

Source: `phi4mm.py` and `phi4mm_audio.py` in `model_executor/models`, 0.23 and 0.33.
"""

from typing import Any

from workbench.core.weights import Part
from workbench.models.weights.joined_vision import Vit
from workbench.models.weights.parts import Config, Sizes, whole
from workbench.models.weights.stored import Unknown

PHI = Vit(width=1152, inner=4304, heads=16, depth=26, patch=14, image=448, channels=3)
"""Phi-4-MM's tower, SigLIP without its last layer."""
NEMO = {"time_reduction": 8, "causal": True, "batch_norm": False, "bias_in_glu": True}
"""What the described conformer of Phi-4-MM has."""
HALVINGS = 3
"""Its first convolutions."""


def convolution(name: str, outputs: int, inputs: int, edge: int, **more: Any) -> Part:
    """Return a convolution over so many places to a side."""
    return whole(name, outputs, inputs=inputs * edge**2, **more)


def phi4mm(config: Config, _size: Sizes) -> list[Part]:
    """Return the towers of Phi-4-MM: SigLIP, and a conformer that every rank has whole."""
    return [
        *2 * [whole("separator", PHI.width)],
        *PHI.embedded(),
        *PHI.layers("vision_encoder.img_processor.encoder.layers", is_linear=False),
        *_projection(config.hidden, PHI.width),
        *_conformer(config),
        whole("dev_type", 1),
    ]


def _projection(hidden: int, width: int) -> list[Part]:
    return [whole("projection", hidden, inputs=one, bias=True) for one in (width, hidden)]


def _conformer(config: Config) -> list[Part]:
    settings = config.mapping("audio_processor").get("config") or {}
    if any(settings.get(key, value) != value for key, value in NEMO.items()):
        raise Unknown("such a tower for sound of Phi-4-MM is not described")
    width, inner, bins = (
        int(settings[key]) for key in ("attention_dim", "linear_units", "input_size")
    )
    far = int(settings["relative_attention_bias_args"]["t5_bias_max_distance"])
    kernel, count = int(settings["kernel_size"]), int(settings["num_blocks"])
    rows = bins
    for _ in range(HALVINGS):
        rows = (rows + 1) // 2
    square = whole("proj", width, inputs=width, bias=True)
    feed = [
        whole("norm", width, bias=True),
        whole("linear", 2 * inner, inputs=width, bias=True),
        whole("net", width, inputs=inner, bias=True),
    ]
    layer = [
        *2 * feed,
        *4 * [square],
        *3 * [whole("norm", width, bias=True)],
        *2 * [whole("glu", width)],
        whole("ext_pw_conv_1d", 2 * width, inputs=width, bias=True),
        *2 * [square],
        whole("dw_conv", width, inputs=kernel, bias=True),
    ]
    return [
        *HALVINGS * [convolution("conv", width, 1, 3, bias=True)],
        *(HALVINGS - 1) * [square],
        whole("embed.out", width, inputs=width * rows, bias=True),
        whole("bias_values", 2 * far, inputs=int(settings["attention_heads"])),
        *2 * [whole("global", bins)],
        *count * layer,
        *2 * _projection(config.hidden, width),
    ]
