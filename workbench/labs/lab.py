"""How a lab is declared: its words, its inputs, and where its function is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from workbench.core.flex.result import LabResult
from workbench.core.plan import Plan
from workbench.core.tables.batch_grammar import BatchRequest
from workbench.labs.jobs import Job

Choices = tuple[tuple[str, Any], ...]
"""(label, value) of every choice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabInput:
    """An argument of a lab: a choice, else a number from 1 to `most`, else text."""

    name: str
    label: str
    tip: str
    default: Any = ""
    choices: tuple[str, ...] = ()
    of_batch: Callable[[Sequence[BatchRequest]], Choices] | None = None
    """The choices for the requests of a batch, where they depend on it."""
    most: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Lab:
    """One lab. The panel is made from this, and nothing is imported before it runs."""

    title: str
    button: str
    tip: str
    home: str
    """`module:function`. The function takes the plan, the batch if `takes_batch` (and then `mask`
    and `mask_tokens`), the inputs by name and the `job`; it returns a LabResult."""
    explained: str = ""
    inputs: tuple[LabInput, ...] = ()
    takes_batch: bool = True
    before: Callable[[], LabResult] | None = None
    """What is known before anything runs."""

    @property
    def function(self) -> Callable[..., LabResult]:
        """Import and return the function; this may take seconds."""
        module, _, name = self.home.partition(":")
        found: Callable[..., LabResult] = getattr(import_module(module), name)
        return found

    def run(self, plan: Plan, *, job: Job | None = None, **given: Any) -> LabResult:
        """Run the lab here and now. Errors: ScenarioError for what is refused; Stopped."""
        return self.function(plan, job=job, **given)
