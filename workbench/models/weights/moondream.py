"""Weights of Moondream 3, whose configuration file has no sizes.

Source: `moondream3.py` in `model_executor/models` and in `transformers_utils/configs`, 0.23 and
0.33.
"""

from workbench.core.weights import Part
from workbench.models.weights.joined_vision import Vit
from workbench.models.weights.parts import (
    Config,
    Sizes,
    attention,
    column,
    cut,
    mlp,
    norms,
    row,
    whole,
)

VIT = Vit(width=1152, inner=4304, heads=16, depth=27, patch=14, image=378, channels=3)
DENSE, EXPERT, FIRST, JOINT = 8192, 1024, 4, 8192
"""Sizes of MLPs and of an expert, the first layer with experts, and the size of the projector."""
NAMES = ("attn.qkv_proj", "attn.out_proj", "mlp.fc1", "mlp.fc2")


def moondream_layer(config: Config, number: int) -> list[Part]:
    """Return a layer: heads have a temperature of their own, experts are whole and not quantized.

    A rank has a share of the experts, and a table of all.
    """
    found, hidden, count = config.attention, config.hidden, config.size("num_local_experts")
    qkv = found.head_size * (found.num_heads + 2 * found.num_kv_heads)
    parts = [
        *attention(config, "attn", bias=True, out_bias=True, out="out_proj"),
        cut("attn.tau_alpha", found.num_heads),
        *2 * [cut("attn.tau", found.num_heads, inputs=qkv)],
        *norms(config, 1, bias=True),
    ]
    if number < FIRST:
        return [*parts, *mlp(config, "mlp", DENSE, gated=False, bias=True)]
    return [
        *parts,
        cut("mlp.fc1_weight", count, inputs=2 * EXPERT * hidden),
        cut("mlp.fc2_weight", count, inputs=EXPERT * hidden),
        cut("mlp.fused_w1_bias", count, inputs=2 * EXPERT, dtype="float32"),
        whole("mlp.gate", count, inputs=hidden, bias=True),
        whole("mlp.expert_map", count, dtype="float32"),  # 32-bit integers
    ]


def moondream_tower(config: Config, _size: Sizes) -> list[Part]:
    """Return the tower, and what makes the patches of the whole image and of a part words."""
    return [
        *VIT.embedded(),
        *VIT.layers("vision.blocks", NAMES),
        whole("post_ln", VIT.width, bias=True),
        column("vision_proj.fc1", JOINT, inputs=2 * VIT.width, bias=True),
        row("vision_proj.fc2", JOINT, config.hidden, bias=True),
    ]
