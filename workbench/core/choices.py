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


def error_codes(model: Model, settings: Settings) -> frozenset[str] | None:
    """Codes of the errors of a scenario; None when it is refused before any size exists."""
    try:
        plan: Plan = resolve(model, settings)
    except WorkbenchError:
        return None
    return frozenset(problem.code for problem in plan.errors)


def legal_values(
    model: Model, settings: Settings, field: str, candidates: Iterable[Any]
) -> tuple[Any, ...]:
    """The candidates for `field` that bring no error that is not there already.

    A value that gets the configuration refused is never legal; the present value always is
    listed, so that a picker can show it.
    """
    present = getattr(settings, field)
    before = error_codes(model, settings) or frozenset()
    legal = []
    for value in candidates:
        codes = error_codes(model, replace(settings, **{field: value}))
        if value == present or (codes is not None and codes <= before):
            legal.append(value)
    return tuple(legal)


def tensor_parallel_sizes(model: Model, limit: int = 64) -> tuple[int, ...]:
    """The sizes up to `limit` that split the attention heads; powers of two without any."""
    heads = model.total_num_attention_heads
    if not heads:
        return tuple(1 << power for power in range(limit.bit_length()))
    return tuple(size for size in range(1, limit + 1) if heads % size == 0)
