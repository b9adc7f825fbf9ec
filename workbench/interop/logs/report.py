"""The explanation of a log: one entry per message, and the scenario that it describes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workbench.interop.logs.candidates import CandidateScenario
from workbench.interop.logs.scenario import LogReading

AGREES, DIFFERS, KNOWN, UNSURE, CUT = "agrees", "differs", "known", "unsure", "cut"
READ = "told"  # words: ok, a published name
VERDICTS = {
    AGREES: "the rules give the same",
    DIFFERS: "the rules give something else",
    READ: "read into the scenario",
    KNOWN: "explained",
    UNSURE: "nothing to compare with",
    CUT: "cut off",
}
"""Verdict -> what it means."""

NAMES_THE_MODEL = (
    "the model: the line `non-default args: {...}` or `Initializing a V1 LLM engine` names it; "
    "paste it too, or pick a candidate"
)


@dataclass(frozen=True, slots=True)
class LineExplanation:
    """One recognised line."""

    line: int
    times: int
    """How many lines say the same."""
    text: str
    message: str
    means: str
    verdict: str
    said: Mapping[str, Any]
    """Values by name, in the log."""
    expected: Mapping[str, Any]
    """Values by name, in the plan."""
    why: tuple[str, ...] = ()
    """Steps of the trace and sentences."""
    advice: tuple[str, ...] = ()
    """What to change."""
    candidates: tuple[str, ...] = ()
    """Other scenarios that give what the log says."""

    def to_dict(self) -> dict[str, Any]:
        """Return the published form."""
        return {
            "line": self.line,
            "times": self.times,
            "text": self.text,
            "message": self.message,
            "means": self.means,
            "verdict": self.verdict,
            "verdict_text": VERDICTS[self.verdict],
            "said": dict(self.said),
            "expected": dict(self.expected),
            "why": list(self.why),
            "advice": list(self.advice),
            "candidates": list(self.candidates),
        }


@dataclass(frozen=True, slots=True)
class Failure:
    """The fatal error with which a log ends."""

    line: int
    text: str
    message: str | None
    """Its name among the known ones."""
    problem: str | None
    """The code with which the rules give the same error for the scenario of the log; None where
    they do not."""
    missing: tuple[str, ...] = ()
    """What the log would have to state for that, one sentence each."""
    has_other_numbers: bool = False
    """The rules give the error with numbers that differ from the log's."""
    has_scenario: bool = True
    """False where the log states too little for the rules."""

    @property
    def is_reproduced(self) -> bool:
        """Return whether the rules give the same error."""
        return self.problem is not None

    @property
    def summary(self) -> str:
        """Return the error and the rules' answer to it, without what is missing."""
        start = f"The log ends with a fatal error (line {self.line}): {self.text}"
        if self.is_reproduced:
            numbers = ", with other numbers" if self.has_other_numbers else ""
            return f"{start} - The rules give the same error [{self.problem}]{numbers}."
        if not self.has_scenario:
            return f"{start} - The log states too little to compare this with the rules."
        return f"{start} - The rules do not find this problem in the scenario of the log."

    def to_dict(self) -> dict[str, Any]:
        """Return the published form."""
        return {
            "line": self.line,
            "text": self.text,
            "message": self.message,
            "problem": self.problem,
            "reproduced": self.is_reproduced,
            "summary": self.summary,
            "missing": list(self.missing),
        }


@dataclass(frozen=True, slots=True)
class LogReport:
    """A log, explained."""

    reading: LogReading
    lines: tuple[LineExplanation, ...]
    total_lines: int
    scenes: tuple[CandidateScenario, ...]
    """Scenarios that have the log's sizes or its error, where its own is unknown or has others."""
    sizes: str = ""
    failure: Failure | None = None
    """The fatal error with which it ends, if it does."""

    @property
    def scenario(self) -> dict[str, Any] | None:
        """Return the reconstructed fields."""
        return dict(self.reading.fields) if self.reading.is_resolved else None

    @property
    def missing(self) -> tuple[str, ...]:
        """Return what the log lacks for a comparison."""
        if self.reading.is_resolved:
            return ()
        if "model" in self.reading.fields:
            return (f"a config.json for {self.reading.fields['model']}",)
        if self.sizes and not self.scenes:
            what = (
                f"the model: none in the catalog has {self.sizes} at a tensor parallelism of "
                "1 to 8, with or without an fp8 cache, with 0 to 3 drafts. Paste the line "
                "`non-default args: {...}`, or give the model's config.json"
            )
            return (what,)
        return (NAMES_THE_MODEL,)

    def _repr_html_(self) -> str:
        from workbench.views.logs.table import log_html

        return log_html(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """Return the published form."""
        plan = self.reading.plan
        return {
            "schema_version": 1,
            "vllm_version": self.reading.version,
            "rules": self.reading.fields.get("rules"),
            "scenario": self.scenario,
            "from_lines": dict(self.reading.from_lines),
            "architecture": self.reading.architecture,
            "plan": None if plan is None else repr(plan),
            "failure": None if self.failure is None else self.failure.to_dict(),
            "refusal": None if self.reading.refusal is None else self.reading.refusal.to_dict(),
            "notes": list(self.reading.notes),
            "missing": list(self.missing),
            "candidates": [scene.to_dict() for scene in self.scenes],
            "lines": [line.to_dict() for line in self.lines],
            "total_lines": self.total_lines,
        }
