"""`wb.check`: compare a learner's answer with an exercise, or with a step of a trace."""

from collections import Counter
from dataclasses import dataclass
from html import escape
from typing import Any

from workbench.core.errors import ScenarioError, shown
from workbench.core.plan import Plan
from workbench.core.trace import Step, show
from workbench.exercises.compare import difference, plain, same
from workbench.exercises.exercise import Exercise
from workbench.exercises.progress import ProgressError, progress, record, reset_progress

__all__ = ["CheckResult", "check", "progress", "reset_progress"]

SIGNS = {None: "…", True: "✓", False: "✗"}
ROW = '<tr style="background: transparent">'
"""JupyterLab stripes tables, which looks wrong in a coloured box."""
CELL = '<td style="white-space: pre-wrap">'
"""A command has several lines, and can be copied as it is."""
_wrong: Counter[str] = Counter()
"""Exercise -> wrong answers in this session; each one opens the next hint."""


@dataclass(frozen=True, repr=False)
class CheckResult:
    """The verdict on an answer; `ok` is None while there is none.

    rows: (label, text) below the message: given, expected, got, your line, hint.
    """

    answer: Any
    ok: bool | None
    message: str
    rows: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        lines = [f"{SIGNS[self.ok]} {self.message}"]
        return "\n".join([*lines, *(f"  {label}: {text}" for label, text in self.rows)])

    def _repr_html_(self) -> str:
        from workbench.views.html import document

        kind = "wb-good" if self.ok else "wb-problem"
        rows = "".join(
            f"{ROW}<th>{escape(label)}</th>{CELL}{escape(text)}</td></tr>"
            for label, text in self.rows
        )
        table = f'<table class="wb-table">{rows}</table>' if rows else ""
        severity = ' data-severity="warning"' if self.ok is None else ""
        message = escape(f"{SIGNS[self.ok]} {self.message}")
        return document(f'<div class="{kind}"{severity}>{message}{table}</div>')


def check(
    answer: Any,
    given: Plan | Step | str,
    rule: str | None = None,
    *,
    case: Any = None,
    solve: bool = False,
) -> CheckResult:
    """Compare `answer` with an exercise by name, with a step, or with step `rule` of a plan.

    Any form of a correct answer is accepted: a list for a tuple, an array, a tensor, 1056.0. An
    exercise expects a function, which is called with hidden inputs, a kernel, or a value; None,
    and a function that returns None, mean "not answered yet". Each wrong answer to an exercise
    opens one more hint. case: what the answer is about, for exercises with cases. solve: check
    the shipped solution in place of `answer` without noting progress.

    Errors: ScenarioError names the nearest exercises for an unknown name, and says which exercise
    lacks its case; KeyError names the steps for an unknown rule; ValueError where the rule is
    missing.

    >>> wb.check(2096, plan, "aligned_block_size")
    ✓ Right: ...
    """
    if isinstance(given, str):
        return _check_exercise(answer, given, case, solve=solve)
    if isinstance(given, Step):
        return _check_step(answer, given)
    if not isinstance(given, Plan):
        message = (
            f"Invalid given {shown(given)}. Expected the name of an exercise, a plan or a step, "
            "after the answer: wb.check(answer, 'slot_of')."
        )
        raise ScenarioError("wrong_type", message, field="given")
    if rule is None:
        names = ", ".join(step.rule.name for step in given.steps)
        raise ValueError(f"The rule is missing. Expected one of {names}.")
    return _check_step(answer, given.trace.step(rule))


def _check_step(answer: Any, step: Step) -> CheckResult:
    operands = ", ".join(f"{name} = {show(value)}" for name, value in step.operands.items())
    rule = f"Rule: {step.rule.formula}. Given: {operands}."
    if answer is None:
        return CheckResult(answer, None, f"Not answered yet. {rule}")
    found, wanted = plain(answer), plain(step.result)
    if same(found, wanted):
        return CheckResult(answer, True, f"Right: {step.rule.title} is {show(step.result)}.")
    differs = difference(found, wanted)
    size = f" It is {differs}." if differs.startswith("too ") else ""
    return CheckResult(answer, False, f"{show(answer)} is not right.{size} {rule}")


def _check_exercise(answer: Any, name: str, case: Any, *, solve: bool) -> CheckResult:
    from workbench.exercises import EXERCISES
    from workbench.exercises.grade import grade

    exercise = EXERCISES[name]
    if exercise.has_cases and case is None:
        message = f"Exercise {name!r} is about a case. Expected case=wb.log_case(1), for example."
        raise ScenarioError("no_case", message, field="case")
    if solve:
        answer = exercise.solution(case)
    found = grade(exercise, answer, case)
    rows = found.rows
    if found.ok is False:
        rows = (*rows, _next_hint(exercise))
    if found.ok:
        rows = (*rows, ("what follows", exercise.consequence))
    if found.ok is not None and not solve:
        try:
            record(name, solved=found.ok)
        except ProgressError as error:
            rows = (*rows, ("progress", error.message))
    return CheckResult(answer, found.ok, found.summary, rows)


def _next_hint(exercise: Exercise) -> tuple[str, str]:
    """Return the hint that this wrong answer opens; only the last one names the solution."""
    number, hints = _wrong[exercise.name], exercise.hints
    _wrong[exercise.name] += 1
    if number < len(hints):
        return f"hint {number + 1} of {len(hints)}", hints[number]
    about = ", case=case" if exercise.has_cases else ""
    place = exercise.solutions.replace(".", "/")
    stuck = (
        f"{hints[-1]} If you are stuck: wb.check(..., {exercise.name!r}{about}, solve=True) checks "
        f"the shipped solution; it can be read in workbench/exercises/{place}.py."
    )
    return "no more hints", stuck
