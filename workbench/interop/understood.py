"""What a pasted text was taken for."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

from workbench.core.problems import Problem
from workbench.interop.description import Load
from workbench.interop.logs.candidates import CandidateScenario
from workbench.interop.logs.report import LogReport
from workbench.interop.question import Question
from workbench.interop.said import rest_text
from workbench.scenario import Scenario


class Side(NamedTuple):
    """One of the scenarios that a text compares."""

    scenario: Scenario
    load: Load
    """The requests to count."""


@dataclass(frozen=True, kw_only=True)
class Understood:
    """What a text was taken for."""

    kind: str
    """model, description, comparison, question, config, scenario, link, command or log."""
    scenario: Scenario | None
    """None for a log that does not say which model it is about."""
    words: str
    """A sentence on what it is and what it says."""
    names_rest: bool = False
    """What it does not say is named as well: it is easily overlooked."""
    said: Collection[str] = ()
    """Fields that the text sets."""
    notes: tuple[str, ...] = ()
    """About what the scenario has no field for."""
    problems: tuple[Problem, ...] = ()
    """What stops the text's command before vLLM has a configuration."""
    log: LogReport | None = None
    load: Load = field(default=Load())
    """The requests to count."""
    question: Question | None = None
    """What is answered."""
    compared: tuple[Side, ...] = ()
    """What the text compares: A first, the scenario that is shown last."""
    scenes: tuple[CandidateScenario, ...] = ()
    """Other scenarios that may be meant: with the block size in question, or other weights."""

    @property
    def message(self) -> str:
        """Return what it was taken for, and what stays as it was."""
        if self.scenario is None or not self.names_rest:
            return self.words
        return self.words + rest_text(self.scenario, self.said)

    @property
    def scenarios(self) -> Sequence[Scenario]:
        """Return what is compared, or the one scenario."""
        return [one.scenario for one in self.compared] or [*filter(None, [self.scenario])]

    @property
    def is_table(self) -> bool:
        """Return whether more is compared than the present scenario and A."""
        return len(self.compared) > 2 or len({one.load for one in self.compared}) > 1

    def has_row_of(self, scenario: Scenario) -> bool:
        """Return whether a scenario is one of several that are compared."""
        return self.is_table and scenario in self.scenarios

    def of_scenarios(self, scenarios: Sequence[Scenario]) -> Self:
        """Return the same with other scenarios, in the same order; what changed is not kept."""
        sides = map(Side, scenarios, (one.load for one in self.compared))
        old, new = (one.stated() if one else {} for one in (self.scenario, scenarios[-1]))
        said = {*self.said, *(name for name in new if new[name] != old.get(name))}
        return replace(self, scenario=scenarios[-1], compared=tuple(sides), said=said)
