"""What a pasted text was taken for."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from workbench.interop.description import Load
from workbench.interop.logs.candidates import CandidateScenario
from workbench.interop.logs.report import LogReport
from workbench.interop.questions import Question
from workbench.scenario import Scenario


@dataclass(frozen=True, kw_only=True)
class Understood:
    """What a text was taken for."""

    kind: str
    """model, description, comparison, question, config, scenario, command or log."""
    scenario: Scenario | None
    """None for a log that does not say which model it is about."""
    message: str
    said: Collection[str] = ()
    """Fields that the text sets."""
    notes: tuple[str, ...] = ()
    """About what the scenario has no field for."""
    log: LogReport | None = None
    load: Load = field(default=Load())
    """The requests to count."""
    question: Question | None = None
    """What is answered."""
    compared_with: Scenario | None = None
    """A, where the text compares two scenarios."""
    scenes: tuple[CandidateScenario, ...] = ()
    """Scenarios with the block size in question, where the present one has another."""
