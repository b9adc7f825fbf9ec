"""The largest image, or video, that a tower gets while vLLM profiles it."""

from workbench.core.images import Image
from workbench.core.weights import Part
from workbench.models.weights.joined_vision import QWEN
from workbench.models.weights.more_vision import MERGER
from workbench.models.weights.parts import Config

JOINT = {name: f"visual.merger.{name}" for name in MERGER}
"""Layers that join patches -> as Qwen3-VL's class calls them."""
JOINS = (JOINT["linear_fc2"], MERGER["linear_fc2"])
LARGEST, FOURFOLD = 16_384, 4
"""Tokens of the largest image (of 12,845,056 or 16,777,216 pixels, as their
preprocessor_config.json files say), each of four patches."""
FRAMES = {
    **dict.fromkeys(("qwen3_5", "qwen3_5_moe", "qwen3_vl", "qwen3_vl_moe"), 1),
    "qwen2_5_vl": 7,
}
"""model_type -> the images that its longest video is: of Qwen2.5-VL 14 (_MAX_FRAMES_PER_VIDEO),
two of which are one; a video of Qwen3-VL is as large as an image at most (0.23 and 0.33)."""


def largest_image(config: Config, tower: list[Part] | None) -> Image | None:
    """Return what the profiling run shows a tower; None where config.json does not say it.

    At the peak there are, in attention, inputs, their norm, positions and output of a patch, and of
    a rank's heads what is rotated (queries and keys, twice), all three together, and what they
    give; in an MLP with a gate, five states between layers, the gated outputs and their product.
    Angles are there twice, in windows four times.
    """
    frames = FRAMES.get(str(config.fields.top.get("model_type")))
    if not tower or frames is None:
        return None
    patch, last = tower[0], [one for one in tower if one.name in JOINS]
    angles = next(one.inputs for one in tower if one.name == "cos_sin_cache")
    [(width, _)], [(outputs, _)] = patch.outputs, last[0].outputs
    gated = next((one.outputs[0][0] for one in tower if one.name.endswith(QWEN[2])), 0)
    return Image(
        tokens=LARGEST,
        patches=LARGEST * FOURFOLD,
        pixels=patch.inputs,
        whole=patch.inputs + (5 * width + 4 * angles if gated else 4 * width + 2 * angles),
        divided=3 * gated or 8 * width,
        outputs=outputs,
        levels=len(last) - 1,
        frames=frames,
    )
