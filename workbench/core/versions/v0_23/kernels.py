"""Formats of checkpoints that 0.23 has no kernel for on some devices.

Source: `TritonExperts._supports_quant_scheme`, and the lists of
`model_executor/kernels/linear/__init__.py`.
"""

from workbench.core import expert_formats
from workbench.core.described import (
    AUTO_ROUND_ELSEWHERE,
    COMPRESSED,
    EARLIER_AUTO_ROUND,
    GPTQ,
    GPTQ_INTEGERS,
    LOADING_WORDS,
    MISSING_KEY,
    MODELOPT,
    QUARK,
    UNREAD_ALGORITHM,
    Numbers,
    awq_integers,
    loading_words,
)
from workbench.core.formats import FOUR_BITS, Format
from workbench.core.missing_kernels import (
    BYTES_OF_COMPRESSED,
    BYTES_OF_GPTQ,
    FLOAT32_INTEGERS,
    FP4_WITHOUT_INPUTS,
    MXFP4_LINEAR,
    NO_GROUPS_LINEAR,
    NO_SCALED_LINEAR,
    QUARK_CHANNELS,
    QUARK_FP8,
    QUARK_INT4,
    ROWS_OF_EXPERTS,
    MissingKernel,
    Stored,
    bytes_on_rocm,
    cut_integers,
    of_quark,
    unpackable_on_rocm,
)
from workbench.core.model import Model
from workbench.core.online import MXFP4, OF_GPT_OSS, Place, as_stored
from workbench.core.platforms import EVERYWHERE, FP8_SINCE
from workbench.core.ranks import Padding
from workbench.core.weights import ROW

MARLIN_INPUTS = 64
"""What the inputs of a rank's share are a multiple of for Marlin, or of the group."""
MARLIN_OUTPUTS = 128


def _is_linear_in_blocks(stored: Stored) -> bool:
    found = stored.part.stored
    is_linear = stored.method == COMPRESSED and stored.part.experts == 1
    return is_linear and found is not None and found.is_square


def without_marlin(stored: Stored) -> bool:
    """Return whether experts of compressed-tensors have a shape that Marlin does not take."""
    # check_moe_marlin_supports_layer, by the inputs and the outputs of the second matrix
    found = stored.part.stored
    if stored.method != COMPRESSED or stored.part.shard != ROW or stored.part.experts == 1:
        return False
    if found is None or not found.is_packed or found.block is None:
        return False
    fits = stored.inputs % max(MARLIN_INPUTS, found.block[1]) == 0
    return not fits or stored.outputs % MARLIN_OUTPUTS != 0


def _asymmetric_without_marlin(place: Place, stored: Stored) -> bool:
    """Return whether experts with zero points are left to a kernel that takes none."""
    is_left = place.platform == "rocm" or without_marlin(stored)
    return stored.is_asymmetric_experts and is_left


def lacks_packed_experts(place: Place, numbers: Numbers, *, is_left: bool) -> bool:
    """Return whether experts in packed integers are of a kind that their class asserts away."""
    # CompressedTensorsWNA16MoEMethod on ROCm and for what Marlin leaves, that of Marlin elsewhere
    if place.platform == "rocm" or is_left:
        return numbers.strategy == "channel"
    return numbers.bits == 8 and numbers.group != -1


def _lacks_order(_place: Place, stored: Stored) -> bool:
    """Return whether a linear layer's groups are in an order that no kernel of ROCm takes."""
    found = stored.part.stored
    if stored.method != GPTQ or not stored.is_integer_linear or found is None:
        return False
    # TritonW4A16LinearKernel takes no order, ExllamaLinearKernel that of whole inputs
    takes = stored.dtype == "float16" and stored.inputs == stored.part.inputs
    return found.repeats_scales and not (takes and found.block != (1, 0))


