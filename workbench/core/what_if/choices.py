"""Which values of one field are legal, given everything else that was picked."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from workbench.core.model import Model
from workbench.core.plan import Plan
from workbench.core.what_if.outcomes import outcome_of

if TYPE_CHECKING:
    from workbench.scenario.fields import Settings

NO_BACKEND = frozenset({"backend_not_valid", "no_valid_backend"})
"""Errors that any pick can cause, and that leave nothing to run."""
MAX_REMEMBERED = 4096
"""Scenarios whose errors are remembered: about a hundred clicks."""
Errors = frozenset[tuple[str, str]]
"""(code, field) of the errors of a plan."""


class LegalValues:
    """Legal values of the fields of one model's scenarios; each scenario is resolved once.

    A value is legal if it is not refused and brings no new error of its field. What is remembered
    depends on the model and on every setting, so it is never stale.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self._errors: dict[tuple[Any, ...], Errors | None] = {}

    def remember(self, settings: Settings, plan: Plan | None) -> None:
        """Remember what these settings led to; None: they are refused."""
        self._errors[_key(settings)] = _errors_of(plan)

    def of(self, settings: Settings, field: str, candidates: Iterable[Any]) -> tuple[Any, ...]:
        """Return the legal candidates, in order. The present value is one, so it can be shown."""
        present = getattr(settings, field)
        # What the present value causes already says nothing against another one.
        before = self._conflicts(settings, field, present) or frozenset()
        legal = []
        for value in candidates:
            found = self._conflicts(settings, field, value)
            if value == present or (found is not None and found <= before):
                legal.append(value)
        return tuple(legal)

    def _conflicts(self, settings: Settings, field: str, value: Any) -> Errors | None:
        """Return the errors in the field's value; None when the scenario is refused."""
        key = _key(settings, **{field: value})
        if key not in self._errors:
            if len(self._errors) >= MAX_REMEMBERED:
                self._errors.clear()
            outcome = outcome_of(self.model, settings, trace=False, **{field: value})
            self._errors[key] = _errors_of(outcome.plan)
        found = self._errors[key]
        if found is None:
            return None
        # Other errors, such as a block that outgrows the token budget, are consequences to look at.
        return frozenset(one for one in found if one[1] == field or one[0] in NO_BACKEND)


def _key(settings: Settings, **changes: Any) -> tuple[Any, ...]:
    """Return the settings as a key, changed. The model is left to `LegalValues`: it has no hash."""
    values = {one.name: getattr(settings, one.name) for one in fields(settings)}
    values.pop("model", None)
    # a drafter may be a whole config.json
    return tuple(
        repr(value) if isinstance(value, dict) else value for value in (values | changes).values()
    )


def _errors_of(plan: Plan | None) -> Errors | None:
    if plan is None:
        return None
    return frozenset((problem.code, problem.field) for problem in plan.errors)


def pipeline_sizes(model: Model) -> tuple[int, ...]:
    """Return powers of two up to the layers and 64, each a number of pipeline stages."""
    return tuple(2**n for n in range(min(model.num_hidden_layers, 64).bit_length())) or (1,)


def tensor_parallel_sizes(model: Model, limit: int = 64) -> tuple[int, ...]:
    """Return the sizes up to `limit` that split the attention heads; powers of two without any."""
    heads = model.total_num_attention_heads
    if not heads:
        return tuple(1 << power for power in range(limit.bit_length()))
    return tuple(size for size in range(1, limit + 1) if heads % size == 0)
