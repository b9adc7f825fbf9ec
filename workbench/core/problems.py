"""Problems: start-up failures and silent losses that a configuration would meet, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Any

ERROR = "error"
WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that goes wrong with a plan.

    severity: "error" (vLLM does not start, or not with this) or "warning" (starts, costs
    something). field: the scenario field to look at first. operands: the numbers that clash.
    vllm_text: how vLLM's own message begins, to recognise it in a log. candidates: changes of
    scenario fields that may help, best first; `workbench.core.remedies` tries them.
    """

    code: str
    severity: str
    field: str
    message: str
    operands: Mapping[str, Any] = dataclass_field(default_factory=dict)
    vllm_text: str | None = None
    candidates: tuple[Mapping[str, Any], ...] = ()

    def __str__(self) -> str:
        return f"{self.severity} [{self.code}] {self.message}"

    def to_dict(self) -> dict[str, Any]:
        """Return the published form, without candidates: what was tried is added by the caller."""
        return {
            "code": self.code,
            "severity": self.severity,
            "field": self.field,
            "message": self.message,
            "operands": dict(self.operands),
            "vllm_text": self.vllm_text,
        }