def _fp4_alone(vllm_text: str, *, of_modelopt: bool) -> MissingKernel:
    def is_missing(place: Place, stored: Stored) -> bool:
        if stored.method.startswith(MODELOPT) != of_modelopt:
            return False
        return stored.is_fp4_linear and (of_modelopt or not place.invariant)

    return FP4_WITHOUT_INPUTS._replace(vllm_text=vllm_text, is_missing=is_missing)


def _lack_gates(model: Model) -> bool:
    """Return whether routed experts have an activation that FlashInfer's TRTLLM does not take."""
    return any(part.has_one_output for part in as_stored(model).weights.expert_parts)


def _as_gpt_oss(model: Model) -> bool:
    """Return whether experts have their kernel chosen as those of gpt-oss (Quark's have)."""
    return model.quantization in {*OF_GPT_OSS, QUARK}


def _lacks_experts(place: Place, found: Format) -> bool:
    """Return whether no kernel takes experts of Quark in MXFP4: with their inputs, or on AMD."""
    # select_mxfp4_moe_backend tries what takes such inputs; AiterExperts._supports_quant_scheme
    is_mxfp4 = found.is_micro and found.bits == FOUR_BITS
    if not is_mxfp4 or not (found.activation_bits or place.gfx):
        return False
    takes = place.has_aiter and place.gfx.startswith("gfx950")
    return not takes or found.activation_bits not in {0, FOUR_BITS}


