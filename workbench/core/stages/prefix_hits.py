"""Prefix caching that is on and can never hit: nothing in vLLM says so before the first request."""

from workbench.core.model import CROSS
from workbench.core.prefix.hits import (
    caching_of,
    is_inert,
    reason_without_hits,
    shortest_prompt_with_hit,
)
from workbench.core.problems import WARNING
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
        "max_model_len",
        f"{reason_without_hits(caching)} vLLM starts, and its hit rate stays 0 (vllm#48401).",
        severity=WARNING,
        operands={"max_model_len": run.max_model_len, "shortest_prompt_with_hit": shortest},
        candidates=(
            {"max_model_len": shortest + 1},
            {"mamba_cache_mode": "align"},
            {"enable_prefix_caching": False, "mamba_cache_mode": None},
        ),
    )


def _cached_encoder(run: WorkingPlan) -> None:
    run.problem(
        "prefix_caching_of_encoder",
        "enable_prefix_caching",
        "Cross attention keeps what an encoder read, and CrossAttentionManager finds none of it "
        "again: with prefix caching vLLM starts, and stops at the first request. Leave it off.",
        operands={"enable_prefix_caching": True},
        # Raised by CrossAttentionManager.find_longest_cache_hit
        vllm_text="CrossAttentionManager does not support caching",
        candidates=({"enable_prefix_caching": None}, {"enable_prefix_caching": False}),
    )
