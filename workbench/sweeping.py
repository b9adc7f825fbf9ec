"""Public sweep: vary fields of a scenario, show the table, and pick the best points."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Event
from typing import TYPE_CHECKING, Any

from workbench.core.capacity.blocks import measured_bytes
from workbench.core.errors import ScenarioError, WorkbenchError
from workbench.models import load_model
from workbench.plan import Plan, resolve
from workbench.scenario import FIELDS, Scenario
from workbench.scenario_values import RANGES, SHARES

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from workbench.run.sweeps import SweepTable

DEFAULT_PROMPT_TOKENS = 4096
DEFAULT_AXES: Mapping[str, tuple[Any, ...]] = {
    "tensor_parallel": (1, 2, 4, 8),
    "kv_cache_dtype": ("auto", "fp8"),
    "block_size": (None, 16, 32, 64, 128, 256),
    "enable_prefix_caching": (False, True),
    "mamba_cache_mode": (None, "align", "all"),
    "num_speculative_tokens": (0, 1, 3),
}
"""Default sweep axes."""
ASSUMED_MEMORY = "20 GiB"
SHOWN_POINTS = 2000


def default_axes(scenario: Scenario) -> dict[str, tuple[Any, ...]]:
    """Return the default sweep axes, with a memory size if the scenario has none."""
    known = measured_bytes(scenario) is not None or scenario.num_gpu_blocks_override is not None
    return (
        dict(DEFAULT_AXES)
        if known
        else {**DEFAULT_AXES, "kv_cache_memory_bytes": (ASSUMED_MEMORY,)}
    )


class SweepResult:
    """The points of a sweep; prints as counts and the best points. table: every column as numpy."""

    def __init__(self, scenario: Scenario, table: SweepTable, prompt_tokens: int) -> None:
        from workbench.run.sweeps.pareto import pareto

        self.scenario, self.table, self.prompt_tokens = scenario, table, prompt_tokens
        self.front: tuple[int, ...] = tuple(pareto(table).tolist())

    def __len__(self) -> int:
        return len(self.table)

    def scenario_of(self, point: int) -> Scenario:
        """Return the scenario of a point. Errors: IndexError."""
        return self.scenario.replace(**self._changes(point))

    def plan_of(self, point: int) -> Plan:
        """Return the plan of a point. Errors: IndexError; Refused if vLLM refuses it."""
        return resolve(self.scenario_of(point))

    def rows(self, points: Iterable[int] | None = None) -> tuple[dict[str, Any], ...]:
        """Return points by column; without `points` all that are kept, the front first."""
        chosen = self.shown_points() if points is None else points
        return tuple(self.table.row(self._checked(point)) for point in chosen)

    def shown_points(self) -> tuple[int, ...]:
        """Return the front, then the other points that are kept, thinned to what can be shown."""
        import numpy as np

        kept = np.flatnonzero(self.table.is_kept)
        others = np.setdiff1d(kept, self.front, assume_unique=True)
        step = max(1, -(-len(others) // SHOWN_POINTS))
        return (*self.front[:SHOWN_POINTS], *others[::step].tolist())

    def present_row(self) -> dict[str, Any] | None:
        """Return the scenario that the sweep started from, as a row; None if it has no plan."""
        try:
            return _row_of(resolve(self.scenario), self.prompt_tokens)
        except WorkbenchError:
            return None

    def why(self, point: int) -> str:
        """Return HTML: settings, numbers and decisions of a point compared with the start."""
        from workbench.views.sweep_rows import MEASURES, value_text
        from workbench.views.sweep_why import why_html

        present, other = resolve(self.scenario), self.plan_of(point)
        one, two = (_row_of(plan, self.prompt_tokens) for plan in (present, other))
        measures = {
            MEASURES[name]: (
                value_text(name, one[name]),
                value_text(name, two[name]),
                _verdict(name, one[name], two[name]),
            )
            for name in MEASURES
        }
        return why_html(present, other, measures)

    def pareto_figure(self, **options: Any) -> go.Figure:
        """Plot trade-offs: see `workbench.views.sweep_figure.pareto_front`."""
        from workbench.views.sweep_figure import AXES, pareto_front

        x, y = options.get("x", AXES[0]), options.get("y", AXES[1])
        total = int((self.table.is_kept & self.table.has(x) & self.table.has(y)).sum())
        shown = self.rows(), self.front, self.present_row()
        return pareto_front(*shown, **{"total": total, **options})

    def parallel_figure(self, **options: Any) -> go.Figure:
        """Plot parallel coordinates over the settings and their results."""
        from workbench.views.sweep_figure import parallel_coordinates

        return parallel_coordinates(self.rows(), self.front, **options)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what is compared per GPU, and what is assumed about the memory."""
        from workbench.views.sweep_rows import comparison_notes

        return comparison_notes(self.scenario, tuple(self.table.space.axes))

    def to_html(self) -> str:
        """Return counts, why points are skipped, what is compared, and the first rows."""
        from workbench.views.sweep_rows import counts_html, notes_html, sweep_table_html

        counts = counts_html(self.table.counts, self.table.reasons) + notes_html(self.notes)
        return counts + sweep_table_html(self.rows(self.shown_points()[:200]), self.front)

    def _repr_html_(self) -> str:
        return self.to_html()

    def __repr__(self) -> str:
        counts = self.table.counts
        return (
            f"{counts['points']:,} points: {counts['kept']:,} kept, {counts['illegal']:,} illegal, "
            f"{counts['identical']:,} identical; {len(self.front)} on the Pareto front per GPU"
            + (f"; {counts['missing']:,} not reached" if counts["missing"] else "")
        )

    def _changes(self, point: int) -> dict[str, Any]:
        changes = self.table.space.changes(self._checked(point))
        if len(self.table.space.models) == 1:
            del changes["model"]
        return changes

    def _checked(self, point: int) -> int:
        if not 0 <= point < len(self):
            raise IndexError(f"Invalid point {point}. Expected 0 to {len(self) - 1:,}.")
        return point


