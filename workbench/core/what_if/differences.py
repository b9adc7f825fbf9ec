"""One scenario under several rule sets: what changes, where the paths part, what it means.

A fact is a number of the plan. Its cause is the first step, among the steps that it is made from,
whose result differs between two rule sets; the step's own source names version and change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from workbench.core.errors import WorkbenchError
from workbench.core.model import Model
from workbench.core.plan import Plan
from workbench.core.resolve import resolve
from workbench.core.trace import Step
from workbench.core.versions import RULE_SETS
from workbench.core.what_if.facts import FACTS, Fact
from workbench.core.what_if.upgrade_words import TRAITS, meaning, traits_of

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
class Outcome:
    """What one rule set makes of the scenario: a plan, or the reason why there is none."""

    rules: str
    plan: Plan | None
    refused: str | None = None
    code: str | None = None

    @property
    def starts(self) -> bool:
        """Return whether vLLM would start."""
        return self.plan is not None and not self.plan.errors

    @property
    def errors(self) -> tuple[str, ...]:
        """Return the codes of what stops it."""
        if self.plan is None:
            return (self.code or "refused",)
        return tuple(problem.code for problem in self.plan.errors)


@dataclass(frozen=True)
class Difference:
    """One fact that two rule sets answer differently."""

    fact: Fact
    old: Any
    new: Any
    before: Step | None
    after: Step | None
    """The steps where the paths part, as `before` (None: the side has no such step)."""
    means: str
    """What it means for an upgrade."""


@dataclass(frozen=True)
class Trait:
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
    traits: tuple[Trait, ...]

    @property
    def parting(self) -> tuple[Step | None, Step | None]:
        """Return the step where the paths of the first differing fact part, or None."""
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


def outcomes(
    model: Model,
    settings: Settings,
    rules: Iterable[str],
) -> tuple[Outcome, ...]:
    """Return the scenario under each of `rules`; a refusal is an outcome, too."""
    return tuple(_outcome(model, settings, name) for name in rules)


def _outcome(model: Model, settings: Settings, rules: str) -> Outcome:
    try:
        return Outcome(rules, resolve(model, replace(settings, rules=rules)))
    except WorkbenchError as error:
        return Outcome(rules, None, error.message, error.code)


def compare(
    model: Model,
    settings: Settings,
    old: str | None = None,
    new: str | None = None,
) -> Comparison:
    """Return what changes for this scenario from the rule set `old` to `new`.

    Without names: from the release before the newest one to the newest.
    """
    old, new = old or RULE_SETS.previous, new or RULE_SETS.newest
    RULE_SETS[old], RULE_SETS[new]
    first, second = outcomes(model, settings, (old, new))
    found: tuple[Difference, ...] = ()
    if first.plan is not None and second.plan is not None:
        found = tuple(_differences(first.plan, second.plan))
    return Comparison(model, first, second, found, traits(old, new))


def traits(old: str, new: str) -> tuple[Trait, ...]:
    """Return what differs between two rule sets whatever the scenario is."""
    one, other = traits_of(RULE_SETS[old]), traits_of(RULE_SETS[new])
    return tuple(
        Trait(words.label, one[name], other[name], words.means)
        for name, words in TRAITS.items()
        if one[name] != other[name]
    )


def _differences(old: Plan, new: Plan) -> Iterable[Difference]:
    for fact in FACTS:
        one, other = fact.read(old), fact.read(new)
        if one == other:
            continue
        before, after = parting(old, new, fact.steps)
        yield Difference(
            fact=fact,
            old=one,
            new=other,
            before=before,
            after=after,
            means=meaning(_worded(fact, old), one, other),
        )


def _worded(fact: Fact, old: Plan) -> str:
    """Return the name whose sentence applies: hashes that did not exist cannot become useless."""
    unused = fact.name == "hash_block_size" and not old.enable_prefix_caching
    return "first_hash_block_size" if unused else fact.name


def parting(old: Plan, new: Plan, names: tuple[str, ...]) -> tuple[Step | None, Step | None]:
    """Return where two paths part.

    The search goes from the first of `names` whose result differs back to its source.

    A step is followed to the first of its operands that is another step's result and differs.
    (None, None) where all results agree.
    """
    first, second = _by_name(old), _by_name(new)
    name = next((name for name in names if _differs(first.get(name), second.get(name))), None)
    if name is None:
        return None, None
    while (
        source := _differing_operand(first.get(name), second.get(name), first, second)
    ) is not None:
        name = source
    return first.get(name), second.get(name)


def _by_name(plan: Plan) -> Mapping[str, Step]:
    return {step.rule.name: step for step in plan.steps}


def _differs(one: Step | None, other: Step | None) -> bool:
    if one is None or other is None:
        return one is not other
    return bool(one.result != other.result)


def _differing_operand(
    one: Step | None, other: Step | None, first: Mapping[str, Step], second: Mapping[str, Step]
) -> str | None:
    """Return the step of the first operand that two steps do not share; None: the rule itself."""
    if one is None or other is None:
        return None
    for operand, value in other.operands.items():
        source = MADE_FROM.get(operand, operand)
        if value == one.operands.get(operand) or source == other.rule.name:
            continue
        if _differs(first.get(source), second.get(source)) and source in first and source in second:
            return source
    return None