FP4_ON_HOPPER = Padding(inner=128, hidden=128, format=MXFP4, majors=(9,), takes_bias=False)
"""FlashInfer's CUTLASS; Triton's kernels come first for the activation of gpt-oss."""
PADDINGS = (
    # mxfp4_round_up_hidden_size_and_intermediate_size: Marlin, and FlashInfer's TRTLLM
    Padding(inner=128, hidden=256, format=MXFP4, majors=(7, 8, 11, 12)),
    # select_mxfp4_moe_backend, and that of DeepSeek-V4
    FP4_ON_HOPPER._replace(tried=_as_gpt_oss),
    Padding(
        inner=128,
        hidden=256,
        format=MXFP4,
        majors=(9,),
        tried=lambda model: not _as_gpt_oss(model),
    ),
    Padding(inner=128, hidden=256, format=MXFP4, majors=(10,), tried=_lack_gates),
    Padding(inner=256, hidden=256, format=MXFP4, majors=(10,)),
    Padding(inner=256, hidden=256, format=MXFP4, platform="rocm"),
)
MISSING_KERNELS = (
    _fp4_alone(FP4_WITHOUT_INPUTS.vllm_text, of_modelopt=False),
    # ModelOptNvFp4W4A16LinearMethod makes Marlin's kernel without the question: a bare assertion
    _fp4_alone("", of_modelopt=True),
    FLOAT32_INTEGERS,
    BYTES_OF_COMPRESSED,
    cut_integers(COMPRESSED),
    bytes_on_rocm(COMPRESSED, GPTQ),
    unpackable_on_rocm(COMPRESSED, GPTQ),
    ROWS_OF_EXPERTS,
    BYTES_OF_GPTQ,
    MissingKernel(
        platforms=("rocm",),
        what="in integers of GPTQ in groups that follow the activations (desc_act)",
        devices="CUDA, or dtype float16 on one rank",
        vllm_text=NO_GROUPS_LINEAR,
        is_missing=_lacks_order,
    ),
    # BitsAndBytesMoEMethod._create_weights_8bit
    MissingKernel(
        platforms=EVERYWHERE,
        what="in 8 bits of bitsandbytes",
        devices="4 bits",
        vllm_text="",
        is_missing=lambda _place, stored: (
            stored.method == "bitsandbytes"
            and stored.part.experts > 1
            and stored.part.stored is not None
            and stored.part.stored.bits != FOUR_BITS
        ),
        candidates=(),
    ),
    MissingKernel(
        platforms=("rocm", "xpu", "cpu"),
        what="in int8",
        devices="CUDA",
        vllm_text=expert_formats.no_backend(expert_formats.INT8),
        is_missing=lambda _place, stored: stored.is_int8_experts,
    ),
    MXFP4_LINEAR._replace(
        platforms=("rocm", "cpu"),
        devices="CUDA or XPU",
        candidates=({"platform": "cuda"},),
    ),
    # CompressedTensorsW8A16Fp8 has them on XPU, and its one kernel takes tensors and channels
    MissingKernel(
        platforms=("xpu",),
        what="in blocks of fp8 of compressed-tensors",
        devices="CUDA or ROCm",
        vllm_text=NO_SCALED_LINEAR,
        is_missing=lambda _place, stored: _is_linear_in_blocks(stored),
    ),
    # Without a compute capability CompressedTensorsW8A16Fp8 has them, which has no kernel there
    MissingKernel(
        platforms=("cpu",),
        what="in fp8 of compressed-tensors",
        devices="CUDA or ROCm, or vLLM 0.33",
        vllm_text=NO_SCALED_LINEAR,
        is_missing=lambda _place, stored: (
            stored.method == COMPRESSED and (stored.is_fp8_linear or _is_linear_in_blocks(stored))
        ),
        candidates=({"rules": "0.33"}, {"platform": "cuda"}),
    ),
    MissingKernel(
        platforms=("cuda",),
        what="in fp8 without blocks that is batch-invariant",
        devices="compute capability 8.9 or later, or vLLM 0.33",
        # MarlinFP8ScaledMMLinearKernel.is_supported; Humming has them in 0.33
        vllm_text=NO_SCALED_LINEAR,
        is_missing=lambda place, stored: (
            stored.is_fp8_linear and place.invariant and place.capability < FP8_SINCE
        ),
        candidates=({"batch_invariant": False}, {"rules": "0.33"}),
    ),
    # QuarkConfig._is_fp8_w8a8
    QUARK_FP8._replace(
        platforms=EVERYWHERE,
        what="in blocks of fp8 of Quark",
        devices="vLLM 0.33",
        is_missing=of_quark(lambda _place, found: found.is_square),
        candidates=({"rules": "0.33"},),
    ),
    QUARK_FP8,
    QUARK_CHANNELS,
    QUARK_INT4,
    # QuarkConfig._check_scheme_supported is False without a compute capability
    QUARK_FP8._replace(
        platforms=("xpu", "cpu"),
        what="in MXFP4 of Quark with inputs in fp8",
        devices="CUDA or ROCm",
        is_missing=of_quark(lambda _place, found: found.is_micro and found.scalars > 0),
    ),
    MissingKernel(
        platforms=("cuda", "rocm"),
        what="in MXFP4 of Quark",
        devices="vLLM 0.33",
        vllm_text=expert_formats.no_backend(expert_formats.MXFP4),
        is_missing=of_quark(_lacks_experts, experts=True),
        candidates=({"rules": "0.33"},),
    ),
    # CompressedTensorsWNA16MoEMethod.__init__
    MissingKernel(
        platforms=("cuda", "rocm"),
        what="in integers with zero points of compressed-tensors",
        devices="vLLM 0.33",
        vllm_text="Only symmetric quantization is supported for MoE",
        is_missing=_asymmetric_without_marlin,
        candidates=({"rules": "0.33"},),
    ),
)
UNREAD_DESCRIPTIONS = (
    MISSING_KEY,
    loading_words(*LOADING_WORDS, "mxfp8"),
    UNREAD_ALGORITHM,
    GPTQ_INTEGERS,
    EARLIER_AUTO_ROUND,
    *AUTO_ROUND_ELSEWHERE,
    # INCConfig.apply_awq_quant_layer: Marlin has bytes with zero points
    *awq_integers(
        "Currently, only 4-bit weight quantization is supported for AWQ, but got", (8, False)
    ),
)
