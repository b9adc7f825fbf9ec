"""Prefix caching that is on and can never hit: nothing in vLLM says so before the first request."""

from workbench.core.model import CROSS
from workbench.core.prefix.hits import (
    caching_of,
    is_inert,
    reason_without_hits,
    shortest_prompt_with_hit,
)
from workbench.core.working_plan import WorkingPlan


def inert_prefix_caching(run: WorkingPlan) -> None:
    """Warn where no request is long enough to fill a block that could be found again."""
    if not run.enable_prefix_caching:
        return
    if any(layer.kind == CROSS for layer in run.model.layers):
        _cached_encoder(run)
    if not run.model.is_hybrid or run.grouping is None:
        return
    caching = caching_of(run)
    if not is_inert(caching):
        return
    shortest = shortest_prompt_with_hit(caching)
    run.problem(
        "prefix_caching_inert",
        operands={"max_model_len": run.max_model_len, "shortest_prompt_with_hit": shortest},
        candidates=({"max_model_len": shortest + 1},),
        reason=reason_without_hits(caching),
    )


def _cached_encoder(run: WorkingPlan) -> None:
    run.problem("prefix_caching_of_encoder", operands={"enable_prefix_caching": True})
