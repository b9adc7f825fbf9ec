"""Why one plan is better than another: what was set differently, and which steps came out other."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

from workbench.core.plan import Plan
from workbench.core.trace import Step, show
from workbench.scenario.fields import Settings
from workbench.views.html import document, table
from workbench.views.sweeps.rows import value_text


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
    names = (field.name for field in dataclasses.fields(Settings))
    pairs = {
        name: (getattr(present.settings, name), getattr(other.settings, name)) for name in names
    }
    found = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    if present.model.name != other.model.name:
        return {"model": (present.model.name, other.model.name), **found}
    return found


def changed_steps(present: Plan, other: Plan) -> tuple[StepChange, ...]:
    """Return the steps of the trace that differ, in the order in which they were taken."""
    before, after = (_by_rule(plan) for plan in (present, other))
    found = []
    for key in dict.fromkeys([*before, *after]):
        one, two = before.get(key), after.get(key)
        step = one or two
        assert step is not None
        operands = _changed(one.operands if one else {}, two.operands if two else {})
        was, is_now = _result(one), _result(two)
        if was == is_now and (one is None or two is None or not operands):
            continue
        both = operands if one and two else {}
        found.append(StepChange(step.rule.title, was, is_now, both, step.source))
    return tuple(found)


def _by_rule(plan: Plan) -> dict[tuple[str, int], Step]:
    """Return steps by rule and occurrence, since a rule may be taken more than once."""
    found: dict[tuple[str, int], Step] = {}
    for step in plan.steps:
        turn = 0
        while (step.rule.name, turn) in found:
            turn += 1
        found[step.rule.name, turn] = step
    return found


def _changed(one: Mapping[str, Any], two: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    names = dict.fromkeys([*one, *two])
    return {
        name: (one.get(name), two.get(name)) for name in names if one.get(name) != two.get(name)
    }


def _result(step: Step | None) -> str:
    if step is None:
        return "not taken"
    unit = f" {step.rule.unit}" if step.rule.unit and step.result is not None else ""
    return f"{show(step.result)}{unit}"


def why_html(present: Plan, other: Plan, measures: Mapping[str, tuple[str, str, str]]) -> str:
    """Return what changed between two plans.

    measures: name -> both values and a verdict, as text.
    """
    rows = [(escape(name), *map(escape, texts)) for name, texts in measures.items()]
    settings = [
        (
            f"<code>{escape(name)}</code>",
            *(escape(value_text(name, value, is_setting=True)) for value in pair),
        )
        for name, pair in changed_settings(present, other).items()
    ]
    steps = [
        (
            escape(change.title),
            escape(change.before),
            escape(change.after),
            escape(_operands_text(change.operands)),
            f'<span class="wb-faint">{escape(change.source)}</span>',
        )
        for change in changed_steps(present, other)
    ]
    return document(
        "<h4>What it comes to</h4>",
        table(("", "present plan", "this point", ""), rows),
        "<h4>What is set differently</h4>",
        table(("field", "present plan", "this point"), settings)
        if settings
        else "<p>Nothing: it is the same scenario.</p>",
        "<h4>Steps that come out differently</h4>",
        table(("step", "present plan", "this point", "because of", ""), steps)
        if steps
        else "<p>None: every decision is the same.</p>",
    )


def _operands_text(operands: Mapping[str, tuple[Any, Any]]) -> str:
    changed = [f"{name} {_short(one)} → {_short(two)}" for name, (one, two) in operands.items()]
    return "; ".join(changed)


def _short(value: Any) -> str:
    text = show(value)
    return text if len(text) <= 60 else text[:57] + "..."


def why_text(present: Plan, other: Plan) -> str:
    """Return the settings and the steps that differ, for a terminal."""
    lines = [repr(present), repr(other), "", "Set differently:"]
    for name, (one, two) in changed_settings(present, other).items():
        lines.append(f"  {name}: {show(one)} -> {show(two)}")
    lines += ["", "Steps that come out differently:"]
    for change in changed_steps(present, other):
        because = _operands_text(change.operands)
        lines.append(f"  {change.title}: {change.before} -> {change.after}")
        lines += [f"    because of {because}"] if because else []
    return "\n".join(lines)
