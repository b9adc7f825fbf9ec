"""The working twin of a plan: stages read it, change it, and write the trace."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, fields, make_dataclass
from typing import TYPE_CHECKING, Any

from workbench.core.backends import Backend
from workbench.core.block_sizes import BlockSize
from workbench.core.errors import Refused
from workbench.core.model import Model
from workbench.core.plan import Plan
from workbench.core.problems import Problem, declared
from workbench.core.rule_set import RuleSet
from workbench.core.trace import Rule, Step

if TYPE_CHECKING:
    from workbench.scenario.fields import Settings

STARTS = tuple(
    (name, declared.start) for name, declared in Plan.declarations.items() if declared.start
)
"""Value -> what it begins with, where that follows from the settings and the rules."""

_begin: Callable[..., None] = vars(
    make_dataclass("_", [(one.name, Any, field(default=one.default)) for one in fields(Plan)])
)["__init__"]
"""Set every field to its default. The __init__ of a frozen dataclass takes five times as long."""


class WorkingPlan(Plan):
    """A plan that is being decided: it has the fields of a plan, and they can be set.

    Used inside `resolve`, never seen outside.
    """

    __slots__ = ()
    is_traced = True
    # Both are needed for slots to be set without a call in Python.
    __setattr__ = object.__setattr__
    __delattr__ = object.__delattr__

    def __init__(self, model: Model, settings: Settings, rules: RuleSet) -> None:
        _begin(self, model, settings, rules)
        for name, start in STARTS:
            setattr(self, name, start(self))

    def finished(self) -> Plan:
        """Return the plan, which is this object: from now on nothing of it can be set."""
        self.__class__ = Plan  # type: ignore[assignment]  # without the setter
        return self

    def step(self, rule: Rule, result: Any, note: str = "", /, **operands: Any) -> None:
        """Append one step to the trace."""
        self.steps += (Step(rule, operands, result, note, self.rules.citations.get(rule)),)

    def log(self, *lines: str) -> None:
        """Append what vLLM prints."""
        self.log_lines += lines

    def problem(self, code: str, **more: Any) -> None:
        """Record the problem that problems.json declares, once. more: see `declared`."""
        found = Problem(code, **declared(code, self, **more))
        if found not in self.problems:  # a drafter's layers may have that of the target's, too
            self.problems += (found,)

    def refusal(self, code: str, **more: Any) -> Refused:
        """Return the refusal that problems.json declares. more: see `declared`."""
        found = declared(code, self, **more)
        del found["severity"]
        return Refused(code, **found)

    @property
    def first_backend(self) -> tuple[Backend, tuple[BlockSize, ...]]:
        """Return the backend of the first non-SSM layer and its kernel block sizes."""
        # There must be one.
        name, sizes = self.backends[0]
        return self.rules.backends[name], sizes

    @property
    def backend_records(self) -> tuple[tuple[Backend, tuple[BlockSize, ...]], ...]:
        """Return the backends of all non-SSM layers with their kernel block sizes."""
        return tuple([(self.rules.backends[name], sizes) for name, sizes in self.backends])


class UntracedPlan(WorkingPlan):
    """A plan that is being decided, without a trace."""

    __slots__ = ()
    is_traced = False

    def step(self, rule: Rule, result: Any, note: str = "", /, **operands: Any) -> None:
        """Record nothing."""
