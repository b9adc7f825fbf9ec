"""Formats of the weights of checkpoints that vLLM has no kernel for on some devices."""

from collections.abc import Callable
from typing import Any, NamedTuple

from workbench.core.online import Place
from workbench.core.weights import Part

COMPRESSED = "compressed-tensors"
NO_SCALED_LINEAR = "Failed to find a kernel that can implement the ScaledMM linear layer."
NO_INT8_EXPERTS = "No Int8 MoE backend supports the deployment configuration."


class Stored(NamedTuple):
    """A part of the weights, and the method that stored it."""

    part: Part
    method: str
    inputs: int
    """Of one rank."""

    @property
    def is_asymmetric_experts(self) -> bool:
        """Return whether it is experts in integers of compressed-tensors with zero points."""
        stored = self.part.stored
        has_zeros = stored is not None and stored.is_integer and stored.zero_bits > 0
        return self.part.experts > 1 and self.method == COMPRESSED and has_zeros

    @property
    def is_int8_experts(self) -> bool:
        """Return whether it is experts in int8, whose inputs are in int8, too."""
        stored = self.part.stored
        whole_rows = stored is not None and stored.is_integer and stored[:2] == (8, (1, 0))
        return self.part.experts > 1 and whole_rows

    @property
    def is_fp4_linear(self) -> bool:
        """Return whether it is a linear layer in NVFP4 whose inputs stay as they are."""
        stored = self.part.stored
        return self.part.experts == 1 and stored is not None and stored.is_fp4_alone

    @property
    def is_fp8_linear(self) -> bool:
        """Return whether it is a linear layer in fp8, not in blocks."""
        stored = self.part.stored
        in_fp8 = stored is not None and stored.is_fp8 and not stored.is_square
        return self.part.experts == 1 and in_fp8


class MissingKernel(NamedTuple):
    """A format that some devices have no kernel for."""

    platforms: tuple[str, ...]
    """Those of the devices."""
    what: str
    """The format, in words."""
    devices: str
    """What to use, in words."""
    vllm_text: str
    is_missing: Callable[[Place, Stored], bool]
    """Whether a device of these platforms lacks it."""
    candidates: tuple[dict[str, Any], ...] = ({"platform": "cuda"},)
    """Scenarios with a device that has one."""


FP4_WITHOUT_INPUTS = MissingKernel(
    platforms=("rocm", "xpu", "cpu"),
    what="in NVFP4 without quantized inputs",
    devices="CUDA",
    # CompressedTensorsW4A16Fp4 takes this one alone
    vllm_text="Forced NVFP4 kernel MarlinNvFp4LinearKernel is not supported",
    is_missing=lambda _place, stored: stored.is_fp4_linear,
)
