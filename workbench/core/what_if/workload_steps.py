"""Single changes of a scenario after which a workload of shared prefixes reuses more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.core.prefix.hits import caching_of
from workbench.core.prefix.workload import Workload, WorkloadHits, workload_hits
from workbench.core.what_if.next_steps import single_changes
from workbench.core.what_if.outcomes import outcome_of

if TYPE_CHECKING:
    from workbench.core.plan import Plan


@dataclass(frozen=True)
class WorkloadStep:
    """A change that was resolved, and what the workload reuses after it."""

    changes: Mapping[str, Any]
    plan: Plan
    hits: WorkloadHits

    @property
    def cached_tokens(self) -> int:
        """Return the tokens that all requests together do not compute."""
        return sum(self.hits.cached_tokens)


def workload_steps(plan: Plan, workload: Workload) -> tuple[WorkloadStep, ...]:
    """Return the changes after which the workload reuses more tokens, the most first.

    Changes that are refused or add an error are omitted, and those of equal effect after the first.
    Errors: ValueError when the plan has no cache.
    """
    caching = caching_of(plan)
    present = sum(workload_hits(caching, workload).cached_tokens)
    found: dict[int, WorkloadStep] = {}
    # A step that ends inside what is shared leaves a checkpoint there.
    inside = workload.shared_tokens - workload.shared_tokens % caching.alignment_tokens
    budgets = [{"max_num_batched_tokens": inside}] if inside else []
    for changes in (*budgets, *single_changes(plan)):
        step = _tried(plan, workload, changes)
        if step is not None and step.cached_tokens > present:
            found.setdefault(step.cached_tokens, step)
    return tuple(found[tokens] for tokens in sorted(found, reverse=True))


def _tried(plan: Plan, workload: Workload, changes: Mapping[str, Any]) -> WorkloadStep | None:
    new = {name: one for name, one in changes.items() if one != getattr(plan.settings, name)}
    other = outcome_of(plan.model, plan.settings, trace=False, **new).plan if new else None
    if other is None or other.kept_cache is None or workload.prompt_tokens > other.max_model_len:
        return None
    if {one.code for one in other.errors} - {one.code for one in plan.errors}:
        return None
    return WorkloadStep(new, other, workload_hits(caching_of(other), workload))
