"""Scenarios compared with a real vLLM: what comes of each, and of all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from workbench.core.what_if.comparison import MODEL, REFUSAL, Row
from workbench.core.what_if.releases import release_of

AGREE = "agree"
DIFFER = "differ"
BOTH_REFUSE = "both refuse"
OTHER_REASON = "both refuse, with another reason"
ONLY_VLLM = "only vLLM refuses"
ONLY_WORKBENCH = "only the workbench refuses"
NO_ANSWER = "vLLM cannot answer here"
KINDS = (AGREE, BOTH_REFUSE, DIFFER, OTHER_REASON, ONLY_VLLM, ONLY_WORKBENCH, NO_ANSWER)
"""What comes of a scenario; the first two are agreement."""


@dataclass(frozen=True)
class Check:
    """One scenario. Exactly one of three: rows, or a failure (vLLM could not be queried)."""

    scenario: Mapping[str, Any]
    rows: tuple[Row, ...] = ()
    functions: tuple[str, ...] = ()
    """What was called in vLLM."""
    unanswered: Mapping[str, str] = field(default_factory=dict)
    """Field -> why it was not answered."""
    failure: str | None = None
    rules: str | None = None
    """Those that the scenario has, whatever release answered."""

    @property
    def differences(self) -> tuple[Row, ...]:
        """Return the rows that are not the same."""
        return tuple(row for row in self.rows if not row.same)

    @property
    def kind(self) -> str:
        """Return which of KINDS it is."""
        refusal = next((row for row in self.rows if row.field == REFUSAL), None)
        if any(row is not refusal for row in self.differences):
            return DIFFER
        if self.failure is not None or MODEL in self.unanswered:
            return NO_ANSWER
        if refusal is None:
            return AGREE
        if refusal.theirs is None:
            return ONLY_WORKBENCH
        if refusal.ours is None:
            return ONLY_VLLM
        return BOTH_REFUSE if refusal.same else OTHER_REASON


@dataclass(frozen=True)
class Report:
    """Every scenario that one vLLM was queried about.

    version: of the vLLM; rules: of the workbench that it was compared with; stand_ins: what stood
    in for what that machine lacks; environment: versions alongside it.
    """

    version: str
    rules: str
    environment: Mapping[str, str]
    stand_ins: Mapping[str, str]
    checks: tuple[Check, ...]

    def _repr_html_(self) -> str:
        from workbench.views.verify import verification_html

        return verification_html(self)

    @property
    def exact(self) -> bool:
        """Return whether the rules are those of this very version, and not the nearest ones."""
        return release_of(self.version) == release_of(self.rules)

    @property
    def other_rules(self) -> str | None:
        """Return the rules of one scenario, where its answers were compared under others."""
        [own] = {check.rules for check in self.checks} if len(self.checks) == 1 else {None}
        return None if own == self.rules else own

    @property
    def differing(self) -> tuple[Check, ...]:
        """Return the scenarios with a difference."""
        return tuple(check for check in self.checks if check.differences)

    @property
    def failed(self) -> tuple[Check, ...]:
        """Return the scenarios that could not be checked."""
        return tuple(check for check in self.checks if check.failure is not None)

    @property
    def functions(self) -> tuple[str, ...]:
        """Return every vLLM function that was called, once, in order."""
        return tuple(dict.fromkeys(name for check in self.checks for name in check.functions))

    @property
    def agreement(self) -> dict[str, tuple[int, int]]:
        """Return field -> in how many scenarios it is the same, and in how many it was compared."""
        rows = [row for check in self.checks for row in check.rows]
        same = Counter(row.field for row in rows if row.same)
        return {
            field: (same[field], count)
            for field, count in Counter(row.field for row in rows).items()
        }

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-able values, with rows only of scenarios that differ."""
        return {
            "vllm": self.version,
            "rules": self.rules,
            "exact_rules": self.exact,
            "environment": dict(self.environment),
            "asked": list(self.functions),  # words: ok
            "stand_ins": dict(self.stand_ins),
            "scenarios": len(self.checks),
            "compared_fields": sum(len(check.rows) for check in self.checks),
            "agreement": {field: list(counts) for field, counts in self.agreement.items()},
            "unanswered": [
                {"scenario": dict(check.scenario), "why": dict(check.unanswered)}
                for check in self.checks
                if check.unanswered
            ],
            "not_asked": [
                {"scenario": dict(check.scenario), "why": check.failure} for check in self.failed
            ],
            "differences": [
                {
                    "scenario": dict(check.scenario),
                    "fields": [
                        {"field": row.field, "workbench": row.ours, "vllm": row.theirs}
                        for row in check.differences
                    ],
                }
                for check in self.differing
            ],
        }
