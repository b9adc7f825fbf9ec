"""Why one plan is better than another: what was set differently, and which steps came out other."""

import dataclasses
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workbench.core.plan import Plan
from workbench.core.trace import Step, show
from workbench.scenario.fields import Settings
from workbench.views.html import Html, code, document, faint, table, tag
from workbench.views.rows import result_text
from workbench.views.sweeps.rows import value_text
from workbench.views.text import shortened


@dataclass(frozen=True, slots=True)
class StepChange:
    """One rule that came out differently, or that only one of two plans took.

    before, after: the results as text, "not taken" without the step. operands: name -> both
    values, for those that differ.
    """

    title: str
    before: str
    after: str
    operands: Mapping[str, tuple[Any, Any]]
    source: str


def changed_settings(present: Plan, other: Plan) -> dict[str, tuple[Any, Any]]:
    """Field -> both values, for what is set differently."""
    names = [field.name for field in dataclasses.fields(Settings)]
    values = [{name: getattr(plan.settings, name) for name in names} for plan in (present, other)]
    models = [{"model": plan.model.name} for plan in (present, other)]
    return _changed(*models) | _changed(*values)


def changed_steps(present: Plan, other: Plan) -> tuple[StepChange, ...]:
    """Return the steps of the trace that differ, in the order in which they were taken."""
    before, after = (_by_rule(plan) for plan in (present, other))
    found = []
    for key in dict.fromkeys([*before, *after]):
        one, two = before.get(key), after.get(key)
        step = one or two
        assert step is not None
        operands = _changed(one.operands, two.operands) if one and two else {}
        was, is_now = (result_text(taken) if taken else "not taken" for taken in (one, two))
        if was != is_now or operands:
            found.append(StepChange(step.rule.title, was, is_now, operands, step.source))
    return tuple(found)


def _by_rule(plan: Plan) -> dict[tuple[str, int], Step]:
    """Return steps by rule and occurrence, since a rule may be taken more than once."""
    turns: Counter[str] = Counter()
    found: dict[tuple[str, int], Step] = {}
    for step in plan.steps:
        found[step.rule.name, turns[step.rule.name]] = step
        turns[step.rule.name] += 1
    return found


def _changed(one: Mapping[str, Any], two: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    names = dict.fromkeys([*one, *two])
    return {
        name: (one.get(name), two.get(name)) for name in names if one.get(name) != two.get(name)
    }


def why_html(present: Plan, other: Plan, measures: Mapping[str, tuple[str, str, str]]) -> Html:
    """Return what changed between two plans.

    measures: name -> both values and a verdict, as text.
    """
    settings = [
        (code(name), *(value_text(name, value, is_setting=True) for value in pair))
        for name, pair in changed_settings(present, other).items()
    ]
    steps = [
        (
            change.title,
            change.before,
            change.after,
            _operands_text(change.operands),
            faint(change.source),
        )
        for change in changed_steps(present, other)
    ]
    plans = ("current configuration", "this point")
    set_differently = table(("field", *plans), settings)
    decided_differently = table(("step", *plans, "cause", ""), steps)
    return document(
        tag("h4", "Result"),
        table(("", *plans, ""), ((name, *texts) for name, texts in measures.items())),
        tag("h4", "What is set differently"),
        set_differently if settings else tag("p", "Nothing: it is the same scenario."),
        tag("h4", "Steps that come out differently"),
        decided_differently if steps else tag("p", "None: every decision is the same."),
    )


def _operands_text(operands: Mapping[str, tuple[Any, Any]]) -> str:
    changed = {name: [shortened(show(value)) for value in both] for name, both in operands.items()}
    return "; ".join(f"{name} {one} → {two}" for name, (one, two) in changed.items())


def why_text(present: Plan, other: Plan) -> str:
    """Return the settings and the steps that differ, for a terminal."""
    lines = [repr(present), repr(other), "", "Set differently:"]
    for name, (one, two) in changed_settings(present, other).items():
        lines.append(f"  {name}: {show(one)} -> {show(two)}")
    lines += ["", "Steps that come out differently:"]
    for change in changed_steps(present, other):
        because = _operands_text(change.operands)
        lines.append(f"  {change.title}: {change.before} -> {change.after}")
        lines += [f"    cause: {because}"] if because else []
    return "\n".join(lines)
