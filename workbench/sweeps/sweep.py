"""Public sweep: vary fields of a scenario, show the table, and pick the best points."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any

from workbench.core.errors import WorkbenchError, shown
from workbench.core.plan import Plan
from workbench.models.drafter import load_with
from workbench.scenario import Scenario
from workbench.scenario.resolution import resolve
from workbench.scenario.start import Start, scenario_from
from workbench.sweeps.axes import checked_axes, default_axes

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from workbench.sweeps.run import Progress, Stop
    from workbench.sweeps.table import SweepTable
    from workbench.views.html import Html

DEFAULT_PROMPT_TOKENS = 4096
SHOWN_POINTS = 2000


class SweepResult:
    """The points of a sweep; prints as counts and the best points. table: every column as numpy.

    goals: columns of `GOALS` in `workbench.sweeps.front`; no point of the front is beaten in them.
    """

    def __init__(
        self,
        scenario: Scenario,
        table: SweepTable,
        prompt_tokens: int,
        goals: Collection[str] | None = None,
    ) -> None:
        from workbench.sweeps.front import USUAL_GOALS, pareto

        self.scenario, self.table, self.prompt_tokens = scenario, table, prompt_tokens
        self.goals = tuple(USUAL_GOALS if goals is None else goals)
        self.front: tuple[int, ...] = tuple(pareto(table, self.goals).tolist())

    def for_goals(self, *goals: str) -> SweepResult:
        """Return the same points with the front for these goals. Errors: ValueError lists them."""
        return SweepResult(self.scenario, self.table, self.prompt_tokens, goals)

    def compared_with(self, scenario: Scenario) -> SweepResult | None:
        """Return the same points compared with a scenario that differs in swept fields alone.

        None for one that differs in others, whose points are not these.
        """
        swept = {"model": self.scenario.model} if len(self.table.space.models) > 1 else {}
        swept |= {name: getattr(self.scenario, name) for name in self.table.space.axes}
        try:
            is_same = scenario.replace(**swept) == self.scenario
        except WorkbenchError:
            return None
        return (
            SweepResult(scenario, self.table, self.prompt_tokens, self.goals) if is_same else None
        )

    def name_of(self, point: int) -> str:
        """Return what a point sets, such as "TP 4, KV dtype fp8". Errors: IndexError."""
        from workbench.views.sweeps.rows import axes_of, point_name

        row = self.table.row(self._checked(point))
        several = len(self.table.space.models) > 1
        return point_name({name: row["sets"][name] for name in axes_of([row], several=several)})

    def __len__(self) -> int:
        return len(self.table)

    def scenario_of(self, point: int) -> Scenario:
        """Return the scenario of a point. Errors: IndexError."""
        changes = self.table.space.changes(self._checked(point))
        if len(self.table.space.models) == 1:
            del changes["model"]
        return self.scenario.replace(**changes)

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

    def why(self, point: int) -> Html:
        """Return HTML: settings, numbers and decisions of a point compared with the start."""
        from workbench.views.sweeps.rows import MEASURES, value_text
        from workbench.views.sweeps.why import why_html

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
        """Plot trade-offs: see `workbench.views.sweeps.figure.pareto_front`."""
        from workbench.views.sweeps.figure import AXES, pareto_front

        x, y = options.get("x", AXES[0]), options.get("y", AXES[1])
        total = int((self.table.is_kept & self.table.has(x) & self.table.has(y)).sum())
        shown = self.rows(), self.front, self.present_row()
        return pareto_front(*shown, **{"total": total, **options})

    def parallel_figure(self, **options: Any) -> go.Figure:
        """Plot parallel coordinates over the settings and their results."""
        from workbench.views.sweeps.figure import parallel_coordinates

        return parallel_coordinates(self.rows(), self.front, **options)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what is compared per GPU, and what is assumed about the memory."""
        from workbench.views.sweeps.rows import LACKING, comparison_notes

        table, kept = self.table, self.table.is_kept
        lacking = [name for name in LACKING if kept.any() and not (kept & table.has(name)).any()]
        return comparison_notes(self.scenario, tuple(table.space.axes), lacking)

    def to_html(self) -> str:
        """Return counts, why points are skipped, what is compared, and the first rows."""
        from workbench.views.sweeps.rows import counts_html, notes_html, sweep_table_html

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

    def _checked(self, point: int) -> int:
        if not 0 <= point < len(self):
            raise IndexError(f"Invalid point {shown(point)}. Expected 0 to {len(self) - 1:,}.")
        return point


def sweep(
    scenario: Start = None,
    axes: Mapping[str, Sequence[Any]] | None = None,
    *,
    prompt_tokens: int = DEFAULT_PROMPT_TOKENS,
    stop: Stop = None,
    progress: Progress | None = None,
    resume: SweepResult | None = None,
    executor: Executor | None = None,
    **more: Sequence[Any],
) -> SweepResult:
    """Resolve every combination of some fields: `sweep(scenario, tensor_parallel=(1, 2))`.

    scenario: also a plan, or a model alone. axes: field -> values, "model" too (names); sizes may
    carry units. prompt_tokens: of the request whose waste is reported. stop: ends it from another
    thread. progress: called with the points that are done, and all. resume: a result of the same
    sweep that was stopped; only what it lacks is resolved. executor: other machines, such as Dask's
    `Client.get_executor()`. Errors: ScenarioError for a field or a value that no scenario has;
    ValueError for a result of another sweep.

    >>> wb.sweep(plan.scenario, tensor_parallel=(1, 2))
    2 points: 2 kept, ... 1 on the Pareto front per GPU
    """
    from workbench.sweeps.run import evaluate
    from workbench.sweeps.space import Space

    if resume is not None and resume.prompt_tokens != prompt_tokens:
        raise ValueError(
            f"The stopped sweep reports the waste of {resume.prompt_tokens:,} tokens; "
            f"prompt_tokens is {prompt_tokens:,}."
        )
    start = scenario_from(scenario)
    requested = {**(axes or {}), **more} or default_axes(start)
    checked, illegal = checked_axes(start, requested)
    names = checked.pop("model", None) or (start.model,)
    models = {
        str(name) if isinstance(name, str) else "model": load_with(name, start) for name in names
    }
    space = Space(models, start, checked, illegal)
    table = evaluate(
        space,
        prompt_tokens,
        stop=stop,
        progress=progress,
        earlier=None if resume is None else resume.table,
        executor=executor,
    )
    return SweepResult(start, table, prompt_tokens)


def _verdict(name: str, one: float | None, two: float | None) -> str:
    """Return whether the second value is better; empty if neither is."""
    from workbench.sweeps.front import GOALS

    if name not in GOALS or one == two:
        return ""
    if name == "concurrency_per_gpu" and None in (one, two):
        return "no memory size to compare with"
    if one is None or two is None:
        return "▲ better" if one is None else "▼ worse"
    return "▲ better" if GOALS[name] * (two - one) > 0 else "▼ worse"


def _row_of(plan: Plan, prompt_tokens: int) -> dict[str, Any]:
    from workbench.sweeps.row import row_of

    return {"point": None, "sets": {}, **row_of(plan, prompt_tokens)}
