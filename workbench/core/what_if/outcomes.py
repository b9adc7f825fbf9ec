"""What a changed scenario leads to: a plan, or a refusal; one field changed, or two in a grid."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from workbench.core.errors import WorkbenchError
from workbench.core.model import Model
from workbench.core.plan import Plan
from workbench.core.resolve import resolve
from workbench.core.versions import RULE_SETS

if TYPE_CHECKING:
    from workbench.scenario.fields import Settings


@dataclass(frozen=True)
class Outcome:
    """A plan, or the message and the code of the refusal."""

    plan: Plan | None
    refused: str | None = None
    code: str | None = None
    rules: str = ""

    @property
    def starts(self) -> bool:
        """Return whether vLLM would start."""
        return self.plan is not None and not self.plan.errors

    @property
    def errors(self) -> tuple[str, ...]:
        """Return the codes of what stops it."""
        if self.plan is None:
            return (self.code or "refused",)
        return tuple(problem.code for problem in self.plan.errors)


def outcome_of(model: Model, settings: Settings, *, trace: bool = True, **changes: Any) -> Outcome:
    """Resolve a scenario with changed fields; a refusal is an outcome, too."""
    rules = changes.get("rules", settings.rules)
    try:
        return Outcome(resolve(model, replace(settings, **changes), trace=trace), rules=rules)
    except WorkbenchError as error:
        return Outcome(None, error.message, error.code, rules)


@dataclass(frozen=True)
class Grid:
    """Plans over `rows` x `columns`; column_label is the name of the field in them."""

    rows: tuple[Any, ...]
    column_label: str
    columns: tuple[Any, ...]
    cells: Mapping[tuple[Any, Any], Outcome]

    def cell(self, row: Any, column: Any) -> Outcome:
        """Return the point at (row, column)."""
        return self.cells[row, column]


def is_same_choice(plan: Plan, other: Plan) -> bool:
    """Return whether two plans differ at most in whether the user chose the backend."""
    if plan.backend != other.backend:
        return False
    return replace(plan.settings, backend=None) == replace(other.settings, backend=None)


def comparable_backends(plan: Plan) -> tuple[str, ...]:
    """Return the backends of the plan's platform that serve its kind of attention."""
    attention = plan.model.attention
    if attention is None:
        return ()
    return tuple(
        name
        for name, backend in RULE_SETS[plan.settings.rules].backends.items()
        if plan.platform.name in backend.platforms
        and backend.is_selectable
        and backend.is_mla == attention.use_mla
        and backend.is_sparse == attention.is_sparse
    )


def backends_by_tensor_parallel(plan: Plan, sizes: tuple[int, ...]) -> Grid:
    """Return the grid that the small-multiples chart shows: backends by tensor-parallel size."""
    backends = comparable_backends(plan)
    cells = {
        (name, size): outcome_of(plan.model, plan.settings, backend=name, tensor_parallel=size)
        for name in backends
        for size in sizes
    }
    return Grid(backends, "tensor_parallel", sizes, cells)
