"""Remedies: changes of a scenario that were tried, and that make a problem go away."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from workbench.core.errors import Refused, WorkbenchError
from workbench.core.model import Model
from workbench.core.plan import Plan
from workbench.core.problems import Problem
from workbench.core.resolve import resolve
from workbench.core.trace import show

if TYPE_CHECKING:
    from workbench.scenario.fields import Settings

ENGINE = "auto (vLLM decides)"
MOST = 3
"""Remedies of one problem."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """A change of scenario fields that was resolved again: the problem is gone, no error is new."""

    changes: Mapping[str, Any]
    plan: Plan

    def __str__(self) -> str:
        return self.sentence(self.text)

    def sentence(self, changes: str) -> str:
        """Return what the changes, in these words, lead to."""
        return outcome_text(changes, self.plan.block_size)

    @property
    def text(self) -> str:
        """Return the changes in words."""
        return fields_text(self.changes)

    def to_dict(self) -> dict[str, Any]:
        """Return the published form: the changes, and the block size that they lead to."""
        return {"changes": dict(self.changes), "block_size": self.plan.block_size}


def fields_text(changes: Mapping[str, Any]) -> str:
    """Return changes in words; null leaves it to vLLM, not the word "none"."""
    return ", ".join(
        f"{name} = {ENGINE if value is None else show(value)}" for name, value in changes.items()
    )


def outcome_text(changes: str, block_size: int) -> str:
    """Return what changes, in these words, lead to."""
    return f"{changes} (block size {block_size:,})"


_TRIED: deque[tuple[Plan, dict[str, Plan | WorkbenchError]]] = deque(maxlen=8)
"""The last plans, and what changes of their scenarios lead to: several views need the same."""


def _tried(plan: Plan) -> dict[str, Plan | WorkbenchError]:
    for known, tried in tuple(_TRIED):
        if known is plan:  # this very plan, not one that is equal to it
            return tried
    nothing: dict[str, Plan | WorkbenchError] = {}
    _TRIED.append((plan, nothing))
    return nothing


def changed_plan(plan: Plan, changes: Mapping[str, Any]) -> Plan:
    """Resolve a plan's scenario with changes; the last plans remember theirs.

    Errors: as `resolve`.
    """
    tried, key = _tried(plan), repr(sorted(changes.items()))
    if key not in tried:
        try:
            tried[key] = resolve(plan.model, replace(plan.settings, **changes))
        except WorkbenchError as error:
            tried[key] = error
    found = tried[key]
    if isinstance(found, WorkbenchError):
        raise found
    return found


def try_changes(
    settings: Settings,
    resolved: Callable[[Mapping[str, Any]], Plan],
    code: str,
    candidates: Iterable[Mapping[str, Any]],
    allowed_errors: frozenset[str] = frozenset(),
    known_warnings: frozenset[str] = frozenset(),
) -> tuple[Remedy, ...]:
    """Return a few candidates after which `code` is gone and no new error has come.

    Those that bring a new warning come last. `allowed_errors` and `known_warnings` are the codes
    that were there before. resolved: the plan of the settings with changes.
    """
    found: list[Remedy] = []
    warned: list[Remedy] = []
    tried: list[Mapping[str, Any]] = [{}]
    for candidate in candidates:
        present = {name: getattr(settings, name) for name in candidate}
        changes = {name: value for name, value in candidate.items() if value != present[name]}
        if changes in tried:
            continue
        tried.append(changes)
        try:
            plan = resolved(changes)
        except WorkbenchError:
            continue
        # a change that only trades one error for another does not help
        codes = {problem.code for problem in plan.problems}
        if code in codes or {problem.code for problem in plan.errors} - allowed_errors:
            continue
        new = codes - allowed_errors - known_warnings
        (warned if new else found).append(Remedy(dict(changes), plan))
        if len(found) == MOST:
            break
    return tuple([*found, *warned][:MOST])


def remedies_for(plan: Plan, problem: Problem) -> tuple[Remedy, ...]:
    """Return tried remedies for one problem of a plan, best first; empty when none works."""
    before = frozenset(other.code for other in plan.problems) - {problem.code}
    errors = before & {other.code for other in plan.errors}
    return try_changes(
        plan.settings,
        partial(changed_plan, plan),
        problem.code,
        problem.candidates,
        errors,
        known_warnings=before,
    )


def remedies_for_refusal(model: Model, settings: Settings, refusal: Refused) -> tuple[Remedy, ...]:
    """Return tried remedies for a refused configuration, best first."""

    def resolved(changes: Mapping[str, Any]) -> Plan:
        return resolve(model, replace(settings, **changes))

    return try_changes(settings, resolved, refusal.code, refusal.candidates)
