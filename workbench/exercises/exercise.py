"""An exercise: a specification with hidden inputs, or a question with one answer."""

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from workbench.core.registry import Registry

Inputs = Iterator[tuple[Any, ...]]
"""The operands of every hidden call, in the order of the parameters."""
HiddenInputs = Callable[[Random], Inputs]
Oracle = TypeVar("Oracle", bound=Callable[..., Any])
SEED = 37467
"""All learners get the same hidden inputs, so that verdicts can be discussed."""


@dataclass(frozen=True)
class Exercise:
    """One exercise of a lesson."""

    lesson: int
    title: str
    oracle: Callable[..., Any]
    """Returns the right answer; the function that a learner writes has its parameters."""
    inputs: HiddenInputs | None
    """The hidden inputs, simplest first; None: a question, whose oracle takes nothing."""
    unordered: bool
    """The entries may come in any order."""

    @property
    def name(self) -> str:
        """Return the name of the function that a learner writes."""
        return self.oracle.__name__

    @property
    def is_question(self) -> bool:
        """Return whether the answer is a value, not a function."""
        return self.inputs is None

    @property
    def hints(self) -> tuple[str, ...]:
        """Return the hints, from a first nudge to nearly the answer; none of them is the answer."""
        return tuple(_hints()[self.name])

    @property
    def parameters(self) -> tuple[str, ...]:
        """Return the names of the parameters of the learner's function."""
        return tuple(inspect.signature(self.oracle).parameters)

    def hidden(self) -> tuple[Mapping[str, Any], ...]:
        """Return the operands of every call by name; one empty set for a question."""
        every = [()] if self.inputs is None else self.inputs(Random(SEED))  # noqa: S311
        return tuple(dict(zip(self.parameters, operands, strict=True)) for operands in every)


@cache
def _hints() -> dict[str, list[str]]:
    return json.loads(Path(__file__).with_name("hints.json").read_text(encoding="utf-8"))


EXERCISES: Registry[Exercise] = Registry("Exercise", "exercise")
"""Name -> exercise, in the order of the lessons."""


def exercise(
    lesson: int, title: str, inputs: HiddenInputs | None = None, *, unordered: bool = False
) -> Callable[[Oracle], Oracle]:
    """Register the decorated oracle under its name. Errors: ValueError for a name in use."""

    def register(oracle: Oracle) -> Oracle:
        EXERCISES.add(oracle.__name__, Exercise(lesson, title, oracle, inputs, unordered))
        return oracle

    return register
