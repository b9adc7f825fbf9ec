"""The scenarios that were tried, with their answers, and which of them is shown."""

from __future__ import annotations

from typing import NamedTuple

from workbench.core.what_if.answers import Answers
from workbench.interop.understood import Understood
from workbench.scenario import FIELDS, Scenario

MOST_REMEMBERED = 200


class Visit(NamedTuple):
    """A scenario that was shown, and all that belongs to it when it is shown again."""

    scenario: Scenario
    length: int | None = None
    """Tokens of the requests that are counted, where a person chose it."""
    release_is_chosen: bool = False
    """Whether a person chose the release."""
    understood: Understood | None = None
    """What the text was taken for that led here."""
    answers: Answers | None = None
    """None where vLLM refuses the scenario."""

    def is_of(self, other: Visit) -> bool:
        """Return whether both show the same question: the scenario and the counted requests."""
        return self[:2] == other[:2]


class History:
    """The visits, oldest first, and the place of the shown one."""

    def __init__(self, first: Visit) -> None:
        self.visits = [first]
        self.at = 0

    def visit(self, shown: Visit) -> None:
        """Note what is shown; after going back, a new visit replaces those that were ahead."""
        if not shown.is_of(self.visits[self.at]):
            self.visits = [*self.visits[: self.at + 1][-MOST_REMEMBERED:], shown]
            self.at = len(self.visits) - 1
        self.visits[self.at] = shown

    def go(self, number: int) -> Visit:
        """Return a visit, the nearest one for a number that there is not."""
        self.at = min(max(number, 0), len(self.visits) - 1)
        return self.visits[self.at]

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
