"""Experts in blocks of fp8, and which AMD devices have a kernel for them."""

from workbench.core.platforms import gfx_of
from workbench.core.rule_set import RULE_SETS
from workbench.core.stages.invariant_experts import FP8, format_of_experts, no_backend
from workbench.core.working_plan import WorkingPlan


def fp8_experts(run: WorkingPlan) -> None:
    """Refuse experts in blocks of fp8 on an AMD device without a kernel for them."""
    # TritonExperts._supports_quant_scheme asks RocmPlatform.supports_fp8.
    gfx, known = gfx_of(run.settings), run.rules.fp8_on_gfx
    if not gfx or gfx.startswith(known) or not run.model.num_experts:
        return
    if format_of_experts(run) != FP8:
        return
    others = (name for name, one in RULE_SETS.items() if gfx.startswith(one.fp8_on_gfx))
    run.problem(
        "no_fp8_experts",
        "device",
        f"The experts are in blocks of fp8, and vLLM {run.rules.version} has no kernel for them on "
        f"{gfx}: it has on {', '.join(f'{one}*' for one in known)}. Take such a device, or a "
        "checkpoint that stores its experts otherwise.",
        operands={"gfx": gfx},
        candidates=({"device": "MI300X"}, *({"rules": name} for name in others)),
        vllm_text=no_backend(FP8),
    )
