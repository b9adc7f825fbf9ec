"""What 0.23 reads of quantized checkpoints."""

from workbench.core.expert_formats import (
    MXFP4,
    NVFP4_ALONE,
    PLAIN_EXPERTS,
    WNA16,
    no_backend,
)
from workbench.core.platforms import EVERYWHERE
from workbench.core.quantization_rules import QuantizationRules
from workbench.core.stages.adapters import NO_ADAPTERS, XPU_UNADAPTED
from workbench.core.versions.v0_23 import kernels
from workbench.core.versions.v0_23.online import FP8_ON_GFX, ONLINE_METHODS

QUANTIZATION = QuantizationRules(
    # QuantizationMethods, and the name that INCConfig takes for its own
    methods=frozenset(
        {
            *("auto-round", "auto_gptq", "awq", "awq_marlin", "bitsandbytes", "compressed-tensors"),
            *("deepseek_v4_fp8", "experts_int8", "fbgemm_fp8", "fp8", "fp8_per_block"),
            *("fp8_per_tensor", "fp_quant", "gguf", "gpt_oss_mxfp4", "gptq", "gptq_marlin"),
            *("humming", "inc", "int8_per_channel_weight_only", "modelopt", "modelopt_fp4"),
            *("modelopt_mixed", "modelopt_mxfp8", "moe_wna16", "mxfp4", "mxfp8", "online"),
            *("quark", "torchao"),
        }
    ),
    # _ONLINE_SHORTHANDS, and the methods that quantize what is not serialized
    online_methods=ONLINE_METHODS,
    has_plain_awq=True,
    # get_min_capability of the methods
    min_capabilities={
        **dict.fromkeys(("modelopt", "modelopt_mixed"), (8, 9)),
        **dict.fromkeys(("experts_int8", "gpt_oss_mxfp4", "modelopt_mxfp8", "mxfp4"), (8, 0)),
    },
    # QuantizationMethods without Platform.supported_quantization
    unlisted_methods={
        "rocm": frozenset(
            {
                *("experts_int8", "fp_quant", "humming", "inc", "int8_per_channel_weight_only"),
                "moe_wna16",
            }
        )
    },
    # ModelArchConfigConvertorBase._normalize_quantization_config
    modelopt_algorithms=frozenset({"FP8", "FP8_PER_CHANNEL_PER_TOKEN", "FP8_PB_WO", "NVFP4"}),
    unread_descriptions=kernels.UNREAD_DESCRIPTIONS,
    # should_ignore_layer of compressed_tensors/utils.py and quark/utils.py
    words_of_split_layer="Found a different quantization schemes for ",
    kv_scale_methods=frozenset(
        {"fp8", "compressed-tensors", "modelopt", "modelopt_fp4", "modelopt_mxfp8"}
    ),
    # `get_quant_method` of Fp8Config, CompressedTensorsConfig and ModelOptQuantConfigBase.
    layers_without_scales=frozenset(
        {
            *("bailing_moe", "bamba", "jamba", "lfm2", "lfm2_moe", "plamo2", "plamo3"),
            *("step3_text", "zamba2"),
        }
    ),
    # apply_xpu_w4a16_quant_layer and apply_cpu_w4a16_quant_layer
    plain_experts=dict.fromkeys(("xpu", "cpu"), "gptq"),
    reads_joined_weights=True,
    missing_kernels=kernels.MISSING_KERNELS,
    lacks_packed_experts=kernels.lacks_packed_experts,
    # CompressedTensorsWNA16MoEMethod
    asks_no_kernel=kernels.without_marlin,
    fp8_on_gfx=FP8_ON_GFX,
    clamped_nvfp4=frozenset({"DeepseekV4ForCausalLM"}),
    no_invariant_experts={
        PLAIN_EXPERTS: {"xpu": no_backend(PLAIN_EXPERTS)},
        MXFP4: {
            **dict.fromkeys(("cuda", "rocm"), no_backend(MXFP4)),
            **{name: f"Mxfp4 MoE backend '{name.upper()}' does not" for name in ("cpu", "xpu")},
        },
        WNA16: dict.fromkeys(("cuda", "xpu"), no_backend(WNA16)),
        # Marlin alone leaves inputs plain (select_nvfp4_moe_backend)
        NVFP4_ALONE: dict.fromkeys(EVERYWHERE, no_backend(NVFP4_ALONE)),
    },
    # CPUExpertsMxfp4, and those of ROCm
    unadapted_experts={
        **XPU_UNADAPTED,
        ("cpu", MXFP4): NO_ADAPTERS.format(platform="CPU"),
        ("rocm", MXFP4): no_backend(MXFP4),
    },
)
