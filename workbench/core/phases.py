"""Phases: consecutive stages whose decisions are remembered for exactly what they read.

Nothing is declared: while a phase decides, a `Watch` takes the place of the working plan and notes
every setting and every decided value that is read before it is written. A plan with the same values
gets the same decisions without running the stages again. What a phase reads may depend on what it
has read already: a value that is read for the first time joins the key, and what was remembered
without it is forgotten. So a decision is never found under less than what it depends on.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

from workbench.core.model import Model
from workbench.core.registry import Registry
from workbench.core.rule_set import RuleSet, Stage
from workbench.core.stages import (
    attention_bytes,
    backend_choice,
    float_caches,
    hybrid_alignment,
    memory,
    prefix_hits,
    speculation,
    state_pages,
)
from workbench.core.watch import APPENDED, Watch
from workbench.core.working_plan import UntracedPlan

REMEMBERED = 1024
"""Decisions that a phase keeps: of one model and one rule set."""
MODELS, REMEMBERED_OF_EACH = 128, 128
"""The same for searches over the catalog: as many decisions, of more models and fewer of each."""
STARTS = frozenset(
    {
        *(speculation.speculative_method, float_caches.float_kv_cache_dtype, state_pages.states),
        *(backend_choice.backend_choice, hybrid_alignment.hybrid_alignment),
        *(attention_bytes.attention_page, memory.requests, prefix_hits.inert_prefix_caching),
    }
)
"""Stages that begin a phase: what comes before them reads other fields, or fewer."""
OF_THE_POOL = frozenset({memory.capacity, memory.auto_fit, memory.budget, memory.memory})
"""Stages that read the bytes of the pool, which have too many values to remember."""
FIRST = ("settings.rules", "platform")
"""What every key begins with: `attrgetter` makes a tuple of two names or more."""


class _Decided(NamedTuple):
    """What stages wrote, and what they added."""

    values: tuple[tuple[str, Any], ...]
    log_lines: tuple[str, ...]
    problems: tuple[Any, ...]


class _Memory:
    """What was decided, by the values of what was read."""

    def __init__(self, reads: tuple[str, ...]) -> None:
        self.reads = reads
        self.key: Callable[[object], tuple[Any, ...]] = attrgetter(*reads)
        self.decided: dict[tuple[Any, ...], _Decided] = {}


class Phase:
    """Stages that run one after the other; called as one stage, for plans without a trace."""

    def __init__(self, stages: Iterable[Stage], most: int) -> None:
        self.stages = tuple(stages)
        self._most = most
        self.memory = _Memory(FIRST)

    def __call__(self, run: UntracedPlan) -> None:
        """Decide, or repeat what was decided for the same values. Errors: as the stages."""
        memory = self.memory
        key = memory.key(run)
        found = memory.decided.get(key)
        if found is None:
            found = self._decide(run, memory, key)
        # the same objects every time: what stages write is never changed afterwards
        for name, value in found.values:
            setattr(run, name, value)
        if found.log_lines:
            run.log_lines += found.log_lines
        if found.problems:
            run.problems += found.problems

    def _decide(self, run: UntracedPlan, memory: _Memory, key: tuple[Any, ...]) -> _Decided:
        """Run the stages. What they refuse is not remembered."""
        watch = Watch(run)
        for stage in self.stages:
            stage(watch)
        written = ((name, getattr(watch, name)) for name in watch.written - APPENDED)
        found = _Decided(tuple(written), watch.log_lines, watch.problems)
        new = [name for name in watch.read if name not in memory.reads]
        if new:
            memory = self.memory = _Memory((*memory.reads, *new))
        # forgetting everything is rare enough: a sweep has few different keys per phase
        elif len(memory.decided) >= self._most:
            memory.decided.clear()
        memory.decided[(*key, *[watch.read[name] for name in new])] = found
        return found


def phases(model: Model, rules: RuleSet) -> tuple[Stage, ...]:
    """Return the stages of a rule set in phases, with what they remember of this model."""
    return _phases(model, rules, Registry.changes)


def phases_of_numbers(model: Model, rules: RuleSet) -> tuple[tuple[Stage, ...], tuple[Stage, ...]]:
    """Return the phases that decide the block sizes, and those that fill the pool with blocks.

    What comes after them only reports problems.
    """
    return _phases_of_numbers(model, rules, Registry.changes)


@lru_cache(maxsize=MODELS)
def _phases_of_numbers(
    _model: Model, rules: RuleSet, _changes: int
) -> tuple[tuple[Stage, ...], tuple[Stage, ...]]:
    found = _built(rules, REMEMBERED_OF_EACH)
    firsts = [one.stages[0] if isinstance(one, Phase) else one for one in found]
    pool, end = firsts.index(memory.requests), firsts.index(memory.auto_fit) + 1
    return found[:pool], found[pool:end]


@lru_cache(maxsize=16)
def _phases(_model: Model, rules: RuleSet, _changes: int) -> tuple[Stage, ...]:
    # Stages read tables of backends and other registries too: a change makes all memory stale.
    return _built(rules, REMEMBERED)


def _built(rules: RuleSet, most: int) -> tuple[Stage, ...]:
    found: list[Stage | list[Stage]] = []
    for stage in rules.stages:
        if stage in OF_THE_POOL:
            found.append(stage)
        elif found and isinstance(found[-1], list) and stage not in STARTS:
            found[-1].append(stage)
        else:
            found.append([stage])
    return tuple([Phase(one, most) if isinstance(one, list) else one for one in found])
