"""Phases: consecutive stages whose decisions are remembered for exactly what they read.

Nothing is declared: while a phase decides, a `Watch` takes the place of the working plan and notes
every setting and every decided value that is read before it is written. A plan with the same values
gets the same decisions, and the same steps of its trace, without running the stages again. What a
phase reads may depend on what it has read already: a value that is read for the first time joins
the key. What was remembered without it was decided without it, and is found under the shorter key.

The first plan of a model is not watched: most models of a batch do not come again. Nor are plans
with a trace once too many decisions were new: of unlike scenarios, as a batch has them, few are the
same. A sweep comes back to its decisions, however many are new first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

from workbench.core.model import Model
from workbench.core.registry import Registry
from workbench.core.rule_set import RuleSet, Stage
from workbench.core.stages import (
    attention_bytes,
    backend_choice,
    cache_mode,
    float_caches,
    grouping,
    hybrid_alignment,
    layer_checks,
    memory,
    pages,
    prefix_hits,
    refusals,
    speculation,
    state_pages,
)
from workbench.core.watch import APPENDED, Watch
from workbench.core.weights import UnreadWeights
from workbench.core.working_plan import WorkingPlan

REMEMBERED = 30_000
"""Decisions that are kept, of all models and rule sets. What has many groups counts more."""
PATIENCE = 5
"""New decisions of a phase, less those that were known, until plans with a trace do without it."""
MODELS = 512
"""Models that are kept, each for one rule set, with or without a trace."""
GROUPS_OF_ONE = 4
"""Groups of layers that take as much memory as a decision without any."""
STARTS = frozenset(
    {
        *(speculation.speculative_method, float_caches.float_kv_cache_dtype, state_pages.states),
        *(backend_choice.backend_choice, hybrid_alignment.hybrid_alignment),
        *(cache_mode.enable_prefix_caching, refusals.tensor_parallel),
        *(attention_bytes.attention_page, memory.requests, prefix_hits.inert_prefix_caching),
    }
)
"""Stages that begin a phase: what comes before them reads other fields, or fewer."""
OF_THE_POOL = frozenset(
    {memory.estimates, memory.capacity, memory.auto_fit, memory.budget, memory.memory}
)
"""Stages that read the bytes of the pool, which have too many values to remember."""
SIZES = OF_THE_POOL | {
    *(state_pages.states, hybrid_alignment.hybrid_alignment, attention_bytes.attention_page),
    *(grouping.groups, pages.unify_pages, pages.kernel_block_size, layer_checks.drafted_states),
    memory.requests,
}
"""The same, and stages that read sizes, which differ in most scenarios of a search."""
FIRST = ("settings.rules", "platform")
"""What every key begins with: `attrgetter` makes a tuple of two names or more."""


class _Decided(NamedTuple):
    """What stages wrote, and what they added."""

    values: tuple[tuple[str, Any], ...]
    added: tuple[tuple[str, tuple[Any, ...]], ...]


class _Memory:
    """What was decided, by the values of what was read."""

    def __init__(self, reads: tuple[str, ...], older: _Memory | None = None) -> None:
        self.reads = reads
        self.older: _Memory | None = older if older is None or older.decided else older.older
        """What was remembered before the last of `reads` was read."""
        self.key: Callable[[object], tuple[Any, ...]] = attrgetter(*reads)
        self.decided: dict[tuple[Any, ...], _Decided] = {}

    def recall(self, run: WorkingPlan) -> _Decided | None:
        """Return what was decided by fewer values."""
        older = self.older
        while older is not None:
            found = older.decided.get(older.key(run))
            if found is not None:
                return found
            older = older.older
        return None


class Phase:
    """Stages that run one after the other; called as one stage."""

    def __init__(self, stages: Iterable[Stage]) -> None:
        self.stages = tuple(stages)
        self.memory = _Memory(FIRST)
        self._is_first = True
        self._new = 0

    def __call__(self, run: WorkingPlan) -> None:
        """Decide, or repeat what was decided for the same values. Errors: as the stages."""
        if self._is_first or (run.is_traced and self._new > PATIENCE):
            self._is_first = False
            for stage in self.stages:
                stage(run)
            return
        memory = self.memory
        key = memory.key(run)
        found = memory.decided.get(key)
        self._new += 1 if found is None else -1
        if found is None:
            found = self._recalled(run, memory, key) or self._decide(run, memory, key)
        # the same objects every time: what stages write is never changed afterwards
        for name, value in found.values:
            setattr(run, name, value)
        for name, more in found.added:
            setattr(run, name, getattr(run, name) + more)

    def _recalled(self, run: WorkingPlan, memory: _Memory, key: tuple[Any, ...]) -> _Decided | None:
        found = memory.recall(run)
        if found is not None:
            _make_room()
            memory.decided[key] = found
        return found

    def _decide(self, run: WorkingPlan, memory: _Memory, key: tuple[Any, ...]) -> _Decided:
        """Run the stages. What they refuse is not remembered."""
        watch = Watch(run)
        for stage in self.stages:
            stage(watch)
        written = ((name, getattr(watch, name)) for name in watch.written - APPENDED)
        added = ((name, getattr(watch, name)) for name in watch.written & APPENDED)
        found = _Decided(tuple(written), tuple(added))
        new = [name for name in watch.read if name not in memory.reads]
        if new:
            memory = self.memory = _Memory((*memory.reads, *new), memory)
        _make_room(_weight(found))
        memory.decided[(*key, *[watch.read[name] for name in new])] = found
        return found


def _make_room(weight: int = 1) -> None:
    """Make room for one decision more; when there is none, all are forgotten."""
    # That is rare enough: a sweep has few different keys per phase.
    if _room.left < weight:
        forget()
    _room.left -= weight


def _weight(decided: _Decided) -> int:
    """Return how many usual decisions take as much memory."""
    cache = dict(decided.values).get("cache")
    if cache is None:
        return 1
    # Every pipeline stage has groups of its own.
    return 1 + sum(len(one.groups) for one in (cache, *cache.stages)) // GROUPS_OF_ONE


@dataclass
class _Room:
    left: int = REMEMBERED


_room = _Room()
"""How many decisions more can be remembered."""


def forget() -> None:
    """Forget every decision."""
    _phases.cache_clear()
    _room.left = REMEMBERED


def phases(
    model: Model, rules: RuleSet, *, trace: bool, apart: frozenset[Stage] = OF_THE_POOL
) -> tuple[Stage, ...]:
    """Return the stages of a rule set in phases, with what they remember of this model.

    trace: for plans with a trace, whose steps read more. apart: stages that decide every time.
    """
    return _phases(model, model.unread_weights, rules, trace, apart, Registry.changes)


@lru_cache(maxsize=MODELS)
def _phases(
    _model: Model,
    _weights: UnreadWeights,
    rules: RuleSet,
    _trace: bool,
    apart: frozenset[Stage],
    _changes: int,
) -> tuple[Stage, ...]:
    # Models are equal whatever their weights are. Stages read tables of backends and other
    # registries, too: a change makes all memory stale.
    found: list[Stage | list[Stage]] = []
    for stage in rules.stages:
        if stage in apart:
            found.append(stage)
        elif found and isinstance(found[-1], list) and stage not in STARTS:
            found[-1].append(stage)
        else:
            found.append([stage])
    return tuple([Phase(one) if isinstance(one, list) else one for one in found])
