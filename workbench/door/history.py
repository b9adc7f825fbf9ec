"""The scenarios that were tried, with their answers, and which of them is shown."""

from __future__ import annotations

from typing import NamedTuple

from workbench.core.what_if.answers import Answers
from workbench.scenario import FIELDS, Scenario

MOST_REMEMBERED = 200


class Visit(NamedTuple):
    """A scenario that was shown. answers: None where vLLM refuses it."""

    scenario: Scenario
    answers: Answers | None = None


class History:
    """The visits, oldest first, and the place of the shown one."""

    def __init__(self, scenario: Scenario) -> None:
        self.visits = [Visit(scenario)]
        self.at = 0

    def visit(self, scenario: Scenario, answers: Answers | None) -> None:
        """Note what is shown; after going back, a new scenario replaces those that were ahead."""
        if scenario != self.visits[self.at].scenario:
            self.visits = [*self.visits[: self.at + 1][-MOST_REMEMBERED:], Visit(scenario)]
            self.at = len(self.visits) - 1
        self.visits[self.at] = Visit(scenario, answers)

    def go(self, number: int) -> Scenario:
        """Return the scenario of a visit, the nearest one for a number that there is not."""
        self.at = min(max(number, 0), len(self.visits) - 1)
        return self.visits[self.at].scenario

    @property
    def can_undo(self) -> bool:
        """Return whether there is an older scenario."""
        return self.at > 0

    @property
    def can_redo(self) -> bool:
        """Return whether there is a newer one."""
        return self.at + 1 < len(self.visits)


def changed_fields(old: Scenario, new: Scenario) -> dict[str, object]:
    """Return the fields of the new scenario that differ from those of the old one."""
    return {name: value for name in FIELDS if (value := getattr(new, name)) != getattr(old, name)}
