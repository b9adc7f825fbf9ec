"""Numbers of compressed-tensors that vLLM has no scheme for, by what they are of.

Source: `_get_scheme_from_parts` of compressed_tensors.py, `get_moe_method` of
compressed_tensors_moe.py and the `__init__` of its methods, 0.23 and 0.33.
"""

from workbench.core.described import Compressed
from workbench.core.missing_kernels import quantized_parts
from workbench.core.online import is_online
from workbench.core.platforms import HOPPER
from workbench.core.stages.expert_kernels import asks_no_kernel
from workbench.core.stages.quantization import place_of
from workbench.core.weights import Part
from workbench.core.working_plan import WorkingPlan

HOPPER_GROUP = 128
"""Hopper alone has a kernel for integers whose inputs are in fp8, in groups of so many."""
PACKED = "pack-quantized"
NO_SCHEME = "No compressed-tensors compatible scheme was found for layer_name="
NO_GROUPS = "W4A8 kernels require group quantization with group size 128"
NOT_PACKED = "For Fused MoE layers, only format: "
FP8_PAIRS = frozenset({("tensor", "tensor"), ("channel", "token")})
"""What shares a scale, of weights and inputs of experts in fp8; blocks have all."""


def compressed_schemes(run: WorkingPlan) -> None:
    """Refuse numbers of linear layers, or of experts, that no scheme takes."""
    given = run.model.described.compressed
    if given is None or is_online(run.model):
        return
    parts = quantized_parts(run)
    linear = next((part for part in parts if part.experts == 1), None)
    experts = next((part for part in parts if part.experts > 1), None)
    if linear is not None and (text := _linear_text(run, given)) is not None:
        _no_scheme(run, linear, given, text)
    elif experts is not None and (text := _experts_text(run, given)) is not None:
        _no_scheme(run, experts, given, text)


def _no_scheme(run: WorkingPlan, part: Part, given: Compressed, text: str) -> None:
    inputs = given.inputs
    scaled = inputs and f"{inputs.kind} of {inputs.bits} bits per {inputs.strategy}"
    run.problem(
        "no_compressed_scheme",
        operands={"part": part.name, "weights": given.weights._asdict()},
        vllm_text=text,
        given=given,
        inputs=f"inputs in {scaled}" if scaled else "plain inputs",
    )


def _linear_text(run: WorkingPlan, given: Compressed) -> str | None:
    """Return what vLLM says to the numbers of linear layers; None where it takes them."""
    weights, inputs = given.weights, given.inputs
    if weights.kind != "int" or weights.bits != 4 or inputs is None or inputs.kind != "float":
        return None
    # _is_fp8_w4a8
    is_taken = (
        (weights.strategy, inputs.strategy, inputs.bits) == ("group", "token", 8)
        and weights.is_symmetric
        and inputs.is_symmetric
        and inputs.is_dynamic
    )
    if not is_taken or run.platform.name != "cuda" or run.capability != HOPPER:
        return NO_SCHEME
    return None if weights.group == HOPPER_GROUP else NO_GROUPS


def _experts_text(run: WorkingPlan, given: Compressed) -> str | None:
    """Return the same of routed experts; an assertion has no words."""
    weights, inputs = given.weights, given.inputs
    if inputs is None:
        return _plain_inputs_text(run, given)
    if weights.kind != "float" or inputs.kind != "float" or weights.bits != 8:
        return None
    pair = (weights.strategy, inputs.strategy)
    return None if weights.strategy == "block" or pair in FP8_PAIRS else ""


def _plain_inputs_text(run: WorkingPlan, given: Compressed) -> str | None:
    weights = given.weights
    in_fp4 = weights.kind == "float" and weights.bits == 4
    if weights.strategy not in {"channel", "group"} or in_fp4:
        return None
    if given.format != PACKED:
        return NOT_PACKED
    lacks, is_left = run.rules.quantization.lacks_packed_experts, asks_no_kernel(run)
    return "" if lacks(place_of(run), weights, is_left=is_left) else None
