"""The four answers of a plan: its block, the shortest prompt that hits, what fits, does it start.

One record, so that a tile, a comparison of two scenarios and a suggested change show the same
numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from workbench.core.capacity.memory_answer import BY_MEMORY, NO, YES, above_device, memory_answer
from workbench.core.capacity.occupancy import requests_that_fit, usual_length, waste
from workbench.core.prefix.hits import caching_of, reason_without_hits, shortest_prompt_with_hit
from workbench.core.ranks import gpus_of

if TYPE_CHECKING:
    from workbench.core.plan import Plan

CLAUSE = re.compile(r"[.:;] ")


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What people ask of a scenario first, of all its engines and devices together."""

    block_tokens: int
    padding_percent: float
    """Of a state page, in percent of the state; 0 without one."""
    is_hybrid: bool
    is_attention_free: bool
    is_uncached: bool
    """No layer keeps keys and values."""
    hit_tokens: int | None
    """Shortest prompt that finds something again when it is sent twice; None: no prompt can."""
    no_hit_reason: str | None
    length_tokens: int
    """Of the requests that are counted."""
    requests: tuple[int, int] | None
    """Least and most requests of that length that fit at once, equal where nothing is estimated;
    None without a memory size."""
    needs: str | None
    """The field that the number of requests lacks; None where it is known, or without a cache."""
    request_bytes: int | None
    """Bytes that one of them reserves on all devices of its engine; None without a cache."""
    devices: int
    starts: str
    """yes, no, perhaps or unknown."""
    blocker: str | None
    """What stops the start first: the first clause of its message."""
    is_stopped: bool = False
    """Whether more than the memory stops it: no number of requests can be served then."""

    @property
    def requests_per_device(self) -> float | None:
        """Return the least number of requests that fit, per device."""
        return None if self.requests is None else self.requests[0] / self.devices


class Measure(NamedTuple):
    """One number of the answers that two scenarios are compared by."""

    read: Callable[[Answers], float | None]
    more_is_better: bool


STARTING = {NO: 0, YES: 2}
MEASURES: Mapping[str, Measure] = {
    "starts": Measure(lambda one: STARTING.get(one.starts, 1), True),
    "requests": Measure(lambda one: one.requests_per_device, True),
    "request_bytes": Measure(lambda one: one.request_bytes, False),
    # Where no prompt hits, that counts as an endless one: any change to a length is then a gain.
    "hits": Measure(lambda one: float("inf") if one.hit_tokens is None else one.hit_tokens, False),
    "padding": Measure(lambda one: one.padding_percent, False),
    "devices": Measure(lambda one: one.devices, False),
}
"""Name -> measure, the most important first."""


def answers(plan: Plan, length_tokens: int | None = None) -> Answers:
    """Return the four answers. Errors: ScenarioError for a length that no request may have."""
    length = length_tokens or usual_length(plan)
    memory = memory_answer(plan)
    stopping = plan.errors or above_device(plan)
    reason: str | None = f"No cache: {plan.no_cache_text}."
    hit = None
    if plan.kept_cache is not None:
        caching = caching_of(plan)
        reason = reason_without_hits(caching)
        hit = shortest_prompt_with_hit(caching) if reason is None else None
    return Answers(
        block_tokens=plan.block_size,
        padding_percent=plan.padding_percent or 0.0,
        is_hybrid=plan.is_hybrid,
        is_attention_free=plan.model.is_attention_free,
        is_uncached=plan.is_uncached,
        hit_tokens=hit,
        no_hit_reason=reason,
        length_tokens=length,
        requests=_requests(plan, memory.cache_bytes, length),
        needs=memory.missing.field if plan.cache is not None and memory.missing else None,
        request_bytes=_request_bytes(plan, length),
        devices=gpus_of(plan.settings),
        starts=NO if plan.errors else memory.starts,
        blocker=next((CLAUSE.split(one.message)[0] for one in stopping), None),
        is_stopped=any(problem.code not in BY_MEMORY for problem in plan.errors),
    )


def _request_bytes(plan: Plan, length: int) -> int | None:
    if (cache := plan.kept_cache) is None:
        return None
    stages = cache.every_stage
    # A request holds blocks on every stage and rank: each has other layers or heads of it.
    held = sum(waste(plan, stage, length).reserved_bytes for stage in stages)
    return held * plan.settings.tensor_parallel


def _requests(plan: Plan, sizes: tuple[int, int] | None, length: int) -> tuple[int, int] | None:
    """Return how many requests fit into all engines, with the least and the most memory."""
    if (cache := plan.kept_cache) is None or sizes is None:
        return None
    if sizes[0] == sizes[1]:
        fitting = [requests_that_fit(plan, cache, length)] * 2
    else:
        # An estimate is a range, and both of its ends have a pool.
        pools = (cache.sized((size,)) for size in sizes)
        fitting = [requests_that_fit(plan, pool, length) for pool in pools]
    engines = plan.settings.data_parallel
    return (fitting[0] or 0) * engines, (fitting[1] or 0) * engines
