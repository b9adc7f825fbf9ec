"""The explanation of a log: one entry per message, and the scenario that it describes."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from workbench.core.remedies import Remedy
from workbench.interop.logs.candidates import CandidateScenario
from workbench.interop.logs.scenario import LogReading

AGREES, DIFFERS, KNOWN, UNSURE, CUT = "agrees", "differs", "known", "unsure", "cut"
READ = "told"  # words: ok, a published name
VERDICTS = {
    AGREES: "the rules give the same",
    DIFFERS: "the rules give something else",
    READ: "read into the scenario",
    KNOWN: "explained",
    UNSURE: "recognized, not checked",
    CUT: "cut off",
}
"""Verdict -> what it means."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LineExplanation:
    """One recognised line."""

    line: int
    times: int
    """How many lines say the same."""
    text: str
    message: str
    means: str
    verdict: str = KNOWN
    said: Mapping[str, Any]
    """Values by name, in the log."""
    expected: Mapping[str, Any] = field(default_factory=dict)
    """Values by name, in the plan."""
    why: tuple[str, ...] = ()
    """Steps of the trace and sentences."""
    advice: tuple[str, ...] = ()
    """What to change."""
    candidates: tuple[str, ...] = ()
    """Other scenarios that give what the log says."""

    def to_dict(self) -> dict[str, Any]:
        """Return the published form."""
        return {**asdict(self), "verdict_text": VERDICTS[self.verdict]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The fatal error with which a log ends."""

    line: int
    text: str
    message: str | None
    """Its name among the known ones."""
    problem: str | None
    """The code with which the rules give the same error for the scenario of the log; None where
    they do not."""
    summary: str
    """The error and the rules' answer to it, without what is missing."""
    missing: tuple[str, ...] = ()
    """What the log would have to state for that, one sentence each."""
    remedies: tuple[Remedy, ...] = ()
    """Tried changes of the log's scenario after which the error is gone."""

    @property
    def is_reproduced(self) -> bool:
        """Return whether the rules give the same error."""
        return self.problem is not None

    def to_dict(self) -> dict[str, Any]:
        """Return the published form."""
        published = {one.name: getattr(self, one.name) for one in fields(self)}
        remedies = [remedy.to_dict() for remedy in self.remedies]
        return {**published, "remedies": remedies, "reproduced": self.is_reproduced}


@dataclass(frozen=True, slots=True)
class LogReport:
    """A log, explained."""

    reading: LogReading
    lines: tuple[LineExplanation, ...]
    total_lines: int
    scenes: tuple[CandidateScenario, ...]
    """Scenarios that have the log's sizes or its error, where its own is unknown or has others."""
    missing: tuple[str, ...] = ()
    """What the log lacks for a comparison."""
    failure: Failure | None = None
    """The fatal error with which it ends, if it does."""

    servers: tuple["LogReport", ...] = ()
    """Every server of a log with several, of which this is the last."""

    @property
    def scenario(self) -> dict[str, Any] | None:
        """Return the reconstructed fields."""
        return dict(self.reading.fields) if self.reading.is_resolved else None

    def __repr__(self) -> str:
        from workbench.views.logs.table import brief

        return brief(self.to_dict())

    def _repr_html_(self) -> str:
        from workbench.views.logs.table import log_html

        return log_html(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Return the published form."""
        reading = self.reading
        return {
            "schema_version": 1,
            "vllm_version": reading.version,
            "rules": reading.fields.get("rules"),
            "scenario": self.scenario,
            "from_lines": dict(reading.from_lines),
            "architecture": reading.architecture,
            "plan": reading.plan and repr(reading.plan),
            "failure": self.failure and self.failure.to_dict(),
            "refusal": reading.refusal and reading.refusal.to_dict(),
            "notes": list(reading.notes),
            "missing": list(self.missing),
            "candidates": [asdict(scene) for scene in self.scenes],
            "lines": [line.to_dict() for line in self.lines],
            "total_lines": self.total_lines,
            "servers": [server.to_dict() for server in self.servers],
        }
