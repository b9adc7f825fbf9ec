"""Experts that have no kernel with batch invariance.

Source: `FusedMoEExperts.is_supported_config` and the selection in `layers/fused_moe/oracle`, 0.23
and 0.33.
"""

from workbench.core.described import Description
from workbench.core.expert_formats import (
    FP8,
    MXFP4,
    NVFP4_ALONE,
    PLAIN_EXPERTS,
    WNA16,
    no_backend,
)
from workbench.core.formats import Format
from workbench.core.stages.missing_kernels import stored_shares
from workbench.core.weights import Part
from workbench.core.working_plan import WorkingPlan

FP8_SINCE = (8, 9)
"""Compute capability: Marlin, which computes fp8 before it, is not invariant."""
FP4, FP4_ALGORITHM = (4, (1, 16)), "W4A16_NVFP4"
"""Bits and block of NVFP4, and what ModelOpt calls it with plain inputs."""
LLAMA4 = "Llama4For"
WNA16_METHODS = frozenset({"compressed-tensors", "gptq", "awq"})


def invariant_experts(run: WorkingPlan) -> None:
    """Refuse experts whose kernels depend on what else is in the batch."""
    if not run.settings.batch_invariant or not run.model.num_experts:
        return
    part = experts_of(run)
    kind = format_of_experts(run)
    if part is None or kind is None or (kind == WNA16 and asks_no_kernel(run)):
        return
    platform, capability = run.platform.name, run.capability
    text = run.rules.quantization.no_invariant_experts.get(kind, {}).get(platform)
    if kind == FP8 and capability is not None and capability < FP8_SINCE:
        text = no_backend(FP8)
    if text is None:
        return
    run.problem(
        "no_invariant_experts",
        operands={"platform": platform, "part": part.name, "format": kind},
        vllm_text=text,
    )


def experts_of(run: WorkingPlan) -> Part | None:
    """Return the first part of the weights that has experts."""
    return next(iter(run.model.weights.built_experts(run.rules.weight_copies)), None)


def format_of_experts(run: WorkingPlan) -> str | None:
    """Return the format of the experts, of `expert_formats`; None for one with a kernel always."""
    part = experts_of(run)
    return None if part is None else _kind(run, part.stored)


def asks_no_kernel(run: WorkingPlan) -> bool:
    """Return whether experts have a method that takes them without a look at the kernels."""
    asks, method = run.rules.quantization.asks_no_kernel, run.model.quantization
    shares = [] if method is None else stored_shares(run, method)
    # Llama4MoE applies the router's weights to inputs, which Marlin does not
    is_left = run.model.layer_class.startswith(LLAMA4)
    return any(asks(one._replace(outputs=1) if is_left else one) for one in shares)


def _kind(run: WorkingPlan, stored: Format | None) -> str | None:
    method = run.model.quantization
    if stored is None:
        return PLAIN_EXPERTS
    of_v4 = method == FP8 and stored.is_micro and stored.bits == FP4[0]  # DeepSeek-V4's experts
    if method == MXFP4 or of_v4:
        return MXFP4
    if stored[:2] == FP4 and _leaves_inputs(run.model.described):
        return NVFP4_ALONE
    # Whole rows of int8 have inputs in int8, those of other integers are in the model's dtype.
    takes_dtype = stored.bits == 4 or stored.block != (1, 0)
    if method in WNA16_METHODS and stored.is_integer and takes_dtype:
        return WNA16
    return FP8 if stored.bits == 8 and stored.is_square else None


def _leaves_inputs(given: Description) -> bool:
    """Return whether a checkpoint in NVFP4 keeps inputs as they are."""
    if (compressed := given.compressed) is not None:
        return compressed.inputs is None
    return given.algorithm.upper() == FP4_ALGORITHM
