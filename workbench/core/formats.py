"""How quantized weights are stored: their elements, scales and zeros, in bytes.

Source: the `create_weights` of vLLM's quantization methods, 0.23 and 0.33.
"""

from __future__ import annotations

from math import ceil, gcd
from typing import NamedTuple

FLOAT, HALF = 4, 2
"""Bytes of a scale that a tensor has one of."""
MARLIN_MULTIPLE = 64
"""Of a share of an expert that Marlin's kernel takes (`check_moe_marlin_supports_layer`)."""
MX_BLOCK = 32
"""Inputs that share a scale in MXFP8 and MXFP4."""
FOUR_BITS = 4
WORD_BITS, WORD = 32, 4
"""Integers of less are packed into words of so many bits and bytes, as many as fill one."""


class Format(NamedTuple):
    """How the elements of a quantized linear layer are stored."""

    bits: int
    block: tuple[int, int] | None = None
    """Rows and columns of a weight that share a scale; 0 is all of them."""
    scale_bytes: int = 0
    zero_bits: int = 0
    """Of one zero point per block."""
    scalars: int = 0
    """Numbers in float32 per merged output."""
    row_bytes: int = 0
    """More per output."""
    fixed_bytes: int = 0
    """More per layer, or per expert."""
    input_bytes: int = 0
    """More per input."""
    repeats_scales: bool = False
    """Every rank has the scales of all inputs."""
    is_integer: bool = False
    """Of a checkpoint: integers, not small floats."""
    packs_outputs: bool = False
    """Words hold the integers of several outputs, not of several inputs."""
    halves: int = 0
    """Numbers of 16 bits per merged output."""
    activation_bits: int = 0
    """Of inputs that Quark quantizes as a layer computes; 0 where they stay as they are."""

    @property
    def is_square(self) -> bool:
        """Return whether squares of weights share a scale."""
        return self.block is not None and self.block[0] != 1

    @property
    def is_fp4_alone(self) -> bool:
        """Return whether weights are in NVFP4, and have no scale of their inputs."""
        return self[:2] == (4, (1, 16)) and self.scale_bytes == self.scalars == 1

    @property
    def is_micro(self) -> bool:
        """Return whether 32 weights of a row share a power of two (OCP MX)."""
        return self.block == (1, MX_BLOCK) and self.scale_bytes == 1

    @property
    def is_packed(self) -> bool:
        """Return whether words hold several integers; those of W8A8 are bytes."""
        return self.is_integer and self.scale_bytes == HALF

    @property
    def is_fp8(self) -> bool:
        """Return whether weights are floats of 8 bits, with a scale of more than a few inputs."""
        is_micro = self.block is not None and self.block[0] == 1 and self.block[1] > 0
        return self.bits == 8 and not self.is_integer and not is_micro

    def size(self, outputs: list[int], inputs: int, scaled: int) -> int:
        """Return the bytes of merged outputs over `inputs`, without what they have in common.

        scaled: the inputs whose scales there are.
        """
        rows = sum(outputs)
        found = rows * inputs * self.bits // 8
        if self.is_packed:  # the rest of an odd share has no word
            packed, other = (rows, inputs) if self.packs_outputs else (inputs, rows)
            found = other * (packed * self.bits // WORD_BITS) * WORD
        found += len(outputs) * (self.scalars * FLOAT + self.halves * HALF)
        if self.block is not None:
            high, wide = self.block[0] or rows, self.block[1] or scaled
            # Groups of inputs are counted whole; squares at the edges are scales of their own.
            across = scaled // wide if self.block[0] == 1 else ceil(scaled / wide)
            blocks = ceil(rows / high) * across
            zeros = across * (rows * self.zero_bits // WORD_BITS) * WORD
            found += blocks * self.scale_bytes + zeros
        return found + rows * self.row_bytes

    def of_experts(self, share: int, marlin: bool) -> Format:
        """Return the format of experts; one whose share cuts blocks has smaller ones.

        marlin: the device has Marlin's kernels.
        """
        if self.block is None:
            return self
        high, wide = self.block
        if high > 1:
            return self._replace(block=(gcd(share, high), gcd(share, high)))
        # That of GPTQ in 0.33, whose experts have a bias, rounds up what is not a multiple.
        least = wide if self.row_bytes else max(MARLIN_MULTIPLE, wide)
        is_run = marlin and not (wide and share % least)  # check_moe_marlin_supports_layer
        if self.fixed_bytes or is_run or not self.zero_bits:
            return self
        # MoeWNA16Method takes over from Marlin's kernel, with one smaller group for both weights;
        # what only GPTQ has is gone, with its zeros
        smaller = self._replace(block=(high, wide and gcd(share, wide)), repeats_scales=False)
        is_gptq = self.row_bytes or self.input_bytes
        return smaller._replace(zero_bits=0, row_bytes=0, input_bytes=0) if is_gptq else smaller
