"""Formats of the weights of checkpoints that vLLM has no kernel for on some devices."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from workbench.core.described import AUTO_ROUND, AWQ, COMPRESSED, GPTQ, QUARK, Numbers
from workbench.core.formats import Format
from workbench.core.model import Model
from workbench.core.online import MXFP4, Place
from workbench.core.platforms import EVERYWHERE, FP8_SINCE
from workbench.core.weights import CHUNKED, ROW, Part

if TYPE_CHECKING:
    from workbench.core.plan import Plan


def no_linear_kernel(kind: str) -> str:
    """Return what vLLM says where no kernel suits a linear layer of a kind.

    Source: `model_executor/kernels/linear/__init__.py`, 0.23 and 0.33.
    """
    return f"Failed to find a kernel that can implement the {kind} linear layer."


NO_SCALED_LINEAR = no_linear_kernel("ScaledMM")


class Stored(NamedTuple):
    """A part of the weights, and the method that stored it."""

    part: Part
    method: str
    outputs: int
    """Of one rank."""
    inputs: int
    """Of one rank."""
    dtype: str = "bfloat16"
    """Of the model."""

    @property
    def bits(self) -> int:
        """Return the bits of a number; 0 where it is not quantized."""
        return 0 if self.part.stored is None else self.part.stored.bits

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
        in_bytes = stored is not None and stored.is_integer and not stored.is_packed
        is_row = stored is not None and stored.block == (1, 0)
        return self.part.experts > 1 and in_bytes and is_row and self.bits == 8

    @property
    def is_fp4_linear(self) -> bool:
        """Return whether it is a linear layer in NVFP4 whose inputs stay as they are."""
        stored = self.part.stored
        return self.part.experts == 1 and stored is not None and stored.is_fp4_alone

    @property
    def is_integer_linear(self) -> bool:
        """Return whether it is a linear layer in integers whose inputs stay as they are."""
        stored = self.part.stored
        return self.part.experts == 1 and stored is not None and stored.is_packed

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


def lacks_none(_place: Place, _numbers: Numbers, *, is_left: bool) -> bool:  # noqa: ARG001
    """Return False: every kind of experts has a method."""
    return False


def lacks_no_kernel(_stored: Stored) -> bool:
    """Return False: every kind of experts asks for a kernel."""
    return False


def quantized_parts(plan: Plan) -> list[Part]:
    """Return the parts of a version that are quantized; of a sketch where none are known."""
    # Rows that pad to whole blocks are never cut.
    known, copies = plan.model.weights.known_parts, {**plan.rules.weight_copies, CHUNKED: 0}
    return [part for part in known if part.stored is not None and copies.get(part.kind, 1)]


def tower_parts(model: Model, stored: Format, *, is_online: bool) -> Iterator[Part]:
    """Yield what towers divide by their inputs, as `--quantization` or the checkpoint stores it."""
    for tower in model.towers:
        sizes = tower.inputs if is_online else tower.quantized
        for what, size in zip(("attention", "MLP"), sizes, strict=True):
            if size:
                name, outputs = f"the tower's {what}", ((1, 1),)
                yield Part(name=name, outputs=outputs, inputs=size, shard=ROW, stored=stored)


NO_GROUPS_LINEAR = no_linear_kernel("WNA16")
FLOAT32_INTEGERS = MissingKernel(
    platforms=("rocm", "xpu"),
    what="in integers of compressed-tensors, with dtype float32,",
    devices="bfloat16 or float16",
    # can_implement of TritonW4A16LinearKernel, XPUW4A8IntLinearKernel and XPUwNa16LinearKernel
    vllm_text=NO_GROUPS_LINEAR,
    is_missing=lambda _place, stored: (
        stored.method == COMPRESSED and stored.is_integer_linear and stored.dtype == "float32"
    ),
    candidates=({"dtype": "bfloat16"},),
)
VALUES_OF_WORD = 8
"""Integers of 4 bits in one of 32."""


def bytes_on_rocm(*methods: str) -> MissingKernel:
    """Return that ROCm has no kernel for integers of 8 bits, but for groups in float16."""

    # TritonW4A16LinearKernel has 4 bits, ExllamaLinearKernel groups in float16.
    def lacks(stored: Stored, found: Format) -> bool:
        has_groups = found.block is not None and found.block[1] > 0
        return found.bits == 8 and not (stored.dtype == "float16" and has_groups)

    what = "in integers of 8 bits, other than in groups and with dtype float16,"
    return _integers_on_rocm(methods, what, "CUDA", lacks)


def unpackable_on_rocm(*methods: str) -> MissingKernel:
    """Return that ROCm has no kernel for integers of 4 bits whose rows do not fill words."""

    def lacks(stored: Stored, found: Format) -> bool:
        return found.bits == 4 and stored.outputs % VALUES_OF_WORD != 0

    what = "in integers of 4 bits, of which a rank has rows that do not fill words of 32 bits,"
    return _integers_on_rocm(methods, what, "fewer ranks, or CUDA", lacks)


def _integers_on_rocm(
    methods: Collection[str], what: str, devices: str, lacks: Callable[[Stored, Format], bool]
) -> MissingKernel:
    def is_missing(_place: Place, stored: Stored) -> bool:
        found = stored.part.stored
        is_of_these = stored.method in methods and stored.is_integer_linear
        return is_of_these and found is not None and lacks(stored, found)

    return MissingKernel(
        platforms=("rocm",),
        what=what,
        devices=devices,
        vllm_text=NO_GROUPS_LINEAR,
        is_missing=is_missing,
    )


def _lacks_rows(_place: Place, stored: Stored) -> bool:
    found = stored.part.stored
    is_row = found is not None and found.is_packed and found.block == (1, 0)
    return stored.part.experts > 1 and is_row and stored.method in {GPTQ, AWQ, AUTO_ROUND}


ROWS_OF_EXPERTS = MissingKernel(
    platforms=("rocm",),
    what="in integers without groups",
    devices="CUDA",
    # create_weights of MoeWNA16Method, which has the experts that Marlin has not, divides by -1
    vllm_text="Trying to create tensor with negative dimension",
    is_missing=_lacks_rows,
)
BYTES_OF_GPTQ = MissingKernel(
    platforms=("xpu", "cpu"),
    what="in integers of 8 bits of GPTQ",
    devices="CUDA or ROCm",
    # query_marlin_supported_quant_types
    vllm_text="Marlin does not support weight_bits = uint8b128.",
    is_missing=lambda _place, stored: stored.method == GPTQ and stored.bits == 8,
)
FP4_WITHOUT_INPUTS = MissingKernel(
    platforms=("rocm", "xpu", "cpu"),
    what="in NVFP4 without quantized inputs",
    devices="CUDA",
    # CompressedTensorsW4A16Fp4 and ModelOptLinearMethod take this one alone
    vllm_text="Forced NVFP4 kernel MarlinNvFp4LinearKernel is not supported",
    # init_nvfp4_linear_kernel: batch invariance forces another one before it
    is_missing=lambda place, stored: stored.is_fp4_linear and not place.invariant,
)
BYTES_OF_COMPRESSED = MissingKernel(
    platforms=("xpu", "cpu"),
    what="in integers of 8 bits of compressed-tensors",
    devices="CUDA",
    # _XPUWNA16_SUPPORTED_QUANT_TYPES and _CPUWNA16_SUPPORTED_QUANT_TYPES
    vllm_text=NO_GROUPS_LINEAR,
    is_missing=lambda _place, stored: (
        stored.method == COMPRESSED and stored.is_integer_linear and stored.bits == 8
    ),
)
EDGE = 32
"""Of which the shares of linear layers in integers are a multiple on XPU and on a CPU."""


def cut_integers(*methods: str) -> MissingKernel:
    """Return that XPU and CPU have no kernel for integers of odd shares of these methods."""

    # can_implement of XPUwNa16LinearKernel and CPUWNA16LinearKernel
    def is_missing(place: Place, stored: Stored) -> bool:
        sizes = (stored.inputs, stored.outputs if place.platform == "cpu" else 0)
        is_of_these = stored.method in methods and stored.is_integer_linear
        return is_of_these and any(size % EDGE for size in sizes)

    return MissingKernel(
        platforms=("xpu", "cpu"),
        what=f"in integers, of which the share of a rank is not a multiple of {EDGE},",
        devices="fewer ranks, or CUDA",
        vllm_text=NO_GROUPS_LINEAR,
        is_missing=is_missing,
    )


MXFP4_LINEAR = MissingKernel(
    platforms=("cpu",),
    what="in MXFP4 of compressed-tensors",
    devices="CUDA, ROCm or XPU",
    # _POSSIBLE_MXFP4_KERNELS, 0.23 and 0.33
    vllm_text=no_linear_kernel("MXFP4"),
    is_missing=lambda _place, stored: (
        stored.method == COMPRESSED and stored.part.experts == 1 and stored.part.stored == MXFP4
    ),
)


def of_quark(
    lacks: Callable[[Place, Format], bool], *, experts: bool = False
) -> Callable[[Place, Stored], bool]:
    """Return a test for the formats of Quark's linear layers, or of its routed experts."""

    def is_missing(place: Place, stored: Stored) -> bool:
        found = stored.part.stored
        is_one = stored.method == QUARK and (stored.part.experts > 1) == experts
        return is_one and found is not None and lacks(place, found)

    return is_missing


