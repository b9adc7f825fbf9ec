"""Experts in NVFP4 that clamp their gates (`swiglu_limit`), and which devices have a kernel."""

from workbench.core import expert_formats
from workbench.core.online import NVFP4
from workbench.core.working_plan import WorkingPlan

SM10X = 10


def clamped_experts(run: WorkingPlan) -> None:
    """Refuse experts that clamp where no kernel does."""
    # NVFP4_BACKENDS_WITH_CLAMP of select_nvfp4_moe_backend, 0.23: FLASHINFER_TRTLLM alone.
    on_cuda, capability = run.platform.name == "cuda", run.capability
    clamped = run.rules.quantization.clamped_nvfp4
    if not on_cuda or run.model.architecture not in clamped or capability is None:
        return
    if capability[0] == SM10X or not _has_nvfp4_experts(run):
        return
    run.problem(
        "experts_not_clamped",
        operands={"compute_capability": ".".join(map(str, capability))},
        vllm_text=expert_formats.no_backend(expert_formats.NVFP4),
    )


def _has_nvfp4_experts(run: WorkingPlan) -> bool:
    experts = run.model.weights.built_experts(run.rules.weight_copies)
    return any(one.stored is not None and one.stored.block == NVFP4.block for one in experts)
