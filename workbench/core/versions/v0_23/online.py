"""What `--quantization` of 0.23 makes of plain weights.

Source: `_ONLINE_SHORTHANDS` of config/quantization.py, and `get_quant_config`.
"""

from workbench.core import expert_formats
from workbench.core.online import (
    BITS_AND_BYTES,
    FP8_BLOCK,
    FP8_TENSOR,
    MXFP4,
    MXFP8,
    PER_CHANNEL,
    UNDESCRIBED,
    Need,
    OnlineMethod,
)

FP8_ON_GFX = ("gfx9", "gfx12")
"""AMD devices with fp8 experts (`RocmPlatform.supports_fp8`)."""
NOT_ON_ROCM = Need(
    device="a platform other than ROCm for experts",
    vllm_text="No MXFP8 MoE backends available.",
    met=lambda place: place.platform != "rocm",
    of_experts=True,
)
NO_MXFP4 = NOT_ON_ROCM._replace(vllm_text=expert_formats.no_backend(expert_formats.MXFP4))
FP8_EXPERTS = Need(
    device="an AMD device of gfx9* or gfx12*, or another platform, for experts",
    vllm_text=expert_formats.no_backend(expert_formats.FP8),
    met=lambda place: place.is_gfx(*FP8_ON_GFX),
    of_experts=True,
)
GPU_OF_INT8 = Need(
    device="CUDA or ROCm for experts",
    vllm_text=expert_formats.no_backend(expert_formats.INT8),
    met=lambda place: place.platform in {"cuda", "rocm"},
    of_experts=True,
)
FP4_EXPERTS = OnlineMethod(experts=MXFP4)
METHODS = {
    # Fp8Config.get_quant_method gives attention layers scales as well
    "fp8": OnlineMethod(
        linear=FP8_TENSOR, experts=FP8_TENSOR, scales_cache=True, needs=(FP8_EXPERTS,)
    ),
    "fp8_per_tensor": OnlineMethod(linear=FP8_TENSOR, experts=FP8_TENSOR, needs=(FP8_EXPERTS,)),
    "fp8_per_block": OnlineMethod(linear=FP8_BLOCK, experts=FP8_BLOCK),
    "mxfp8": OnlineMethod(linear=MXFP8, experts=MXFP8, needs=(NOT_ON_ROCM,)),
    **dict.fromkeys(
        ("int8_per_channel_weight_only", "experts_int8"),
        OnlineMethod(experts=PER_CHANNEL, needs=(GPU_OF_INT8,)),
    ),
    # Mxfp4Config takes the experts for stored ones, and the other layers for plain
    "gpt_oss_mxfp4": FP4_EXPERTS,
    "mxfp4": FP4_EXPERTS._replace(needs=(NO_MXFP4,)),
    "deepseek_v4_fp8": FP4_EXPERTS._replace(linear=FP8_TENSOR, scales_cache=True, restores=True),
    "bitsandbytes": OnlineMethod(linear=BITS_AND_BYTES, experts=BITS_AND_BYTES),
    **dict.fromkeys(("gguf", "humming"), UNDESCRIBED),
}
# every create_weights makes two outputs of an expert
ONLINE_METHODS = {word: one._replace(gates_experts=True) for word, one in METHODS.items()}
"""Word -> method."""
