"""What `--quantization` of 0.33 makes of plain weights.

Source: `_ONLINE_SHORTHANDS` of config/quantization.py, and `get_quant_config`.
"""

from workbench.core.missing_kernels import NO_SCALED_LINEAR, no_linear_kernel
from workbench.core.online import (
    FP8,
    FP8_BLOCK,
    FP8_TENSOR,
    MXFP4,
    MXFP8,
    NVFP4,
    PER_CHANNEL,
    UNDESCRIBED,
    Need,
    OnlineMethod,
)
from workbench.core.platforms import FP8_SINCE, SM10X

BLACKWELL = Need(
    device=f"compute capability {SM10X}.x for experts",
    vllm_text="nvfp4_per_token online quantization requires a Blackwell (SM100) GPU.",
    met=lambda place: place.capability[0] == SM10X,
    of_experts=True,
)
FP8_PRODUCTS = Need(
    device="compute capability 8.9 or later, or ROCm",
    vllm_text="FP8 PTPC online quant requires a kernel that honors per-token activation",
    met=lambda place: place.platform != "cuda" or place.capability >= FP8_SINCE,
)
NOT_A_CPU = Need(
    device="a GPU",
    vllm_text=no_linear_kernel("MXFP4"),
    met=lambda place: place.platform != "cpu",
)
SCALED_FP8_ON_GFX = ("gfx94", "gfx95", "gfx12")
"""AMD devices with kernels of linear layers in fp8 (`is_supported` of
model_executor/kernels/linear/scaled_mm)."""
SCALED_PRODUCTS = Need(
    device="an AMD device of gfx94*, gfx95* or gfx12*, or another platform",
    vllm_text=NO_SCALED_LINEAR,
    met=lambda place: place.is_gfx(*SCALED_FP8_ON_GFX),
)
ONLINE_METHODS = {
    # get_quant_config takes fp8 for fp8_per_tensor where the checkpoint is plain
    "fp8": OnlineMethod(linear=FP8_TENSOR, experts=FP8_TENSOR, needs=(SCALED_PRODUCTS,)),
    "fp8_per_tensor": OnlineMethod(
        linear=FP8_TENSOR, experts=FP8_TENSOR, composes=True, needs=(SCALED_PRODUCTS,)
    ),
    "fp8_per_block": OnlineMethod(linear=FP8_BLOCK, experts=FP8_BLOCK, composes=True),
    "fp8_per_channel": OnlineMethod(
        linear=PER_CHANNEL,
        experts=PER_CHANNEL,
        composes=True,
        needs=(FP8_PRODUCTS, SCALED_PRODUCTS),
    ),
    # resolve_quantization_config leaves both to the checkpoint
    "mxfp8": OnlineMethod(linear=MXFP8, experts=MXFP8),
    "mxfp4": OnlineMethod(linear=MXFP4, experts=MXFP4, needs=(NOT_A_CPU,)),
    "nvfp4_per_token": OnlineMethod(experts=NVFP4, composes=True, needs=(BLACKWELL,)),
    "int8_per_channel_weight_only": OnlineMethod(experts=PER_CHANNEL, composes=True),
    "experts_int8": OnlineMethod(experts=PER_CHANNEL),
    # both take the experts for stored ones, the first takes all layers for them
    "deepseek_v4_fp8": OnlineMethod(linear=FP8, experts=MXFP4, scales_cache=True, restores=True),
    "gpt_oss_mxfp4": OnlineMethod(experts=MXFP4),
    "humming": UNDESCRIBED,
}
"""Word -> method."""
