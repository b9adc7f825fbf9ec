"""Sensitivity: which single change of a scenario changes block size, padding or kernel block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

from workbench.core.dtypes import FLOAT_BYTES
from workbench.core.errors import WorkbenchError
from workbench.core.plan import Plan
from workbench.core.resolve import resolve
from workbench.core.versions import RULE_SETS
from workbench.core.what_if.grid import comparable_backends

TENSOR_PARALLEL = (1, 2, 4, 8)
KV_CACHE_DTYPES = ("auto", "fp8")
BLOCK_SIZES = (None, 16, 32, 64, 128, 256)
DRAFT_TOKENS = (0, 1, 2, 3, 5)


@dataclass(frozen=True, slots=True)
class Change:
    """One changed field and the plan that it leads to; `refused` instead where there is none."""

    field: str
    value: Any
    plan: Plan | None
    refused: str | None = None

    def differs_from(self, plan: Plan) -> bool:
        """Return whether block size, padding or kernel block are not those of `plan`."""
        if self.plan is None:
            return False
        return outcome(self.plan) != outcome(plan)


def outcome(plan: Plan) -> tuple[Any, ...]:
    """Return what sensitivity looks at: block size, padding in bytes, kernel block."""
    return plan.block_size, plan.padding_bytes, plan.kernel_block_size


def single_changes(plan: Plan) -> Iterator[tuple[str, Any]]:
    """Yield the single changes that are tried, field by field; the present values are omitted."""
    settings, model = plan.settings, plan.model
    axes: list[tuple[str, tuple[Any, ...]]] = [("tensor_parallel", TENSOR_PARALLEL)]
    if model.state is not None:
        axes += [
            ("mamba_cache_dtype", ("auto", *FLOAT_BYTES)),
            ("mamba_ssm_cache_dtype", ("auto", *FLOAT_BYTES)),
        ]
    if model.attention is not None:
        axes.append(("kv_cache_dtype", KV_CACHE_DTYPES))
        axes.append(("backend", (None, *comparable_backends(plan))))
    axes += [("block_size", BLOCK_SIZES), ("num_speculative_tokens", DRAFT_TOKENS)]
    if model.is_hybrid:
        axes.append(("enable_prefix_caching", (False, True)))
        if plan.enable_prefix_caching:
            axes.append(("mamba_cache_mode", RULE_SETS[settings.rules].cache_modes[1:]))
    for field, values in axes:
        for value in values:
            if value != getattr(settings, field):
                yield field, value


def try_change(plan: Plan, field: str, value: Any) -> Change:
    """Resolve `plan`'s scenario again with one field changed."""
    try:
        changed = resolve(plan.model, replace(plan.settings, **{field: value}))
    except WorkbenchError as error:
        return Change(field, value, None, error.code)
    return Change(field, value, changed)


class Sensitivity(Sequence[Change]):
    """Single changes that matter, with the plan that they were tried on; prints as a table."""

    def __init__(self, plan: Plan, changes: tuple[Change, ...]) -> None:
        self.plan = plan
        self._changes = changes

    @overload
    def __getitem__(self, index: int) -> Change: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Change, ...]: ...
    def __getitem__(self, index: int | slice) -> Change | tuple[Change, ...]:
        return self._changes[index]

    def __len__(self) -> int:
        return len(self._changes)

    def __repr__(self) -> str:
        lines = [f"unchanged:  {self.plan!r}"]
        lines += [f"{change.field} = {change.value}: {change.plan!r}" for change in self._changes]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from workbench.views.html import sensitivity_html
        from workbench.views.rows import sensitivity_rows

        return sensitivity_html(self.plan, sensitivity_rows(self._changes))


def changes_that_matter(plan: Plan) -> tuple[Change, ...]:
    """Return every single change after which the outcome differs, smallest block size first."""
    found = [
        change
        for field, value in single_changes(plan)
        if (change := try_change(plan, field, value)).differs_from(plan)
    ]

    def block_size(change: Change) -> int:
        assert change.plan is not None
        return change.plan.block_size

    return tuple(sorted(found, key=block_size))
