"""Quantized experts on a CPU: which have a kernel, and which of those need AMX tiles.

Source: `_get_priority_backends` of `oracle/int_wna16.py`, and `CPUExpertsInt4` of 0.33.
"""

from workbench.core.described import COMPRESSED
from workbench.core.expert_formats import WNA16, no_backend
from workbench.core.stages.invariant_experts import (
    asks_no_kernel,
    experts_of,
    format_of_experts,
)
from workbench.core.weights import Part
from workbench.core.working_plan import WorkingPlan

SMALL_GROUP = 32
CORRECTION = ".correction"
"""How the name of a part ends that corrects the scores of a router."""


def cpu_experts(run: WorkingPlan) -> None:
    """Refuse experts in integers that no kernel of a CPU takes, and name what needs AMX tiles."""
    if run.platform.name != "cpu" or not run.model.num_experts:
        return
    part, kind = experts_of(run), format_of_experts(run)
    known = run.rules.quantization.amx_experts
    if part is None or kind not in {WNA16, *known} or (kind == WNA16 and asks_no_kernel(run)):
        return
    why = _against_integers(run, part) if kind == WNA16 else None
    is_taken = why is None
    run.problem(
        "experts_need_amx" if is_taken else "no_integer_experts",
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
