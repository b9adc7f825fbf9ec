"""Sweep the present scenario: which points there are, which are Pareto-optimal, and why."""

from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from typing import Any

import ipywidgets as widgets

from workbench.core.errors import ScenarioError, WorkbenchError
from workbench.core.plan import Plan
from workbench.door.session import Session, guarded
from workbench.interop.exchange import sweep_file
from workbench.labs.jobs import SWEEPS, Job
from workbench.scenario import FIELDS, Scenario
from workbench.sweeps.axes import DEFAULT_AXES, FIRST_FIELDS, checked_axes, default_axes
from workbench.sweeps.front import GOALS, USUAL_GOALS
from workbench.sweeps.language import Completion, axes_text, completion, parse_axes
from workbench.sweeps.sweep import SweepResult, sweep
from workbench.ui.completion_box import CompletionBox
from workbench.ui.jobs import Done, JobRunner, Work
from workbench.ui.live_figure import LiveFigure, Reading
from workbench.ui.panels.panel import Panel
from workbench.ui.pieces import CopyBox, button, display, dropdown, grid, line, mark_stale
from workbench.views import html
from workbench.views.settings import in_labels
from workbench.views.sweeps import rows

TRADE_OFF, LINES = "trade-off", "parallel coordinates"
AXES = {"x": "waste_share", "y": "concurrency_per_gpu"}
MAX_CHOICES = 200
STOPPED = "Stopped: what is shown had been resolved by then. Sweep again to resolve the rest."
HINT = (
    "A setting, then its values: <code>Tensor parallel 1 2 4 8, KV-cache dtype auto fp8</code>. "
    "Both are completed while you type. Names of fields, such as <code>tensor_parallel</code>, "
    "are read as well."
)


