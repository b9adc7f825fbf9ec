"""Which values of one field are legal, given everything else that was picked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from workbench.core.errors import WorkbenchError
from workbench.core.model import Model
from workbench.core.plan import Plan
from workbench.core.resolve import resolve
from workbench.core.settings import Settings

NO_BACKEND = frozenset({"backend_not_valid", "no_valid_backend"})
"""Errors that any pick can cause, and that leave nothing to run."""


def conflicts(model: Model, settings: Settings, field: str) -> frozenset[str] | None:
    """Return the codes of errors in `field`'s value; None when the scenario is refused.

    Other errors, such as a block that outgrows the token budget, are consequences to look at,
    not values that cannot be picked.
    """
    try:
        plan: Plan = resolve(model, settings)
    except WorkbenchError:
        return None
    return frozenset(
        problem.code
        for problem in plan.errors
        if problem.field == field or problem.code in NO_BACKEND
    )


def legal_values(
    model: Model, settings: Settings, field: str, candidates: Iterable[Any]
) -> tuple[Any, ...]:
    """Return the candidates for `field` that are not refused and bring no conflict that is new.

    The present value is always listed, so that a picker can show it.
    """
    present = getattr(settings, field)
    before = conflicts(model, settings, field) or frozenset()
    legal = []
    for value in candidates:
        found = conflicts(model, replace(settings, **{field: value}), field)
        if value == present or (found is not None and found <= before):
            legal.append(value)
    return tuple(legal)


def tensor_parallel_sizes(model: Model, limit: int = 64) -> tuple[int, ...]:
    """Return the sizes up to `limit` that split the attention heads; powers of two without any."""
    heads = model.total_num_attention_heads
    if not heads:
        return tuple(1 << power for power in range(limit.bit_length()))
    return tuple(size for size in range(1, limit + 1) if heads % size == 0)
