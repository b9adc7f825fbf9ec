"""One scenario under several rule sets: what changes, where they diverge, what it means.

A fact is a number of the plan. Its cause is the first step, among the steps that it is made from,
whose result differs between two rule sets; the step's own source names version and change.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from workbench.core.errors import ScenarioError, check_name
from workbench.core.model import Model
from workbench.core.plan import Plan
from workbench.core.trace import Step
from workbench.core.versions import RULE_SETS
from workbench.core.what_if.facts import FACTS, TRAITS, Fact, traits_of
from workbench.core.what_if.outcomes import Outcome, outcome_of

if TYPE_CHECKING:
    from workbench.scenario.fields import Settings

MADE_FROM = {
    "N": "aligned_block_size",
    "A": "alignment_granule",
    "mamba_page": "mamba_page_size_bytes",
    "block_size": "preferred_block_size",
    "before": "block_size",
    "state_dtypes": "mamba_ssm_cache_dtype",
    "mamba_block_size": "mamba_cache_mode",
}
"""Operand -> the step whose result it is, where the two are called differently."""


@dataclass(frozen=True)
class Difference:
    """One fact that two rule sets answer differently."""

    fact: Fact
    old: Any
    new: Any
    before: Step | None
    after: Step | None
    """The steps where they diverge, as `before` (None: the side has no such step)."""
    means: str
    """What it means for an upgrade."""
    memory: tuple[int, int] | None = None
    """Bytes for the cache of both sides, where they are the larger cause."""


class TraitDifference(NamedTuple):
    """What differs between two versions whatever the scenario is."""

    label: str
    old: str
    new: str
    means: str


@dataclass(frozen=True, repr=False)
class Comparison:
    """What an upgrade changes for one scenario; prints as text and as tables."""

    model: Model
    old: Outcome
    new: Outcome
    differences: tuple[Difference, ...]
    traits: tuple[TraitDifference, ...]

    @property
    def parting(self) -> tuple[Step | None, Step | None]:
        """Return the step where the paths of the first differing fact diverge, or None."""
        first = next((found for found in self.differences if found.after or found.before), None)
        return (None, None) if first is None else (first.before, first.after)

    @property
    def changes(self) -> bool:
        """Return whether an upgrade changes anything that the scenario shows."""
        return bool(self.differences) or self.old.errors != self.new.errors

    def __repr__(self) -> str:
        from workbench.views.versions.differences import differences_text

        return differences_text(self)

    def _repr_html_(self) -> str:
        from workbench.views.versions.differences import differences_html

        return differences_html(self)


def outcomes(model: Model, settings: Settings, rules: Iterable[str]) -> tuple[Outcome, ...]:
    """Return the scenario under each of `rules`; a refusal is an outcome, too."""
    return tuple(outcome_of(model, settings, rules=name) for name in rules)


def compare(
    model: Model, settings: Settings, old: str | None = None, new: str | None = None
) -> Comparison:
    """Return what changes for this scenario from the rule set `old` to `new`.

    Without names: from the release before the newest one to the newest; `new` alone is compared
    with the version before it. Errors: ScenarioError for an unknown one, and for the newest alone
    as `old`.
    """
    newest = RULE_SETS.newest
    if new is None and old == newest:
        message = f"{newest} is the newest version, so there is nothing to upgrade to. "
        message += f"Expected an older one to start from, such as {RULE_SETS.previous}, or two "
        message += "versions to compare."
        raise ScenarioError("nothing_newer", message, field="rules")
    new = new or newest
    old = old or _before(new)
    for name in (old, new):
        check_name("rule set", name, RULE_SETS, "rules")
    first, second = outcomes(model, settings, (old, new))
    found: tuple[Difference, ...] = ()
    if first.plan is not None and second.plan is not None:
        found = tuple(plan_differences(first.plan, second.plan))
    return Comparison(model, first, second, found, traits(old, new))


def _before(new: str) -> str:
    """Return the version before this one; without one, the release before the newest."""
    after = dict(pairwise(RULE_SETS))
    return next((old for old, each in after.items() if each == new), RULE_SETS.previous)


def traits(old: str, new: str) -> tuple[TraitDifference, ...]:
    """Return what differs between two rule sets whatever the scenario is."""
    one, other = traits_of(RULE_SETS[old]), traits_of(RULE_SETS[new])
    return tuple(
        TraitDifference(words.label, one[name], other[name], words.means)
        for name, words in TRAITS.items()
        if one[name] != other[name]
    )


def plan_differences(old: Plan, new: Plan) -> Iterable[Difference]:
    """Yield the facts that two plans answer differently, with the steps where they diverge."""
    for fact in FACTS:
        one, other = fact.read(old), fact.read(new)
        if one != other:
            before, after = parting(old, new, fact.steps or (fact.name,))
            memory = _memory(old, new) if fact.is_of_memory else None
            yield Difference(
                fact=fact,
                old=one,
                new=other,
                before=before,
                after=after,
                means=fact.meaning(one, other),
                memory=memory,
            )


def _memory(old: Plan, new: Plan) -> tuple[int, int] | None:
    """Return the bytes for the cache where they differ by more than those of a block."""
    one, other = old.cache, new.cache
    if one is None or other is None or one.available_bytes is None or other.available_bytes is None:
        return None
    sizes = one.available_bytes, other.available_bytes
    blocks = one.grouping.bytes_per_block, other.grouping.bytes_per_block
    # as quotients: the number of blocks is one size over the other
    is_larger = min(sizes) <= 0 or max(sizes) * min(blocks) > min(sizes) * max(blocks)
    return sizes if sizes[0] != sizes[1] and is_larger else None


def parting(old: Plan, new: Plan, names: tuple[str, ...]) -> tuple[Step | None, Step | None]:
    """Return where two paths diverge, (None, None) where all results agree."""
    # From the first of `names` whose result differs back to its source: a step is followed to the
    # first of its operands that is another step's result and differs.
    paths = [{step.rule.name: step for step in plan.steps} for plan in (old, new)]
    name = next((name for name in names if _differ(*_at(paths, name))), None)
    if name is None:
        return None, None
    while (source := _differing_operand(*_at(paths, name), paths)) is not None:
        name = source
    return _at(paths, name)


Paths = list[dict[str, Step]]
"""Of the old and of the new plan: the steps by name."""


def _at(paths: Paths, name: str) -> tuple[Step | None, Step | None]:
    return paths[0].get(name), paths[1].get(name)


def _differ(one: Step | None, other: Step | None) -> bool:
    if one is None or other is None:
        return one is not other
    return bool(one.result != other.result)


def _differing_operand(one: Step | None, other: Step | None, paths: Paths) -> str | None:
    """Return the step of the first operand that two steps do not share; None: the rule itself."""
    if one is None or other is None:
        return None
    for operand, value in other.operands.items():
        source = MADE_FROM.get(operand, operand)
        if value == one.operands.get(operand) or source == other.rule.name:
            continue
        before, after = _at(paths, source)
        if before is not None and after is not None and _differ(before, after):
            return source
    return None
