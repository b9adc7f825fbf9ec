"""Experts that have no kernel: with batch invariance, on a CPU, or with gates that are clamped.

Source: `FusedMoEExperts.is_supported_config` and the selection in `layers/fused_moe/oracle`, 0.23
and 0.33.
"""

from workbench.core.described import COMPRESSED, Description
from workbench.core.expert_formats import (
    FP8,
    MXFP4,
    NVFP4,
    NVFP4_ALONE,
    PLAIN_EXPERTS,
    WNA16,
    no_backend,
)
from workbench.core.formats import Format
from workbench.core.platforms import FP8_SINCE, is_sm10x
from workbench.core.ranks import has_plain_experts
from workbench.core.stages.missing_kernels import stored_shares
from workbench.core.weights import Part
from workbench.core.working_plan import WorkingPlan

FP4, FP4_ALGORITHM = (4, (1, 16)), "W4A16_NVFP4"
"""Bits and block of NVFP4, and what ModelOpt calls it with plain inputs."""
LLAMA4 = "Llama4For"
WNA16_METHODS = frozenset({COMPRESSED, "gptq", "awq", "auto-round"})
SMALL_GROUP = 32
CORRECTION = ".correction"
"""How the name of a part ends that corrects the scores of a router."""


def invariant_experts(run: WorkingPlan) -> None:
    """Refuse experts whose kernels depend on what else is in the batch."""
    if not run.settings.batch_invariant or (found := _looked_for(run)) is None:
        return
    (part, kind), platform, capability = found, run.platform.name, run.capability
    text = run.rules.quantization.no_invariant_experts.get(kind, {}).get(platform)
    # Marlin, which computes fp8 on older devices, is not invariant.
    if kind == FP8 and capability is not None and capability < FP8_SINCE:
        text = no_backend(FP8)
    if text is None:
        return
    run.problem(
        "no_invariant_experts",
        operands={"platform": platform, "part": part.name, "format": kind},
        vllm_text=text,
    )


def cpu_experts(run: WorkingPlan) -> None:
    """Refuse experts in integers that no kernel of a CPU takes, and name what needs AMX tiles.

    Source: `_get_priority_backends` of `oracle/int_wna16.py`, and `CPUExpertsInt4` of 0.33.
    """
    if run.platform.name != "cpu" or (found := _looked_for(run)) is None:
        return
    part, kind = found
    if kind not in {WNA16, *run.rules.quantization.amx_experts}:
        return
    why = _against_integers(run, part) if kind == WNA16 else None
    run.problem(
        "experts_need_amx" if why is None else "no_integer_experts",
        operands={"part": part.name, "format": kind},
        why=why,
        vllm_text=no_backend(kind),
    )


def _against_integers(run: WorkingPlan, part: Part) -> str | None:
    """Return what of experts in integers no kernel takes; None where one does."""
    if WNA16 not in run.rules.quantization.amx_experts:
        return ""
    block = part.stored.block if part.stored is not None else None
    # CPUExpertsInt4 knows no key for such groups; AWQ and GPTQ have the one of any group.
    if run.model.quantization == COMPRESSED and block is not None and block[1] == SMALL_GROUP:
        return f" in groups of {SMALL_GROUP}"
    corrects = any(one.name.endswith(CORRECTION) for one, _ in run.model.weights.parts)
    # get_routing_method_type: with a correction it is none of the plain ones.
    return " with a router that corrects its scores" if corrects else None


def clamped_experts(run: WorkingPlan) -> None:
    """Refuse experts in NVFP4 that clamp their gates (`swiglu_limit`) where no kernel does."""
    # NVFP4_BACKENDS_WITH_CLAMP of select_nvfp4_moe_backend, 0.23: FLASHINFER_TRTLLM alone.
    capability, clamped = run.capability, run.rules.quantization.clamped_nvfp4
    if run.platform.name != "cuda" or run.model.architecture not in clamped or capability is None:
        return
    stored = (part.stored for part in experts_of(run))
    has_nvfp4 = any(one is not None and one.block == FP4[1] for one in stored)
    if is_sm10x(run) or not has_nvfp4:
        return
    run.problem(
        "experts_not_clamped",
        operands={"compute_capability": ".".join(map(str, capability))},
        vllm_text=no_backend(NVFP4),
    )


def experts_of(run: WorkingPlan) -> tuple[Part, ...]:
    """Return the parts of routed experts that the version builds."""
    parts, copies = run.model.weights.expert_parts, run.rules.weight_copies
    return tuple(part for part in parts if copies.get(part.kind, 1))


def _looked_for(run: WorkingPlan) -> tuple[Part, str] | None:
    """Return the first part with experts and its format; None where no kernel is looked for."""
    if not run.model.num_experts or not (experts := experts_of(run)):
        return None
    kind = _kind(run, experts[0].stored)
    if kind is None or (kind == WNA16 and asks_no_kernel(run)):
        return None
    return experts[0], kind


def asks_no_kernel(run: WorkingPlan) -> bool:
    """Return whether experts have a method that takes them without a look at the kernels."""
    asks, method = run.rules.quantization.asks_no_kernel, run.model.quantization
    shares = [] if method is None else stored_shares(run, method)
    # Llama4MoE applies the router's weights to inputs, which Marlin does not
    is_left = run.model.layer_class.startswith(LLAMA4)
    return any(asks(one._replace(outputs=1) if is_left else one) for one in shares)


def _kind(run: WorkingPlan, stored: Format | None) -> str | None:
    """Return the format of experts, of `expert_formats`; None for one with a kernel always."""
    method = run.model.quantization
    if stored is None or has_plain_experts(run, run.model):
        return PLAIN_EXPERTS
    of_v4 = method == FP8 and stored.is_micro and stored.bits == FP4[0]  # DeepSeek-V4's experts
    if method == MXFP4 or of_v4:
        return MXFP4
    if stored[:2] == FP4 and _leaves_inputs(run.model.described):
        return NVFP4_ALONE
    if method in WNA16_METHODS and stored.is_packed:
        return WNA16
    return FP8 if stored.bits == 8 and stored.is_square else None


def _leaves_inputs(given: Description) -> bool:
    """Return whether a checkpoint in NVFP4 keeps inputs as they are."""
    if (compressed := given.compressed) is not None:
        return compressed.inputs is None
    return given.algorithm.upper() == FP4_ALGORITHM
