"""Formats of checkpoints that 0.33 has no kernel for on some devices.

Source: the lists of `model_executor/kernels/linear/__init__.py` and what their kernels say,
`is_supported`; `XPUExpertsWNA16`.
"""

from workbench.core import described, missing_kernels
from workbench.core.expert_formats import WNA16, no_backend
from workbench.core.formats import MX_BLOCK
from workbench.core.model import Model
from workbench.core.online import MXFP4, OF_GPT_OSS, Place
from workbench.core.platforms import EVERYWHERE, HOPPER
from workbench.core.ranks import Padding
from workbench.core.versions.v0_23.kernels import FP4_ON_HOPPER
from workbench.core.versions.v0_33.online import SCALED_FP8_ON_GFX

GROUPS = (32, 64, 128)


def _in_other_groups(_place: Place, stored: missing_kernels.Stored) -> bool:
    found = stored.part.stored
    is_gptq = stored.method == described.GPTQ and stored.is_integer_linear
    return (
        is_gptq
        and found is not None
        and found.block is not None
        and (found.block[1] not in {0, *GROUPS})
    )


def _as_gpt_oss(model: Model) -> bool:
    """Return whether vLLM tries for experts what it tries for those of gpt-oss."""
    # Mxfp4MoEMethod of other checkpoints has a list of its own (select_mxfp4_moe_backend)
    own = model.online is not None or model.model_type == "gpt_oss"
    return _quark_bits(model) is not None or (model.quantization in OF_GPT_OSS and own)


def _quark_bits(model: Model) -> int | None:
    """Return the bits of what Quark's experts compute with, 0 for plain; None of other files."""
    if model.quantization != described.QUARK:
        return None
    experts = (part.stored for part in model.weights.expert_parts)
    return next((stored.activation_bits for stored in experts if stored is not None), None)


HUMMING_FIRST = frozenset({HOPPER})
"""_HUMMING_PREFERRED_CAPABILITIES"""


def lacks_packed_experts(place: Place, numbers: described.Numbers, *, is_left: bool) -> bool:
    """Return whether experts with a scale per row are left to another kernel than Marlin's."""
    # CompressedTensorsWNA16MoEMethod.__init__, and the order of int_wna16.py
    by_marlin = place.platform == "cuda" and place.capability not in HUMMING_FIRST
    by_marlin &= not is_left
    return numbers.strategy == "channel" and not by_marlin


ON_ROCM = Padding(inner=256, hidden=256, format=MXFP4, platform="rocm")
EMULATED = ON_ROCM._replace(inner=MX_BLOCK, hidden=MX_BLOCK)
PADDINGS = (
    # unquantized_round_up_hidden_size_and_intermediate_size, FLASHINFER_TRTLLM
    Padding(inner=128, majors=(10,), is_invariant=False),
    # mxfp4_round_up_hidden_size_and_intermediate_size: Marlin, and FlashInfer's TRTLLM
    Padding(
        inner=128,
        hidden=128,
        format=MXFP4,
        majors=(12,),
        takes_bias=False,
        tried=lambda model: not _as_gpt_oss(model),
    ),
    Padding(inner=128, hidden=256, format=MXFP4, majors=(7, 8, 10, 12)),
    FP4_ON_HOPPER._replace(tried=_as_gpt_oss),
    # AITER has kernels for two of Quark's; what is emulated needs whole blocks
    ON_ROCM._replace(
        inner=128, gfx=("gfx950",), has_aiter=True, tried=lambda model: _quark_bits(model) == 4
    ),
    EMULATED._replace(tried=lambda model: bool(_quark_bits(model))),
    EMULATED._replace(has_aiter=False, tried=lambda model: _quark_bits(model) == 0),
    ON_ROCM,
)


def _cuts_block(_place: Place, stored: missing_kernels.Stored) -> bool:
    found = stored.part.stored
    is_linear = stored.method == described.QUARK and stored.part.experts == 1
    return is_linear and found is not None and found.is_micro and stored.inputs % MX_BLOCK != 0


def _in_other_bits(_place: Place, stored: missing_kernels.Stored) -> bool:
    found = stored.part.stored
    return stored.method == described.AUTO_ROUND and found is not None and found.bits not in {4, 8}


