"""Formats of checkpoints that 0.23 has no kernel for on some devices.

Source: `TritonExperts._supports_quant_scheme`, and the lists of kernels/linear/__init__.py.
"""

from workbench.core.missing_kernels import (
    FP4_WITHOUT_INPUTS,
    NO_INT8_EXPERTS,
    NO_SCALED_LINEAR,
    MissingKernel,
    Stored,
)
from workbench.core.stages.weight_checks import COMPRESSED


def _in_blocks(stored: Stored) -> bool:
    found = stored.part.stored
    return stored.method == COMPRESSED and found is not None and found.is_square


MISSING_KERNELS = (
    FP4_WITHOUT_INPUTS,
    MissingKernel(
        platforms=("rocm", "xpu", "cpu"),
        what="in int8",
        devices="CUDA",
        vllm_text=NO_INT8_EXPERTS,
        is_missing=lambda _place, stored: stored.is_int8_experts,
    ),
    # CompressedTensorsW8A16Fp8 has them on XPU, and its one kernel takes tensors and channels
    MissingKernel(
        platforms=("xpu",),
        what="in blocks of fp8 of compressed-tensors",
        devices="CUDA and ROCm",
        vllm_text=NO_SCALED_LINEAR,
        is_missing=lambda _place, stored: stored.part.experts == 1 and _in_blocks(stored),
    ),
)
