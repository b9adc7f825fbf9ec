"""Checking a learner's answer against a step of a trace."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

from workbench.core.trace import Step, show
from workbench.plan import Plan


@dataclass(frozen=True, repr=False)
class Checked:
    """The verdict on an answer; `ok` is None while there is none."""

    answer: Any
    step: Step
    ok: bool | None

    @property
    def message(self) -> str:
        """What to read: right, or a hint with the operands but without the number."""
        operands = ", ".join(
            f"{name} = {show(value)}" for name, value in self.step.operands.items()
        )
        if self.ok is None:
            return f"Not answered yet. Rule: {self.step.rule.formula}. Given: {operands}."
        if self.ok:
            return f"Right: {self.step.rule.title} is {show(self.step.result)}."
        low = self.answer < self.step.result if isinstance(self.answer, int | float) else None
        size = "" if low is None else " It is too small." if low else " It is too large."
        return (
            f"{show(self.answer)} is not it.{size} "
            f"Rule: {self.step.rule.formula}. Given: {operands}."
        )

    def __repr__(self) -> str:
        sign = {None: "…", True: "✓", False: "✗"}[self.ok]
        return f"{sign} {self.message}"

    def _repr_html_(self) -> str:
        from workbench.views.html import document

        kind = "wb-good" if self.ok else "wb-problem"
        return document(f'<div class="{kind}">{escape(repr(self))}</div>')


def check(answer: Any, given: Plan | Step, rule: str | None = None) -> Checked:
    """Compare `answer` with a step: the one given, or the one of `rule` in the trace of a plan.

    None means "not answered yet" and is no mistake; lists and tuples are alike. KeyError names the
    steps when there is no such rule, ValueError says when it is missing.
    """
    if isinstance(given, Step):
        step = given
    elif rule is None:
        raise ValueError(
            f"which rule of the plan? {', '.join(step.rule.name for step in given.steps)}"
        )
    else:
        step = given.trace.step(rule)
    wanted, found = (tuple(v) if isinstance(v, list) else v for v in (step.result, answer))
    return Checked(answer, step, None if answer is None else found == wanted)