QUARK_FP8 = MissingKernel(
    platforms=("cuda", "xpu", "cpu"),
    what="in fp8 of Quark",
    devices="CUDA from compute capability 8.9 on, or ROCm",
    # QuarkW8A8Fp8.get_min_capability; without a compute capability no scheme is found
    vllm_text="No quark compatible scheme was found.",
    is_missing=of_quark(
        lambda place, found: (found.is_fp8 or found.is_square) and place.capability < FP8_SINCE
    ),
    candidates=({"device": "H100"},),
)
QUARK_CHANNELS = MissingKernel(
    platforms=EVERYWHERE,
    what="in fp8 of Quark, with a scale per output and one for all inputs,",
    devices="a model without routed experts",
    # QuarkW8A8Fp8MoEMethod.__init__
    vllm_text="For FP8 Fused MoE layers, only per-tensor",
    is_missing=of_quark(
        lambda _place, found: found.block == (1, 0) and found.fixed_bytes > 0, experts=True
    ),
    candidates=(),
)
QUARK_INT4 = MissingKernel(
    platforms=EVERYWHERE,
    what="in int4 of Quark with inputs in fp8",
    devices="ROCm with VLLM_ROCM_USE_AITER=1",
    # QuarkW4A8Fp8MoEMethod.__init__
    vllm_text="W4A8 FP8 MoE requires ROCm AITER fused MoE support.",
    is_missing=of_quark(
        lambda place, found: found.is_integer and not (place.gfx and place.has_aiter), experts=True
    ),
    candidates=({"device": "MI300X", "rocm_aiter": True},),
)
