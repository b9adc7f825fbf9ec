"""Query heads that AITER's latent attention takes, on ROCm.

Source: `AiterMLAHelper.check_num_heads_validity`, 0.23; 0.33 pads other numbers.
"""

from workbench.core.working_plan import WorkingPlan

AITER_MLA = frozenset({"ROCM_AITER_MLA", "ROCM_AITER_TRITON_MLA", "ROCM_AITER_MLA_SPARSE"})
AITER_HEADS = 16
"""Heads of its kernel, a multiple or a divisor of which it takes."""


def aiter_heads(run: WorkingPlan) -> None:
    """Refuse a number of query heads on a rank that the kernel does not take."""
    attention, ranks = run.model.attention, run.settings.tensor_parallel
    if attention is None or run.backend not in AITER_MLA:
        return
    heads = attention.num_heads // ranks
    if heads % AITER_HEADS == 0 or AITER_HEADS % heads == 0:
        return
    run.problem(
        "aiter_heads_not_padded",
        operands={"num_heads": heads, "backend": run.backend},
        candidates=({"backend": "TRITON_MLA"}, {"rules": "0.33"}),
        multiple=AITER_HEADS,
    )