def sweep(
    scenario: Scenario | None = None,
    axes: Mapping[str, Sequence[Any]] | None = None,
    *,
    prompt_tokens: int = DEFAULT_PROMPT_TOKENS,
    stop: Event | Callable[[], bool] | None = None,
    **more: Sequence[Any],
) -> SweepResult:
    """Resolve every combination of some fields: `sweep(scenario, tensor_parallel=(1, 2))`.

    axes: field -> values, "model" too (names); sizes may carry units. prompt_tokens: of the
    request whose waste is reported. stop: ends it from another thread; see `evaluate`. Errors:
    ScenarioError for a field or a value that no scenario has.
    """
    from workbench.run.sweeps import Space, evaluate

    start = scenario or Scenario()
    requested = {**(axes or {}), **more} or default_axes(start)
    checked, illegal = _checked_axes(start, requested)
    names = checked.pop("model", None) or (start.model,)
    models = {str(name) if isinstance(name, str) else "model": load_model(name) for name in names}
    space = Space(models, start, checked, illegal)
    return SweepResult(start, evaluate(space, prompt_tokens, stop=stop), prompt_tokens)


def _checked_axes(
    start: Scenario, requested: Mapping[str, Sequence[Any]]
) -> tuple[dict[str, tuple[Any, ...]], tuple[tuple[Mapping[str, Any], str], ...]]:
    """Return the values as a scenario holds them, and the combinations that no scenario has.

    A value that is wrong in every rule set and on every platform of the sweep is an error.
    """
    rules = tuple(requested.get("rules", (start.rules,)))
    platforms = tuple(requested.get("platform", (start.platform,)))
    checked: dict[str, tuple[Any, ...]] = {}
    illegal: list[tuple[Mapping[str, Any], str]] = []
    for field, values in requested.items():
        if field not in FIELDS:
            start.replace(**{field: None})  # raises, and lists the fields
        if isinstance(values, str) or not isinstance(values, Iterable):
            raise ScenarioError(
                "wrong_type",
                f"Invalid values {values!r} for {field}. Expected several values such as (1, 2).",
                field=field,
            )
        kept = []
        for value in values:
            errors = {}
            for rule in rules:
                for platform in platforms:
                    place = {"rules": rule, "platform": platform}
                    try:
                        found = start.replace(**{**_neutral(requested), **place, field: value})
                        kept.append(getattr(found, field))
                    except ScenarioError as error:
                        errors[rule, platform] = error
            if len(errors) == len(rules) * len(platforms):
                raise next(iter(errors.values()))
            for (rule, platform), wrong in errors.items():
                place = {"rules": rule, "platform": platform, field: kept[-1]}
                illegal.append((place, wrong.code))
        checked[field] = tuple(dict.fromkeys(kept)) if field != "model" else tuple(kept)
    return checked, tuple(illegal)


def _neutral(requested: Mapping[str, Any]) -> dict[str, Any]:
    """Return varied fields whose present value might not suit every rule set or platform."""
    dependent = ("backend", "mamba_cache_mode", "compute_capability")
    return {field: None for field in dependent if field in requested}


def parse_axes(text: str) -> dict[str, tuple[Any, ...]]:
    """Return axes from lines `field = value, value`: JSON values, bare words, sizes with units.

    Errors: ScenarioError that quotes the line.
    """
    found: dict[str, tuple[Any, ...]] = {}
    for line in filter(str.strip, text.splitlines()):
        field, equals, values = line.partition("=")
        name = field.strip()
        if not equals or not values.strip():
            raise ScenarioError(
                "wrong_type",
                f"Invalid line {line.strip()[:60]!r}. "
                "Expected `field = value, value`, such as `tensor_parallel = 1, 2`.",
                field=name[:60] or None,
            )
        if name in found:
            raise ScenarioError(
                "duplicate_field", f"{name[:60]!r} is given twice.", field=name[:60]
            )
        found[name] = tuple(
            _value(name, part.strip()) for part in values.split(",") if part.strip()
        )
    return found


def _value(field: str, text: str) -> Any:
    """Return a number only if the field is one: "0.23" and "9.0" are names."""
    if text in {"none", "null", "None"} and field != "mamba_cache_mode":
        return None
    try:
        value = json.loads(text)
    except ValueError:
        return text.strip("\"'")
    is_name = isinstance(value, int | float) and field not in (*RANGES, *SHARES)
    return text if is_name and not isinstance(value, bool) else value


def _verdict(name: str, one: float | None, two: float | None) -> str:
    """Return whether the second value is better; empty if neither is."""
    from workbench.run.sweeps.pareto import GOALS

    if name not in GOALS or one == two:
        return ""
    if name == "concurrency_per_gpu" and None in (one, two):
        return "no memory size to compare with"
    if one is None or two is None:
        return "▲ better" if one is None else "▼ worse"
    return "▲ better" if GOALS[name] * (two - one) > 0 else "▼ worse"


def _row_of(plan: Plan, prompt_tokens: int) -> dict[str, Any]:
    from workbench.run.sweeps.single import row_of

    return {"point": None, "sets": {}, **row_of(plan, prompt_tokens)}
