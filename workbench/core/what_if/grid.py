"""Two fields of a scenario varied at once, everything else kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from workbench.core.errors import WorkbenchError
from workbench.core.plan import Plan
from workbench.core.resolve import resolve
from workbench.core.versions import RULE_SETS


@dataclass(frozen=True, slots=True)
class Cell:
    """One point: its plan, or why there is none."""

    plan: Plan | None
    refused: str | None = None


@dataclass(frozen=True)
class Grid:
    """Plans over `rows` x `columns`; labels are the names of the two varied fields."""

    row_label: str
    rows: tuple[Any, ...]
    column_label: str
    columns: tuple[Any, ...]
    cells: Mapping[tuple[Any, Any], Cell]

    def cell(self, row: Any, column: Any) -> Cell:
        """Return the point at (row, column)."""
        return self.cells[row, column]


def is_same_choice(plan: Plan, other: Plan) -> bool:
    """Return whether two plans differ at most in whether the user chose the backend."""
    if plan.backend != other.backend:
        return False
    return replace(plan.settings, backend=None) == replace(other.settings, backend=None)


def grid(
    plan: Plan,
    row_field: str,
    rows: tuple[Any, ...],
    column_field: str,
    columns: tuple[Any, ...],
) -> Grid:
    """Resolve the scenario of `plan` for every pair of values of two of its fields."""
    cells = {}
    for row in rows:
        for column in columns:
            changed = {row_field: row, column_field: column}
            try:
                settings = replace(plan.settings, **changed)
                cells[row, column] = Cell(resolve(plan.model, settings))
            except WorkbenchError as error:
                cells[row, column] = Cell(None, error.message)
    return Grid(row_field, rows, column_field, columns, cells)


def comparable_backends(plan: Plan) -> tuple[str, ...]:
    """Return the backends of the plan's platform that serve its kind of attention."""
    attention = plan.model.attention
    if attention is None:
        return ()
    return tuple(
        name
        for name, backend in RULE_SETS[plan.settings.rules].backends.items()
        if plan.settings.platform in backend.platforms
        and backend.is_selectable
        and backend.is_mla == attention.use_mla
        and backend.is_sparse == attention.is_sparse
    )


def backends_by_tensor_parallel(
    plan: Plan, backends: tuple[str, ...], sizes: tuple[int, ...] = (1, 2, 4, 8)
) -> Grid:
    """Return the grid that the small-multiples chart shows.

    One row per backend, one column per TP.
    """
    return grid(plan, "backend", backends, "tensor_parallel", sizes)
