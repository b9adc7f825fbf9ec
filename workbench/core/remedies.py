"""Remedies: changes of a scenario that were tried, and that make a problem go away."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from workbench.core.errors import Refused, WorkbenchError
from workbench.core.model import Model
from workbench.core.plan import Plan
from workbench.core.problems import Problem
from workbench.core.resolve import resolve
from workbench.core.settings import Settings
from workbench.core.trace import show

ENGINE = "engine's choice"


@dataclass(frozen=True, slots=True)
class Remedy:
    """A change of scenario fields that was resolved again: the problem is gone, no error is new."""

    changes: Mapping[str, Any]
    plan: Plan

    def __str__(self) -> str:
        return f"{self.text} (block size {self.plan.block_size})"

    @property
    def text(self) -> str:
        """Return the changes in words; null is the engine's choice, not the word "none"."""
        return ", ".join(
            f"{name} = {ENGINE if value is None else show(value)}"
            for name, value in self.changes.items()
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the published form: the changes, and the block size that they lead to."""
        return {"changes": dict(self.changes), "block_size": self.plan.block_size}


def try_changes(
    model: Model,
    settings: Settings,
    code: str,
    candidates: Iterable[Mapping[str, Any]],
    allowed_errors: frozenset[str] = frozenset(),
    limit: int = 3,
    plan_type: type[Plan] = Plan,
    known_warnings: frozenset[str] = frozenset(),
) -> tuple[Remedy, ...]:
    """Return up to `limit` candidates after which `code` is gone and no new error has come.

    Those that bring a new warning come last. `allowed_errors` and `known_warnings` are the codes
    that were there before.
    """
    found: list[Remedy] = []
    warned: list[Remedy] = []
    tried: list[Mapping[str, Any]] = []
    for changes in candidates:
        if changes in tried:
            continue
        tried.append(changes)
        try:
            changed = replace(settings, **changes)
            if changed == settings:
                continue
            plan = resolve(model, changed, plan_type)
        except WorkbenchError:
            continue
        codes = {problem.code for problem in plan.problems}
        if code in codes or {problem.code for problem in plan.errors} - allowed_errors:
            continue
        new = codes - allowed_errors - known_warnings
        (warned if new else found).append(Remedy(dict(changes), plan))
        if len(found) == limit:
            break
    return tuple([*found, *warned][:limit])


def remedies_for(plan: Plan, problem: Problem) -> tuple[Remedy, ...]:
    """Return tried remedies for one problem of a plan, best first; empty when none works."""
    before = frozenset(other.code for other in plan.problems) - {problem.code}
    errors = before & {other.code for other in plan.errors}
    return try_changes(
        plan.model,
        plan.settings,
        problem.code,
        problem.candidates,
        errors,
        plan_type=type(plan),
        known_warnings=before,
    )


def remedies_for_refusal(
    model: Model, settings: Settings, refusal: Refused, plan_type: type[Plan] = Plan
) -> tuple[Remedy, ...]:
    """Return tried remedies for a refused configuration, best first."""
    return try_changes(model, settings, refusal.code, refusal.candidates, plan_type=plan_type)
