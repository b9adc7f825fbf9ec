"""Single changes of a scenario that are worth a click: what each gains, and what it costs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from workbench.core.errors import shown
from workbench.core.versions import RULE_SETS
from workbench.core.what_if.answers import MEASURES, Answers, answers
from workbench.core.what_if.choices import tensor_parallel_sizes
from workbench.core.what_if.outcomes import outcome_of

if TYPE_CHECKING:
    from workbench.core.plan import Plan

MOST_DEVICES = 16
GOALS = ("requests", "hits", "padding", "starts")
PER_REQUEST = {"requests": "request_bytes"}
"""Goal -> its measure while the memory is not known."""
NOTICEABLE = 0.01
"""A number that changes by less than this share is the same."""


class Difference(NamedTuple):
    """One measure of the answers, before and after a change; `is_better` for the user."""

    measure: str
    before: float | None
    after: float | None
    is_better: bool


@dataclass(frozen=True)
class NextStep:
    """A change that was resolved: its answers, and every measure that differs."""

    changes: Mapping[str, Any]
    plan: Plan
    answers: Answers
    differences: tuple[Difference, ...]

    @property
    def gains(self) -> tuple[Difference, ...]:
        """Return what gets better."""
        return tuple(one for one in self.differences if one.is_better)

    @property
    def costs(self) -> tuple[Difference, ...]:
        """Return what gets worse."""
        return tuple(one for one in self.differences if not one.is_better)

    def serves(self, goal: str) -> bool:
        """Return whether it is better by what the goal is about."""
        return _is_about(goal, self.gains)

    def harms(self, goal: str) -> bool:
        """Return whether it is worse by what the goal is about, as the last steps are."""
        return _is_about(goal, self.costs)


def _is_about(goal: str, found: Iterable[Difference]) -> bool:
    return any(one.measure in {goal, PER_REQUEST.get(goal)} for one in found)


def next_steps(
    plan: Plan, goal: str = GOALS[0], length_tokens: int | None = None
) -> tuple[NextStep, ...]:
    """Return the changes with a gain, best for `goal` first. length_tokens: see `answers`.

    A plan that does not start gets the changes after which it does, and no others. Changes that add
    an error are omitted. Errors: ValueError for an unknown goal.
    """
    if goal not in GOALS:
        raise ValueError(f"goal is {shown(goal)}. Allowed: {', '.join(GOALS)}.")
    before = answers(plan, length_tokens)
    found: dict[str, NextStep] = {}
    for changes in (*_remedies(plan), *single_changes(plan)):
        step = next_step(plan, before, changes)
        if step is not None and _is_worth_it(plan, step):
            found.setdefault(repr(sorted(step.changes.items())), step)
    return tuple(sorted(found.values(), key=lambda step: _rank(step, before, goal)))


def _remedies(plan: Plan) -> Iterator[Mapping[str, Any]]:
    for problem in plan.problems:
        for remedy in plan.remedies(problem):
            yield remedy.changes


def single_changes(plan: Plan) -> Iterator[Mapping[str, Any]]:
    """Yield the changes that engineers try first."""
    settings, model = plan.settings, plan.model
    size = settings.tensor_parallel
    # Any size may help a plan that does not start; one that does is compared with its neighbours.
    for other in tensor_parallel_sizes(model, MOST_DEVICES):
        if plan.errors or other in {2 * size, size // 2}:
            yield {"tensor_parallel": other}
    if model.attention is not None:
        yield {"kv_cache_dtype": "auto" if settings.kv_cache_dtype != "auto" else "fp8"}
    if model.state is not None:
        for dtype in ("auto", "bfloat16", "float32"):
            yield {"mamba_ssm_cache_dtype": dtype}
    yield from _speculation(plan)
    # What is in use, not what was set: the default depends on the model.
    yield {"enable_prefix_caching": not plan.enable_prefix_caching}
    if plan.enable_prefix_caching and model.is_hybrid:
        # The first mode is none, which prefix caching never has.
        for mode in RULE_SETS[settings.rules].cache_modes[1:]:
            yield {"mamba_cache_mode": mode}
    for budget in (2048, 8192, 16_384):
        yield {"max_num_batched_tokens": budget}


def _speculation(plan: Plan) -> Iterator[Mapping[str, Any]]:
    if plan.settings.num_speculative_tokens or plan.settings.speculative_method:
        yield {"num_speculative_tokens": 0, "speculative_method": None, "draft_model": None}
    else:
        yield {"num_speculative_tokens": 1, "speculative_method": "mtp"}


def next_step(plan: Plan, before: Answers, changes: Mapping[str, Any]) -> NextStep | None:
    """Return the outcome of a change; None where it is refused, or changes nothing."""
    new = {name: one for name, one in changes.items() if one != getattr(plan.settings, name)}
    if not new:
        return None
    other = outcome_of(plan.model, plan.settings, trace=False, **new).plan
    if other is None:
        return None
    after = answers(other, min(before.length_tokens, other.max_model_len))
    return NextStep(new, other, after, tuple(differences(before, after)))


def differences(before: Answers, after: Answers) -> Iterable[Difference]:
    """Yield the measures that differ noticeably, the most important first."""
    for name, measure in MEASURES.items():
        old, new = measure.read(before), measure.read(after)
        # The number of requests that fit says the same, and takes the memory into account.
        if old == new or (name == "request_bytes" and before.requests is not None):
            continue
        if old is None or new is None:
            continue
        if old and abs(new - old) < NOTICEABLE * abs(old):
            continue
        yield Difference(name, old, new, (new > old) == measure.more_is_better)


def _is_worth_it(plan: Plan, step: NextStep) -> bool:
    known = {problem.code for problem in plan.errors}
    if {problem.code for problem in step.plan.errors} - known:
        return False
    if plan.errors:
        return not step.plan.errors
    return bool(step.gains)


def _rank(step: NextStep, before: Answers, goal: str) -> tuple[float, ...]:
    """Return the order of a step: what it does for the goal, then fewer costs, more gains."""
    measure = MEASURES[goal]
    old, new = measure.read(before), measure.read(step.answers)
    gain = 0.0
    if old is not None and new is not None and old != new:
        larger = max(abs(old), abs(new))
        # A share of the larger number, since the smaller one may be 0.
        share = 1.0 if larger == float("inf") else abs(new - old) / larger
        gain = share if (new > old) == measure.more_is_better else -share
    return (-gain, len(step.costs), -len(step.gains))
