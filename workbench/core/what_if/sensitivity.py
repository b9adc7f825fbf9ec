"""Sensitivity: which single change of a scenario changes block size, padding or kernel block."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from workbench.core.dtypes import STATE_DTYPES
from workbench.core.plan import Plan
from workbench.core.versions import RULE_SETS
from workbench.core.what_if.outcomes import comparable_backends, outcome_of

TENSOR_PARALLEL = (1, 2, 4, 8)
KV_CACHE_DTYPES = ("auto", "fp8")
BLOCK_SIZES = (None, 16, 32, 64, 128, 256)
DRAFT_TOKENS = (0, 1, 2, 3, 5)


class Change(NamedTuple):
    """One changed field and the plan that it leads to."""

    field: str
    value: Any
    plan: Plan


class Sensitivity(Sequence[Change]):
    """Single changes that matter, with the plan that they were tried on; prints as a table."""

    def __init__(self, plan: Plan, changes: Iterable[Change]) -> None:
        self.plan = plan
        self._changes = tuple(changes)

    def __getitem__(self, index: Any) -> Any:
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


def sizes_of(plan: Plan) -> tuple[Any, ...]:
    """Return what sensitivity looks at: block size, padding in bytes, kernel block."""
    return plan.block_size, plan.padding_bytes, plan.kernel_block_size


def tried_changes(plan: Plan) -> Iterator[tuple[str, Any]]:
    """Yield the single changes that are tried, field by field; the present values are omitted."""
    settings, model = plan.settings, plan.model
    axes: dict[str, tuple[Any, ...]] = {"tensor_parallel": TENSOR_PARALLEL}
    if model.state is not None:
        axes |= {"mamba_cache_dtype": STATE_DTYPES, "mamba_ssm_cache_dtype": STATE_DTYPES}
    if model.attention is not None:
        axes["kv_cache_dtype"] = KV_CACHE_DTYPES
        axes["backend"] = (None, *comparable_backends(plan))
    axes |= {"block_size": BLOCK_SIZES, "num_speculative_tokens": DRAFT_TOKENS}
    if model.is_hybrid:
        axes["enable_prefix_caching"] = (False, True)
        if plan.enable_prefix_caching:
            # The first mode is none, which prefix caching never has.
            axes["mamba_cache_mode"] = RULE_SETS[settings.rules].cache_modes[1:]
    for field, values in axes.items():
        for value in values:
            if value != getattr(settings, field):
                yield field, value


def sensitivity(plan: Plan) -> Sensitivity:
    """Return every single change after which a size differs, smallest block size first."""
    tried = (
        (field, value, outcome_of(plan.model, plan.settings, **{field: value}).plan)
        for field, value in tried_changes(plan)
    )
    found = [
        Change(field, value, other)
        for field, value, other in tried
        if other is not None and sizes_of(other) != sizes_of(plan)
    ]
    return Sensitivity(plan, sorted(found, key=lambda change: change.plan.block_size))