class SweepsPanel(Panel):
    """One sweep at a time: the newest request wins, and one that was stopped shows nothing."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.found: SweepResult | None = None
        self._swept = ""  # the axes of `found`
        self.jobs = JobRunner(self, lane=SWEEPS)
        self._build_controls()
        self._counts, self._why, self._table, self._size = (widgets.HTML() for _ in range(4))
        self._figure = LiveFigure(on_click=self._clicked)
        self.servers = CopyBox(label="the best points for vllm bench sweep serve --serve-params")
        self._outcome = widgets.VBox(
            [
                line(widgets.HTML(html.document("<b>Goals</b>")), *self.goals.values()),
                self._counts,
                grid([self.picture, *self.measures.values()]),
                self._figure.widget,
                line(self.point, self.use),
                self._why,
                self._table,
                self.servers,
            ]
        )
        display(self._outcome, shown=False)
        hint = widgets.HTML(html.document(html.note(html.Html(HINT))))
        start = line(self.start, self.jobs.stop_button, self._size, self.jobs.status)
        vary = line(widgets.HTML(html.document("<b>Vary</b>")), *self.vary.values())
        self.fill(vary, self.axes, hint, start, self._outcome)
        self._wire()

    def _build_controls(self) -> None:
        self.axes = CompletionBox(self._complete, label="Parameters")
        self.vary = {
            name: widgets.ToggleButton(description=FIELDS[name].label, layout={"width": "auto"})
            for name in DEFAULT_AXES
        }
        self.start = button("Sweep", button_style="primary")
        self.goals = {
            name: widgets.Checkbox(
                value=name in USUAL_GOALS,
                description=rows.GOALS_IN_WORDS[name],
                indent=False,
                layout={"width": "auto"},
            )
            for name in GOALS
        }
        self.picture = dropdown("Picture", (TRADE_OFF, LINES))
        named = [(rows.MEASURES[name], name) for name in rows.TRADE_OFFS]
        labels = {"x": "Across", "y": "Up"}
        self.measures = {one: dropdown(labels[one], named, AXES[one]) for one in AXES}
        self.point = dropdown("Point", ())
        self.point.layout.width = "min(760px, 80%)"
        self.use = button("Use this point", "Set the scenario to the chosen point.", disabled=True)

    def _wire(self) -> None:
        self.jobs.start_with(self.start, self._sweep, "Resolving ...")
        self.press(self.use, self._use)
        self.watch(self.axes, then=self._axes_entered)
        for name, chosen in self.vary.items():
            self.watch(chosen, then=partial(self._vary, name))
        self.watch(self.picture, *self.measures.values(), then=self._draw_picture)
        self.watch(self.point, then=self._explain)
        self.watch(*self.goals.values(), then=self._other_goals)

    def show(self, plan: Plan) -> None:
        """See `Panel.show`: a sweep of other scenarios is greyed out until it is run again."""
        first = self._plan is None
        self._plan = plan
        if first and not self.axes.value:
            with self.by_program:
                self.axes.value = axes_text(default_axes(plan.scenario, FIRST_FIELDS))
        self._axes_entered()
        self._follow(plan)

    def _follow(self, plan: Plan) -> None:
        """Compare the points with the present scenario, or grey them out if they are not its."""
        found = self.found
        if found is None:
            return
        same: SweepResult | None = found
        if found.scenario != plan.scenario:
            same = None if found.table.counts["missing"] else found.compared_with(plan.scenario)
        mark_stale(same is None, self._counts, self._figure, self._why, self._table)
        if same is not None and same is not found:
            self.found = same
            self._draw_picture()
            self._explain()

    def _complete(self, text: str, at: int) -> Completion:
        """Return what may be at the cursor, of the present scenario's version and model."""
        scenario = self.session.scenario
        return completion(text, at, scenario, None if self._plan is None else self._plan.model)

    def _entered(self) -> dict[str, tuple[Any, ...]]:
        """Return the axes of the text; none of a text that cannot be read."""
        try:
            return parse_axes(self.axes.value)
        except ScenarioError:
            return {}

    def _axes_entered(self) -> None:
        """Mark what the text varies, and count its points."""
        axes = self._entered()
        with self.by_program:
            for name, chosen in self.vary.items():
                chosen.value = name in axes
        self._count()

    def _vary(self, name: str) -> None:
        """Vary a setting as usual, or no longer; values that were entered for others stay."""
        axes = self._entered()
        if not self.vary[name].value:
            axes.pop(name, None)
        elif self._plan is not None:
            axes |= {**default_axes(self._plan.scenario, [name]), **axes}
        with self.by_program:
            self.axes.value = axes_text(axes)
        self._axes_entered()

    def _count(self) -> None:
        """Show how many points the axes make, or what is wrong with them."""
        if self._plan is None:
            return
        try:
            sizes = [len(one) for one in self._checked(self._plan.scenario).values()]
        except WorkbenchError as error:
            self._size.value = html.document(html.note(in_labels(str(error))))
            return
        product = " x ".join(map(str, sizes))
        self._size.value = html.document(html.note(f"{product} = {prod(sizes):,} points"))

    def _checked(self, scenario: Scenario) -> Mapping[str, tuple[Any, ...]]:
        axes = parse_axes(self.axes.value)
        checked, _illegal = checked_axes(scenario, axes)
        if not axes:
            raise ScenarioError("no_axes", "Nothing is varied. Expected a field and its values.")
        return checked

    def _sweep(self) -> tuple[Work, Done] | None:
        if self._plan is None:
            return None
        text, scenario = self.axes.value, self._plan.scenario
        axes = parse_axes(text)
        resume = self._stopped_before(scenario, text)

        def work(job: Job) -> SweepResult:
            def report(done: int, points: int) -> None:
                job.report(f"Resolving ... {done:,} of {points:,}")

            stop = partial(getattr, job, "stopping")
            return sweep(scenario, axes, stop=stop, progress=report, resume=resume)

        return work, partial(self._arrived, text)

    def _stopped_before(self, scenario: Scenario, text: str) -> SweepResult | None:
        """Return what is there of the same sweep, if it was stopped."""
        found = self.found
        if found is None or (found.scenario, self._swept) != (scenario, text):
            return None
        return found if found.table.counts["missing"] else None

    def _arrived(self, text: str, found: SweepResult) -> None:
        counts = found.table.counts
        if counts["missing"]:
            self.jobs.status.value = html.document(f"<p>{STOPPED}</p>")
        if counts["missing"] < counts["points"]:
            self.found, self._swept = found, text
            self._other_goals()

    def _other_goals(self) -> None:
        """Show the points that are best for the chosen goals."""
        if self.found is None:
            return
        chosen = [name for name, box in self.goals.items() if box.value]
        self.found = self.found.for_goals(*(chosen or USUAL_GOALS))
        self._show_found(self.found)

    def _show_found(self, found: SweepResult) -> None:
        display(self._outcome, shown=True)
        counts = rows.counts_html(found.table.counts, found.table.reasons)
        self._counts.value = counts + rows.notes_html(found.notes)
        points = found.shown_points()[:MAX_CHOICES]
        self._table.value = rows.sweep_table_html(found.rows(points), found.front)
        self._draw_picture()
        with self.by_program:
            self.point.options = [(_label(found, point), point) for point in points]
            self.point.value = points[0] if points else None
        self.use.disabled = not points
        self.servers.text = _servers_text(found)
        self._explain()
        if self._plan is not None:
            self._follow(self._plan)

    def _draw_picture(self) -> None:
        found = self.found
        if found is None:
            return
        for control in self.measures.values():
            control.disabled = self.picture.value == LINES
        draw: Callable[[], Any] = found.parallel_figure
        if self.picture.value == TRADE_OFF:
            chosen = {name: control.value for name, control in self.measures.items()}
            draw = partial(found.pareto_figure, **chosen)
        self._figure.show(draw())

    @guarded
    def _clicked(self, trace: Any, index: int, _cursor: Reading | None) -> None:
        """Choose the point of a clicked mark; the current configuration is none."""
        with self._lock:
            points = trace.customdata if trace.type == "scatter" else ()
            if self.found is None or not 0 <= index < len(points) or points[index] is None:
                return
            point = int(points[index])
            known = [value for _label, value in self.point.options]
            if point not in known:
                added = (_label(self.found, point), point)
                with self.by_program:
                    self.point.options = [added, *self.point.options]
            self.point.value = point
            self._explain()

    def _explain(self) -> None:
        if self.found is None or self.point.value is None:
            self._why.value = ""
            return
        try:
            self._why.value = self.found.why(self.point.value)
        except WorkbenchError as error:
            self._why.value = html.document(html.refusal_html(error))

    def _use(self) -> None:
        if self.found is not None and self.point.value is not None:
            self.session.request(self.found.scenario_of(self.point.value))


def _servers_text(found: SweepResult) -> str:
    """Return the front as the file that vLLM reads, or why there is none."""
    points = found.front[:MAX_CHOICES]
    try:
        return sweep_file(
            [found.scenario_of(one) for one in points], [f"point-{n}" for n in points]
        )
    except WorkbenchError as error:
        return f"# {error.message}"


def _label(found: SweepResult, point: int) -> str:
    best = "◆ " if point in found.front else ""
    return f"{best}{found.name_of(point) or 'the scenario'} (point {point})"
