"""The same model with other sizes: what an fp8 cache gains, what more ranks hold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from workbench.core.capacity.occupancy import requests_that_fit, waste
from workbench.core.errors import WorkbenchError
from workbench.core.plan import Plan
from workbench.core.resolve import resolve

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
    """Return the gain of an fp8 KV cache over prompt length: states do not shrink, blocks grow.

    None where fp8 is already on, is refused, or the pages cannot be made equal.
    """
    if plan.kv_cache_dtype == FP8 or plan.model.attention is None:
        return None
    other = _resolved(plan, replace(plan.settings, kv_cache_dtype=FP8))
    if other is None or other.backend is None or plan.cache is None or other.cache is None:
        return None
    return tuple(
        Gain(
            prompt,
            waste(plan, plan.cache, prompt).reserved_bytes,
            waste(other, other.cache, prompt).reserved_bytes,
        )
        for prompt in prompts
    )


def on_ranks(settings: Settings, tensor_parallel: int) -> Settings:
    """Return the same scenario on other ranks: weights are split anew, the device stays."""
    weights = settings.weights_bytes
    if weights is not None:
        weights = -(-weights * settings.tensor_parallel // tensor_parallel)
    return replace(settings, tensor_parallel=tensor_parallel, weights_bytes=weights)


def capacity_on(
    plan: Plan, tensor_parallel: int, kv_cache_dtype: str, prompt_tokens: int
) -> tuple[int | None, int | None]:
    """Return the requests that fit and the bytes of one on a rank; None if vLLM does not start.

    The first is None also while the memory is unknown.
    """
    settings = replace(on_ranks(plan.settings, tensor_parallel), kv_cache_dtype=kv_cache_dtype)
    other = _resolved(plan, settings)
    if other is None or other.cache is None or other.errors:
        return None, None
    fits = requests_that_fit(other, other.cache, prompt_tokens)
    return fits, waste(other, other.cache, prompt_tokens).reserved_bytes


def _resolved(plan: Plan, settings: Settings) -> Plan | None:
    try:
        return resolve(plan.model, settings)
    except WorkbenchError:
        return None
