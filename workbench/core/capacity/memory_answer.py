"""What one device's memory is spent on, what is left for the cache, and whether vLLM starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from workbench.core.arithmetic import GIB
from workbench.core.capacity.cache_plan import CachePlan
from workbench.core.capacity.draft_weights import DraftBytes, draft_bytes
from workbench.core.capacity.memory_doubts import Doubt
from workbench.core.capacity.memory_estimate import (
    NO_CACHE,
    NO_DEVICE,
    Unestimated,
    budget_of,
    estimate_margin,
    missing,
    weights_of,
)
from workbench.core.groups.graph_support import captures_states

if TYPE_CHECKING:
    from workbench.core.plan import Plan
    from workbench.core.problems import Problem

YES, NO, PERHAPS, UNKNOWN = "yes", "no", "perhaps", "unknown"
REST, UNUSED = "the rest", "gpu_memory_utilization"
"""Sources of the terms that nothing takes: the cache, and what vLLM leaves alone."""


class MemoryTerm(NamedTuple):
    """One part of the memory that vLLM takes; source: explicit, config.json or estimated."""

    name: str
    size_bytes: int
    source: str


class StageMemory(NamedTuple):
    """The memory of a rank of one pipeline stage, in bytes."""

    layers: range
    weights_bytes: int | None
    """None where they are not known."""
    cache_bytes: int | None
    """What the cache gets, in the middle of a range where it is estimated."""
    room_blocks: int | None
    """Blocks that fit; all stages have the fewest."""


@dataclass(frozen=True)
class MemoryAnswer:
    """The memory of one rank's device: terms, what the cache gets, tokens, and the verdict."""

    terms: tuple[MemoryTerm, ...]
    """Without those of an explicit cache size, which replaces them."""
    cache_bytes: tuple[int, int] | None
    """The least and the most that the cache gets, equal where nothing is estimated; None while it
    is not known."""
    tokens: tuple[int, int] | None
    """What vLLM would print as the size of the cache, of the least and of the most."""
    starts: str
    """yes, no, perhaps (the least does not hold one request of full length, and the most does) or
    unknown."""
    missing: Unestimated | None = None
    """What the answer needs, where it is unknown."""
    stages: tuple[StageMemory, ...] = ()
    """Of a rank of every pipeline stage; the rest is that of the stage that decides."""
    doubts: tuple[Doubt, ...] = ()
    """Why the least and the most differ, with the bytes of each reason in either direction."""

    @property
    def is_estimate(self) -> bool:
        """Return whether the sizes are a range."""
        return self.cache_bytes is not None and self.cache_bytes[0] != self.cache_bytes[1]

    def __repr__(self) -> str:
        if self.cache_bytes is None:
            return f"memory unknown: {self.missing or ''}"
        least, most = self.cache_bytes
        size = f"{least / GIB:.2f}" + (f" to {most / GIB:.2f}" if self.is_estimate else "")
        kind = ", an estimate" if self.is_estimate else ""
        return f"starts: {self.starts}, {size} GiB for the cache of one rank{kind}"

    def _repr_html_(self) -> str:
        from workbench.views.capacity.memory_answer import answer_html

        return answer_html(self)


def memory_answer(plan: Plan) -> MemoryAnswer:
    """Return what is known of the memory of one rank's device, and the verdict."""
    cache, margin, budget = plan.cache, estimate_margin(plan) or 0, budget_of(plan)
    if cache is None or cache.available_bytes is None:
        why = NO_CACHE if cache is None else missing(plan) or NO_DEVICE
        return MemoryAnswer(terms=(), cache_bytes=None, tokens=None, starts=UNKNOWN, missing=why)
    least, most = cache.available_bytes - margin, cache.available_bytes + margin
    tokens = [cache.with_more(change).printed_tokens or 0 for change in (-margin, margin)]
    return MemoryAnswer(
        terms=_terms(plan),
        cache_bytes=(least, most),
        tokens=(tokens[0], tokens[1]),
        starts=_starts(plan, cache, least, most),
        stages=_stages(plan, cache),
        doubts=budget.doubts or () if budget is not None and margin else (),
    )


def taken_terms(answer: MemoryAnswer) -> tuple[MemoryTerm, ...]:
    """Return what vLLM takes before the cache."""
    return tuple(one for one in answer.terms if one.source not in {REST, UNUSED})


def _stages(plan: Plan, cache: CachePlan) -> tuple[StageMemory, ...]:
    end = plan.model.num_hidden_layers
    return tuple(
        StageMemory(
            range(stage.layers.start, min(stage.layers.stop, end)),
            weights_of(plan, stage.layers),
            one.available_bytes,
            one.room_blocks,
        )
        for stage, one in zip(plan.stages, cache.stages, strict=True)
    )


def _starts(plan: Plan, cache: CachePlan, least: int, most: int) -> str:
    """Return whether one request of full length fits; other errors stop vLLM in any case."""
    others = [problem for problem in plan.errors if problem.code not in BY_MEMORY]
    if others or above_device(plan) or cache.needed_bytes > most - cache.held_back_bytes:
        return NO
    is_sure = cache.needed_bytes <= least - cache.held_back_bytes and _holds_states(plan, least)
    return YES if is_sure else PERHAPS


def above_device(plan: Plan) -> tuple[Problem, ...]:
    """Return the warning about memory that vLLM does not check, and runs out of."""
    return tuple(problem for problem in plan.problems if problem.code == ABOVE_DEVICE)


def _holds_states(plan: Plan, least: int) -> bool:
    """Return whether every sequence gets its block of states, where graph capture asks for it."""
    cache = plan.cache
    if cache is None or not captures_states(plan, cache):
        return True
    change = least - (cache.available_bytes or 0)
    return plan.max_num_seqs <= (cache.with_more(change).num_blocks or 0)


ABOVE_DEVICE = "cache_above_device_memory"
BY_MEMORY = frozenset({"no_memory_for_blocks", "not_enough_memory", "cannot_auto_fit"})
"""Codes of problems that a larger cache resolves."""


def _terms(plan: Plan) -> tuple[MemoryTerm, ...]:
    budget, settings = budget_of(plan), plan.settings
    if budget is None or (estimate_margin(plan) is None and budget.margin_bytes is not None):
        return ()
    estimated = "estimated" if budget.margin_bytes is not None else "explicit"

    def source(explicit: object) -> str:
        return estimated if explicit is None else "explicit"

    weights = "explicit"
    if settings.weights_bytes is None:
        weights = "the checkpoint's size" if plan.model.weights.unknown else "config.json"
    drafter = 0 if weights == "explicit" else (draft_bytes(plan) or DraftBytes()).size
    terms = (
        MemoryTerm("weights", budget.weights_bytes - drafter, weights),
        MemoryTerm("weights of the drafter", drafter, "config.json"),
        MemoryTerm("activations", budget.activation_bytes, source(settings.activation_bytes)),
        MemoryTerm("CUDA graphs", budget.cuda_graph_bytes, source(settings.cuda_graph_bytes)),
        MemoryTerm("outside torch", budget.other_bytes, estimated),
        MemoryTerm("left" if plan.is_uncached else "KV cache", budget.available_bytes, REST),
        MemoryTerm("unused", budget.device_bytes - budget.requested_bytes, UNUSED),
    )
    return tuple(term for term in terms if term.size_bytes)
