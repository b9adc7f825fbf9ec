"""Problems: start-up failures and silent losses that a configuration would meet, as values."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from functools import cache
from typing import Any, Final, Literal, TypedDict

from workbench.core.package_data import package_data

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


PARTS = ("field", "message", "severity", "vllm_text")
"""Texts of a problem that its declaration may have."""
USUAL: dict[str, Any] = {"message": None, "severity": ERROR, "vllm_text": None, "candidates": ()}
"""What a declaration may omit."""


@cache
def problem_texts() -> dict[str, dict[str, Any]]:
    """Return code, or code and variant -> what problems.json declares of it.

    `message` and `vllm_text` have operands and other words in braces, `run` is the working plan;
    `field`, `severity` and `candidates` are as in `Problem`, `raised_by` is the function of vLLM.
    """
    found: dict[str, dict[str, Any]] = package_data("workbench.core", "problems.json")
    return found


def declared(
    code: str,
    run: Any,
    operands: Mapping[str, Any] | None = None,
    *,
    variant: str = "",
    candidates: Iterable[Mapping[str, Any]] = (),
    **given: Any,
) -> dict[str, Any]:
    """Return the parts of a problem or a refusal as problems.json declares them.

    variant: which of several declarations of the code; candidates: those that come before the
    declared ones; given: words of its texts that are not operands, and parts that depend on the
    plan.
    """
    operands = operands or {}
    found = {**USUAL, **problem_texts()[f"{code} {variant}".rstrip()]}
    words = {**operands, **given, "run": run}
    for name in ("message", "vllm_text"):
        if found[name] is not None and name not in given:
            found[name] = found[name].format_map(words)
    parts = {name: (given if name in given else found)[name] for name in PARTS}
    return {**parts, "candidates": (*candidates, *found["candidates"]), "operands": operands}