OF_ONE_LIST = (described.COMPRESSED, described.GPTQ, described.AUTO_ROUND)
"""Methods whose linear layers in integers have a kernel from one list (`_POSSIBLE_KERNELS`)."""
MISSING_KERNELS = (
    # init_nvfp4_linear_kernel takes CUTLASS's kernel, or emulation: neither leaves inputs plain
    missing_kernels.FP4_WITHOUT_INPUTS._replace(
        platforms=EVERYWHERE,
        what="in NVFP4 without quantized inputs that is batch-invariant",
        devices="batch_invariant = false",
        vllm_text="NvFp4LinearKernel does not support W4A16",
        is_missing=lambda place, stored: stored.is_fp4_linear and place.invariant,
        candidates=({"batch_invariant": False},),
    ),
    missing_kernels.FP4_WITHOUT_INPUTS,
    # INCWNA16LinearScheme; Humming has them on CUDA
    missing_kernels.MissingKernel(
        platforms=("rocm",),
        what="in integers of AutoRound other than those of 4 or 8 bits",
        devices="CUDA",
        vllm_text="INC ",
        is_missing=_in_other_bits,
    ),
    missing_kernels.FLOAT32_INTEGERS,
    missing_kernels.BYTES_OF_COMPRESSED,
    missing_kernels.cut_integers(described.COMPRESSED, described.AWQ),
    missing_kernels.MXFP4_LINEAR,
    missing_kernels.bytes_on_rocm(*OF_ONE_LIST),
    missing_kernels.unpackable_on_rocm(*OF_ONE_LIST),
    missing_kernels.ROWS_OF_EXPERTS,
    missing_kernels.MissingKernel(
        platforms=("rocm",),
        what="in fp8 without blocks",
        devices=f"{', '.join(f'{one}*' for one in SCALED_FP8_ON_GFX)} or another platform",
        vllm_text=missing_kernels.NO_SCALED_LINEAR,
        is_missing=lambda place, stored: (
            stored.is_fp8_linear and not place.is_gfx(*SCALED_FP8_ON_GFX)
        ),
        candidates=({"device": "MI300X"},),
    ),
    missing_kernels.MissingKernel(
        platforms=EVERYWHERE,
        what=f"in integers of GPTQ in groups other than of {GROUPS}",
        devices="vLLM 0.23",
        # verify_marlin_supported, MARLIN_SUPPORTED_GROUP_SIZES
        vllm_text="Marlin does not support group_size = ",
        is_missing=_in_other_groups,
        candidates=({"rules": "0.23"},),
    ),
    missing_kernels.BYTES_OF_GPTQ,
    missing_kernels.MissingKernel(
        platforms=("xpu",),
        what="in integers with zero points of compressed-tensors",
        devices="CUDA or ROCm",
        vllm_text=no_backend(WNA16),
        is_missing=lambda _place, stored: stored.is_asymmetric_experts,
    ),
    missing_kernels.QUARK_FP8._replace(
        platforms=("cuda",), vllm_text="Quantization scheme is not supported for the current GPU."
    ),
    missing_kernels.MissingKernel(
        platforms=EVERYWHERE,
        what=f"in small floats of Quark, of which the share of a rank cuts {MX_BLOCK} inputs,",
        devices="fewer ranks",
        # create_weights of QuarkOCP_MX
        vllm_text="OCP MX linear layer ",
        is_missing=_cuts_block,
        candidates=({"tensor_parallel": 1},),
    ),
    missing_kernels.QUARK_CHANNELS,
    missing_kernels.QUARK_INT4,
    missing_kernels.MissingKernel(
        platforms=("cpu",),
        what="in small floats of Quark",
        devices="CUDA or ROCm",
        vllm_text="Failed to find a kernel that can implement the MXFP",
        is_missing=missing_kernels.of_quark(
            lambda _place, found: found.is_micro and not found.scalars
        ),
    ),
)
UNREAD_DESCRIPTIONS = (
    described.MISSING_KEY,
    described.loading_words(*described.LOADING_WORDS, "fp8_per_channel", "nvfp4_per_token"),
    described.UNREAD_ALGORITHM,
    described.GPTQ_ORDER,
    described.GPTQ_INTEGERS,
    described.AUTO_ROUND_INTEGERS,
    *described.AUTO_ROUND_ELSEWHERE,
    described.COMPRESSED_ORDER,
    *described.awq_integers("Unsupported num_bits = "),
)
