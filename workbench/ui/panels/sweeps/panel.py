"""Sweep the present scenario: which points there are, which are not beaten, and why."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import ipywidgets as widgets
import plotly.graph_objects as go

from workbench.core.errors import WorkbenchError
from workbench.core.plan import Plan
from workbench.exchange import sweep_file
from workbench.labs.jobs import SWEEPS, Job
from workbench.scenario import Scenario
from workbench.sweeps.axes import default_axes, parse_axes
from workbench.sweeps.sweep import SweepResult, sweep
from workbench.ui.jobs import Done, JobRunner, Work
from workbench.ui.live_figure import LiveFigure
from workbench.ui.panels.panel import Panel
from workbench.ui.panels.sweeps.kernels import KernelTuning
from workbench.ui.pieces import CopyBox, button, display, dropdown, line, mark_stale
from workbench.ui.session import Session
from workbench.views import html
from workbench.views.sweeps.rows import (
    axes_of,
    counts_html,
    notes_html,
    sweep_table_html,
    value_text,
)

PICTURES: Mapping[str, Callable[[SweepResult], go.Figure]] = {
    "concurrency and waste": SweepResult.pareto_figure,
    "concurrency and cacheable prefix": partial(
        SweepResult.pareto_figure, x="smallest_prefix_tokens"
    ),
    "parallel coordinates": SweepResult.parallel_figure,
}
"""Name -> figure of a sweep."""
MAX_CHOICES = 60
STOPPED = "Stopped: what is shown had been resolved by then. Sweep again to resolve the rest."


class TuningPanel(Panel):
    """One sweep at a time: the newest request wins, and one that was stopped shows nothing."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.found: SweepResult | None = None
        self._swept = ""  # the axes of `found`
        self.jobs = JobRunner(self, lane=SWEEPS)
        self.axes = widgets.Textarea(
            description="Vary",
            tooltip="A line for each field: field = value, value",
            layout={"width": "98%", "height": "150px"},
        )
        self.start = button("Sweep", button_style="primary")
        self.picture = dropdown("Trade-off", PICTURES)
        self.point = dropdown("Best point", ())
        self.use = button("Use this point", disabled=True)
        self._counts, self._why, self._table = (widgets.HTML() for _ in range(3))
        self._figure = LiveFigure()
        self.servers = CopyBox(label="the best points for vllm bench sweep serve --serve-params")
        self.kernels = KernelTuning(session)
        self._outcome = widgets.VBox(
            [
                self._counts,
                self.picture,
                self._figure.widget,
                line(self.point, self.use),
                self._why,
                self._table,
                widgets.Accordion([self.servers], titles=["To vLLM's own sweep"]),
            ]
        )
        display(self._outcome, shown=False)
        start = line(self.start, self.jobs.stop_button, self.jobs.status)
        self.fill(self.axes, start, self._outcome, self.kernels)
        self.jobs.start_with(self.start, self._sweep, "Resolving ...")
        self.press(self.use, self._use)
        self.watch(self.picture, then=self._draw_picture)
        self.watch(self.point, then=self._explain)

    def show(self, plan: Plan) -> None:
        """See `Panel.show`: a sweep of another scenario is greyed out until it is run again."""
        if self._plan is None and not self.axes.value:
            self.axes.value = default_text(plan)
        self._plan = plan
        stale = self.found is not None and self.found.scenario != plan.scenario
        mark_stale(stale, self._counts, self._figure, self._why, self._table)

    def _sweep(self) -> tuple[Work, Done] | None:
        if self._plan is None:
            return None
        lines, scenario = self.axes.value, self._plan.scenario
        axes = parse_axes(lines)
        resume = self._stopped_before(scenario, lines)

        def work(job: Job) -> SweepResult:
            def report(done: int, points: int) -> None:
                job.report(f"Resolving ... {done:,} of {points:,}")

            stop = partial(getattr, job, "stopping")
            return sweep(scenario, axes, stop=stop, progress=report, resume=resume)

        return work, partial(self._arrived, lines)

    def _stopped_before(self, scenario: Scenario, lines: str) -> SweepResult | None:
        """Return what is there of the same sweep, if it was stopped."""
        found = self.found
        if found is None or (found.scenario, self._swept) != (scenario, lines):
            return None
        return found if found.table.counts["missing"] else None

    def _arrived(self, lines: str, found: SweepResult) -> None:
        counts = found.table.counts
        if counts["missing"]:
            self.jobs.status.value = html.document(f"<p>{STOPPED}</p>")
        if counts["missing"] < counts["points"]:
            self.found, self._swept = found, lines
            self._show_found(found)

    def _show_found(self, found: SweepResult) -> None:
        display(self._outcome, shown=True)
        counts = counts_html(found.table.counts, found.table.reasons)
        self._counts.value = counts + notes_html(found.notes)
        self._table.value = sweep_table_html(found.rows(found.shown_points()[:200]), found.front)
        self._draw_picture()
        rows = found.rows(found.front[:MAX_CHOICES])
        names = axes_of(rows)
        self.point.options = [(_label(row, names), row["point"]) for row in rows]
        self.point.value = rows[0]["point"] if rows else None
        self.use.disabled = not rows
        self.servers.text = _servers_text(found)
        self._explain()
        if self._plan is not None:
            self.show(self._plan)

    def _draw_picture(self) -> None:
        if self.found is not None:
            self._figure.show(PICTURES[self.picture.value](self.found))

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


def _label(row: Mapping[str, Any], names: tuple[str, ...]) -> str:
    sets = ", ".join(
        f"{name} {value_text(name, row['sets'][name], is_setting=True)}" for name in names
    )
    return f"{row['point']}: {sets}" if sets else str(row["point"])


def default_text(plan: Plan) -> str:
    """Return the lines that are shown at first."""

    def text(value: Any) -> str:
        if value is None:
            return "null"
        return str(value).lower() if isinstance(value, bool) else str(value)

    return "\n".join(
        f"{field} = {', '.join(map(text, values))}"
        for field, values in default_axes(plan.scenario).items()
    )
