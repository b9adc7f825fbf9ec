"""Experts in fp8, and which devices have a kernel for them."""

from workbench.core.expert_formats import FP8, no_backend
from workbench.core.formats import Format
from workbench.core.online import is_online
from workbench.core.platforms import FP8_SINCE, gfx_of
from workbench.core.ranks import Split, split_of
from workbench.core.rule_set import RULE_SETS
from workbench.core.stages.expert_kernels import experts_of
from workbench.core.stages.other_splits import other_splits, written
from workbench.core.stages.weight_checks import can_refine
from workbench.core.weights import ROW, Part
from workbench.core.working_plan import WorkingPlan

CDNA = "gfx9"
AITER_REFUSES = "FP8 MoE backend AITER does not support the deployment configuration"


def fp8_experts(run: WorkingPlan) -> None:
    """Refuse experts in fp8 on an AMD device without a kernel for them."""
    # TritonExperts._supports_quant_scheme asks RocmPlatform.supports_fp8.
    gfx, known = gfx_of(run.settings), run.rules.quantization.fp8_on_gfx
    if not gfx or gfx.startswith(known):
        return  # before the weights are read, which takes milliseconds
    experts = experts_of(run)
    if not experts or not _is_fp8(run, experts[0].stored):
        return
    others = (
        name for name, rules in RULE_SETS.items() if gfx.startswith(rules.quantization.fp8_on_gfx)
    )
    run.problem(
        "no_fp8_experts",
        variant="fp8_experts",
        operands={"gfx": gfx},
        candidates=({"device": "MI300X"}, *({"rules": name} for name in others)),
        vllm_text=no_backend(FP8),
        devices=", ".join(f"{one}*" for one in known),
    )


def _is_fp8(run: WorkingPlan, stored: Format | None) -> bool:
    """Return whether weights are in fp8."""
    # `OnlineMethod.needs` speak of what is quantized as it loads, but for blocks
    return stored is not None and stored.is_fp8 and (stored.is_square or not is_online(run.model))


def refined_experts(run: WorkingPlan) -> None:
    """Refuse ranks that make the blocks of experts smaller where no kernel in use takes them."""
    # resolve_fp8_moe_weight_block_shape, 0.33: Triton alone takes smaller blocks, and
    # TritonExperts asks CudaPlatform.supports_fp8; with VLLM_ROCM_USE_AITER, AiterExperts of CDNA
    # are the only ones that select_fp8_moe_backend asks.
    capability, split = run.capability, split_of(run)
    is_older = run.platform.name == "cuda" and capability is not None and capability < FP8_SINCE
    has_aiter = run.settings.rocm_aiter and gfx_of(run.settings).startswith(CDNA)
    if not (is_older or has_aiter) or (cut := _refined(run, split)) is None:
        return
    part, size = cut
    valid = other_splits(run, lambda other: _refined(run, other) is None)
    run.problem(
        "no_fp8_experts",
        variant="aiter_experts" if has_aiter else "refined_experts",
        operands={"part": part.name, "size": size, "ranks": part.ranks(split)},
        candidates=valid,
        vllm_text=AITER_REFUSES if has_aiter else no_backend(FP8),
        since=".".join(map(str, FP8_SINCE)),
        nearest=written(valid[:1]),
    )


def _refined(run: WorkingPlan, split: Split) -> tuple[Part, int] | None:
    """Return the first experts whose share cuts blocks that can be made smaller, and the share."""
    for part in experts_of(run):
        high, wide = (part.stored and part.stored.block) or (1, 1)
        if high == 1 or not part.fits(split):
            continue
        outputs, inputs = part.share(split)
        size, block = (inputs, wide) if part.shard == ROW else (outputs[0], high)
        if size % block and can_refine(run, high, wide, outputs[0], inputs):
            return part, size
    return None
