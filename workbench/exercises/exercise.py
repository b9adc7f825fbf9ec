"""An exercise: a specification with hidden inputs, or a question with one answer."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from random import Random
from typing import Any

from workbench.core.registry import Registry

Inputs = Callable[[Random], Iterable[Mapping[str, Any]]]
SEED = 37467
"""All learners get the same hidden inputs, so that verdicts can be discussed."""


@dataclass(frozen=True)
class Exercise:
    """One exercise of a lesson."""

    name: str
    lesson: int
    title: str
    oracle: Callable[..., Any]
    """Returns the right answer; the function that a learner writes has its parameters."""
    inputs: Inputs | None = None
    """The hidden inputs, simplest first; None: a question, whose oracle takes nothing."""
    unordered: bool = False
    """The entries may come in any order."""

    @property
    def is_question(self) -> bool:
        """Return whether the answer is a value, not a function."""
        return self.inputs is None

    @property
    def hints(self) -> tuple[str, ...]:
        """Return the hints, from a first nudge to nearly the answer; none of them is the answer."""
        return _hints()[self.name]

    @property
    def parameters(self) -> tuple[str, ...]:
        """Return the names of the parameters of the learner's function."""
        return tuple(inspect.signature(self.oracle).parameters)

    def hidden(self) -> tuple[Mapping[str, Any], ...]:
        """Return the operands of every call; one empty set for a question."""
        return ({},) if self.inputs is None else tuple(self.inputs(Random(SEED)))  # noqa: S311


@cache
def _hints() -> dict[str, tuple[str, ...]]:
    text = (resources.files("workbench.exercises") / "hints.json").read_text(encoding="utf-8")
    return {name: tuple(hints) for name, hints in json.loads(text).items()}


EXERCISES: Registry[Exercise] = Registry("Exercise", "exercise")
"""Name -> exercise, in the order of the lessons."""


def add(*exercises: Exercise) -> None:
    """Register exercises under their names; a name that is already used is a ValueError."""
    for exercise in exercises:
        EXERCISES.add(exercise.name, exercise)
