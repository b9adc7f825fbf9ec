"""Problems: start-up failures and silent losses that a configuration would meet, as values."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from typing import Any, Final, Literal, TypedDict

ERROR: Final = "error"
WARNING: Final = "warning"
Severity = Literal["error", "warning"]


class _ProblemDict(TypedDict):
    code: str
    severity: Severity
    field: str
    message: str
    operands: dict[str, Any]
    vllm_text: str | None


class PublishedProblem(_ProblemDict):
    """One thing that goes wrong, with the changes that were tried and help."""

    remedies: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that goes wrong with a plan.

    >>> [problem.code for problem in wb.resolve(kv_cache_memory_bytes="1 MiB").problems]
    ['not_enough_memory']
    """

    code: str
    severity: Severity
    """"error" (vLLM does not start, or not with this) or "warning" (starts, costs something)."""
    field: str
    """The scenario field to look at first."""
    message: str
    operands: Mapping[str, Any] = dataclass_field(default_factory=dict)
    """The numbers that clash."""
    vllm_text: str | None = None
    """How vLLM's own message begins, to recognise it in a log; empty for an assertion without one,
    None where it is not known."""
    candidates: tuple[Mapping[str, Any], ...] = ()
    """Changes of scenario fields that may help, best first; `workbench.core.remedies` tries
    them."""

    def __str__(self) -> str:
        return f"{self.severity} [{self.code}] {self.message}"

    def to_dict(self) -> _ProblemDict:
        """Return the published form, without candidates: what was tried is added by the caller."""
        return {
            "code": self.code,
            "severity": self.severity,
            "field": self.field,
            "message": self.message,
            "operands": dict(self.operands),
            "vllm_text": self.vllm_text,
        }


def has_error(problems: Iterable[Problem]) -> bool:
    """Return whether one of the problems stops the start."""
    return any(problem.severity == ERROR for problem in problems)
