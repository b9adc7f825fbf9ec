"""How far a scenario reaches: the longest request that fits, and the devices on which it starts."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from workbench.core.capacity.blocks import longest_request
from workbench.core.capacity.memory_answer import NO, PERHAPS, UNKNOWN, YES, memory_answer
from workbench.core.devices import DEVICES, SET_BY_DEVICE
from workbench.core.what_if.answers import Answers, answers
from workbench.core.what_if.choices import tensor_parallel_sizes
from workbench.core.what_if.next_steps import MOST_DEVICES
from workbench.core.what_if.outcomes import outcome_of

if TYPE_CHECKING:
    from workbench.core.capacity.cache_plan import CachePlan
    from workbench.core.plan import Plan


class Machine(NamedTuple):
    """Devices of one kind on which a scenario starts."""

    changes: Mapping[str, object]
    """The fields that name them."""
    answers: Answers


def longest_fit(plan: Plan) -> tuple[int, int] | None:
    """Return the tokens of the longest request that fits, with the least and the most memory.

    Not above `max_model_len`; equal where nothing is estimated. None while the memory is not known.
    """
    cache, sizes = plan.cache, memory_answer(plan).cache_bytes
    if cache is None or sizes is None or cache.available_bytes is None:
        return None
    available = cache.available_bytes
    least, most = (_longest(plan, cache, size - available) for size in sizes)
    return least, most


def _longest(plan: Plan, cache: CachePlan, more_bytes: int) -> int:
    """Return the longest request where every rank has so many bytes more: all stages hold it."""
    stages = cache.with_more(more_bytes).every_stage
    return min(longest_request(plan, one.grouping, one.available_bytes or 0) for one in stages)


def longest_together(plan: Plan, requests: int) -> tuple[int, int] | None:
    """Return the tokens of the longest requests of which so many fit at a time.

    With the least and the most memory; 0 where none fit. None while the memory is not known.
    """
    if answers(plan).requests is None:
        return None

    def longest(at: int) -> int:
        lengths = range(1, plan.max_model_len + 1)
        fitting = partial(_fitting, plan, at)
        return bisect_right(lengths, -requests, key=lambda length: -fitting(length))

    return longest(0), longest(1)


def _fitting(plan: Plan, at: int, length: int) -> int:
    return (answers(plan, length).requests or (0, 0))[at]


def machines(
    plan: Plan,
    names: Iterable[str] = DEVICES,
    length_tokens: int | None = None,
    requests: int = 0,
) -> tuple[Machine, ...]:
    """Return for each named device the fewest on which the scenario starts, the fewest first.

    Tensor-parallel sizes up to 16 are tried; devices on which none starts are omitted.
    length_tokens: of a request, for the answers; see `answers`. requests: how many of them have to
    fit at a time.
    """
    each = (_fewest(plan, name, length_tokens, requests) for name in names)
    found = [one for one in each if one is not None]
    return tuple(sorted(found, key=lambda one: (one.answers.devices, _memory(one))))


def _memory(machine: Machine) -> int:
    return DEVICES[str(machine.changes["device"])].memory_bytes


def _fewest(plan: Plan, name: str, length: int | None, requests: int) -> Machine | None:
    """Return the fewest of a device: those that are enough for sure, else those that may be."""
    tried = list(_tried(plan, name, length, requests))
    for wanted in (YES, PERHAPS):
        if found := next((one for one in tried if _is_enough(one, requests) == wanted), None):
            return found
    return None


def _is_enough(machine: Machine, requests: int) -> str:
    """Return whether the scenario starts there, and holds so many requests."""
    least, most = machine.answers.requests or (0, 0)
    starts = machine.answers.starts
    if not requests or starts not in {YES, PERHAPS}:
        return starts
    if requests > most:
        return NO
    return starts if requests <= least else PERHAPS


def _tried(plan: Plan, name: str, length: int | None, requests: int) -> Iterator[Machine]:
    machine = {"device": name, "platform": DEVICES[name].platform}
    for size in tensor_parallel_sizes(plan.model, MOST_DEVICES):
        changes = {**dict.fromkeys(SET_BY_DEVICE), **machine, "tensor_parallel": size}
        other = outcome_of(plan.model, plan.settings, trace=False, **changes).plan
        if other is not None:
            found = answers(other, length and min(length, other.max_model_len))
            yield (one := Machine(changes, found))
            if _is_enough(one, requests) in {YES, UNKNOWN}:
                return
