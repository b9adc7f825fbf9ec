"""The same model with different sizes: what an fp8 cache gains, what more ranks hold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from workbench.core.arithmetic import cdiv
from workbench.core.capacity.occupancy import requests_that_fit, waste
from workbench.core.plan import Plan
from workbench.core.what_if.outcomes import outcome_of

if TYPE_CHECKING:
    from workbench.scenario.fields import Settings

FP8 = "fp8"


@dataclass(frozen=True, slots=True)
class Gain:
    """One request of `prompt_tokens` with the plan's cache and with an fp8 cache, in bytes."""

    prompt_tokens: int
    bytes_now: int
    bytes_fp8: int

    @property
    def factor(self) -> float:
        """Return how many times as many requests fp8 makes room for; below 1 it is a loss."""
        return self.bytes_now / self.bytes_fp8


def fp8_gain(plan: Plan, prompts: tuple[int, ...]) -> tuple[Gain, ...] | None:
    """Return the gain of an fp8 KV cache over prompt length: states do not shrink, blocks grow."""
    # None where fp8 is already on, is refused, or the pages cannot be made equal.
    if plan.kv_cache_dtype == FP8 or plan.model.attention is None:
        return None
    other = outcome_of(plan.model, plan.settings, kv_cache_dtype=FP8).plan
    if other is None or other.backend is None:
        return None
    now, fp8 = plan.kept_cache, other.kept_cache
    if now is None or fp8 is None:
        return None
    return tuple(
        Gain(n, waste(plan, now, n).reserved_bytes, waste(other, fp8, n).reserved_bytes)
        for n in prompts
    )


def on_ranks(settings: Settings, tensor_parallel: int) -> Settings:
    """Return the same scenario on other ranks: weights are split anew, the device stays."""
    weights = settings.weights_bytes
    if weights is not None:
        weights = cdiv(weights * settings.tensor_parallel, tensor_parallel)
    return replace(settings, tensor_parallel=tensor_parallel, weights_bytes=weights)


def capacity_on(
    plan: Plan, tensor_parallel: int, kv_cache_dtype: str, prompt_tokens: int
) -> tuple[int | None, int | None]:
    """Return the requests that fit and the bytes of one on a rank; None if vLLM does not start."""
    settings = on_ranks(plan.settings, tensor_parallel)
    outcome = outcome_of(plan.model, settings, kv_cache_dtype=kv_cache_dtype)
    other = outcome.plan
    cache = other.kept_cache if other else None
    if other is None or cache is None or not outcome.starts:
        return None, None
    fits = requests_that_fit(other, cache, prompt_tokens)
    return fits, waste(other, cache, prompt_tokens).reserved_bytes
