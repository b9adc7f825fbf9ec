"""An exercise: a specification with hidden inputs, a question with one answer, or a judged work."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from random import Random
from typing import Any, TypeVar

from workbench.core.package_data import package_data
from workbench.core.registry import Registry

Inputs = Iterator[tuple[Any, ...]]
"""The operands of every hidden call, in the order of the parameters."""
HiddenInputs = Callable[[Random], Inputs]
Oracle = TypeVar("Oracle", bound=Callable[..., Any])
SEED = 37467
"""All learners get the same hidden inputs, so that verdicts can be discussed."""


@dataclass(frozen=True, slots=True)
class Grade:
    """The verdict on an answer. ok: None if there is no answer yet.

    rows: what a verdict shows, as (label, text): given, expected, got, your line.
    """

    ok: bool | None
    summary: str
    rows: tuple[tuple[str, str], ...] = ()


Judge = Callable[[Any, Any], Grade]
"""(answer, the case that it is about, None without one) -> its grade."""


@dataclass(frozen=True, kw_only=True)
class Exercise:
    """One exercise of a lesson."""

    lesson: int
    title: str
    oracle: Callable[..., Any]
    """Returns the right answer; the function that a learner writes has its parameters."""
    inputs: HiddenInputs | None = None
    """The hidden inputs, simplest first; None: a question, whose oracle takes nothing."""
    unordered: bool = False
    """The entries may come in any order."""
    judge: Judge | None = None
    """Grades what is not compared with the oracle's answer: a kernel, a record, a reading."""
    is_value: bool = False
    """What is judged is a value, not a function; None means that there is none yet."""
    has_cases: bool = False
    """The answer is about a case that `wb.check` is given; so is the solution."""
    solutions: str = "solutions"
    """The module of this package that has the solution, under the exercise's name."""

    @property
    def name(self) -> str:
        """Return the name of the function that a learner writes."""
        return self.oracle.__name__

    @property
    def is_question(self) -> bool:
        """Return whether the answer is a value, not a function."""
        return self.is_value or self.has_cases or (self.inputs is None and self.judge is None)

    @property
    def hints(self) -> tuple[str, ...]:
        """Return the hints, from a first nudge to nearly the answer; none of them is the answer."""
        return tuple(_texts()[self.name]["hints"])

    @property
    def consequence(self) -> str:
        """Return one sentence: what follows in vLLM from what was just solved."""
        return _texts()[self.name]["consequence"]

    def solution(self, case: Any = None) -> Any:
        """Return the shipped solution, of `case` if the exercise has cases."""
        found = getattr(import_module(f"workbench.exercises.{self.solutions}"), self.name)
        return found(case) if self.has_cases else found

    @property
    def parameters(self) -> tuple[str, ...]:
        """Return the names of the parameters of the learner's function."""
        return tuple(inspect.signature(self.oracle).parameters)

    def hidden(self) -> tuple[Mapping[str, Any], ...]:
        """Return the operands of every call by name; one empty set for a question."""
        every = [()] if self.inputs is None else self.inputs(Random(SEED))  # noqa: S311
        return tuple(dict(zip(self.parameters, operands, strict=True)) for operands in every)


@cache
def _texts() -> dict[str, Any]:
    return package_data("workbench.exercises", "texts.json")


EXERCISES: Registry[Exercise] = Registry("Exercise", "exercise")
"""Name -> exercise, in the order of the lessons."""


def exercise(
    lesson: int, title: str, inputs: HiddenInputs | None = None, **more: Any
) -> Callable[[Oracle], Oracle]:
    """Register the decorated oracle under its name. Errors: ValueError for a name in use.

    more: other fields of `Exercise`.
    """

    def register(oracle: Oracle) -> Oracle:
        entry = Exercise(lesson=lesson, title=title, oracle=oracle, inputs=inputs, **more)
        EXERCISES.add(oracle.__name__, entry)
        return oracle

    return register
