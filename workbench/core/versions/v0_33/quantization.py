"""What 0.33 reads of quantized checkpoints; else it is as in 0.23."""

from dataclasses import replace

from workbench.core.expert_formats import (
    FP8,
    MXFP4,
    NVFP4,
    PLAIN_EXPERTS,
    WNA16,
    no_backend,
)
from workbench.core.missing_kernels import lacks_no_kernel
from workbench.core.stages.adapters import XPU_UNADAPTED
from workbench.core.versions.v0_23 import V0_23
from workbench.core.versions.v0_33 import kernels
from workbench.core.versions.v0_33.online import ONLINE_METHODS

BEFORE = V0_23.quantization
QUANTIZATION = replace(
    BEFORE,
    methods=BEFORE.methods - {"bitsandbytes", "gguf"}
    | {"auto_awq", "fp8_per_channel", "nvfp4_per_token"},
    online_methods=ONLINE_METHODS,
    has_plain_awq=False,
    # quant_method "mxfp8" of a file is ModelOptMxFp8Config
    min_capabilities=dict.fromkeys(
        BEFORE.min_capabilities.keys() - {"modelopt_mixed"} | {"mxfp8"}, (8, 0)
    ),
    unlisted_methods={
        "rocm": BEFORE.unlisted_methods["rocm"] - {"inc"} | {"gptq_marlin", "nvfp4_per_token"},
        "xpu": frozenset(
            {
                *("awq_marlin", "experts_int8", "fbgemm_fp8", "fp_quant", "gptq_marlin", "humming"),
                *("int8_per_channel_weight_only", "modelopt_fp4", "modelopt_mixed"),
                *("modelopt_mxfp8", "nvfp4_per_token", "quark", "torchao"),
            }
        ),
    },
    modelopt_algorithms=BEFORE.modelopt_algorithms | {"MIXED_PRECISION"},
    unread_descriptions=kernels.UNREAD_DESCRIPTIONS,
    # should_ignore_layer and is_layer_skipped
    tests_merged_path=True,
    words_of_split_layer="Found different quantization schemes for the shards of ",
    # compressed-tensors has them only with a kv_cache_scheme, which is not read.
    kv_scale_methods=BEFORE.kv_scale_methods - {"compressed-tensors"},
    layers_without_scales=BEFORE.layers_without_scales - {"bamba", "lfm2", "plamo2"},
    reads_joined_weights=False,
    missing_kernels=kernels.MISSING_KERNELS,
    # INCWNA16LinearScheme chooses a kernel as compressed-tensors does
    grouped_on_rocm=BEFORE.grouped_on_rocm | {"auto-round"},
    # INCWna16Scheme.get_moe_method
    plain_experts={"cpu": ""},
    awq_in_any_share=frozenset({"cpu", "xpu"}),
    # verify_group_size_divides_partition
    words_of_cut_groups="Weight input_size_per_partition=",
    words_of_cut_experts="CompressedTensors WNA16 MoE with static group scales requires the MoE "
    "intermediate size per tensor-parallel partition",
    lacks_packed_experts=kernels.lacks_packed_experts,
    asks_no_kernel=lacks_no_kernel,
    smallest_refined_block=32,
    fp8_on_gfx=("gfx",),
    clamped_nvfp4=frozenset(),
    amx_experts=frozenset({FP8, MXFP4, WNA16}),
    no_invariant_experts={
        PLAIN_EXPERTS: {"cpu": no_backend(PLAIN_EXPERTS)},
        MXFP4: dict.fromkeys(("rocm", "cpu"), no_backend(MXFP4)),
        WNA16: {"cpu": no_backend(WNA16)},
    },
    # Nvfp4QuantizationEmulationTritonExperts.supports_lora
    unadapted_experts={**XPU_UNADAPTED, ("rocm", NVFP4): no_backend(NVFP4)},
)
