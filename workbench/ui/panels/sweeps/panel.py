"""Sweep the present scenario: which points there are, which are not beaten, and why."""

from __future__ import annotations

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
from workbench.ui.copy_box import CopyBox
from workbench.ui.jobs import JobRunner
from workbench.ui.live_figure import LiveFigure
from workbench.ui.panels.panel import Panel
from workbench.ui.panels.sweeps.kernels import KernelTuning
from workbench.ui.session import Session, guarded
from workbench.views import html
from workbench.views.sweeps.rows import (
    axes_of,
    counts_html,
    notes_html,
    sweep_table_html,
    value_text,
)

PICTURES: Mapping[str, Callable[[SweepResult], go.Figure]] = {
    "concurrency and waste": lambda found: found.pareto_figure(),
    "concurrency and cacheable prefix": lambda found: found.pareto_figure(
        x="smallest_prefix_tokens"
    ),
    "parallel coordinates": lambda found: found.parallel_figure(),
}
"""Name -> figure of a sweep."""
MAX_CHOICES = 60
STOPPED = "Stopped: what is shown had been resolved by then. Sweep again to resolve the rest."


class TuningPanel(Panel):
    """One sweep at a time: the newest request wins, and one that was stopped shows nothing."""

    title = "Tuning"

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.found: SweepResult | None = None
        self._plan: Plan | None = None
        self.jobs = JobRunner(self, lane=SWEEPS)
        self._swept = ""  # the axes of `found`
        self.axes = widgets.Textarea(
            description="Vary",
            tooltip="A line for each field: field = value, value",
            layout=widgets.Layout(width="98%", height="150px"),
        )
        self.start = widgets.Button(description="Sweep", button_style="primary")
        self.picture = widgets.Dropdown(options=tuple(PICTURES), description="Trade-off")
        self.point = widgets.Dropdown(description="Best point", layout=widgets.Layout(width="70%"))
        self.use = widgets.Button(description="Use this point", disabled=True)
        self._counts, self._why, self._table = (widgets.HTML() for _ in range(3))
        self._figure = LiveFigure()
        self.servers = CopyBox(label="the best points for vllm bench sweep serve --serve-params")
        self._servers = widgets.Accordion([self.servers], titles=["To vLLM's own sweep"])
        self.kernels = KernelTuning(session)
        self._outcome = widgets.VBox(
            [
                self._counts,
                self.picture,
                self._figure.widget,
                widgets.HBox([self.point, self.use]),
                self._why,
                self._table,
                self._servers,
            ],
            layout=widgets.Layout(display="none"),
        )
        self.fill(
            self.axes,
            widgets.HBox([self.start, self.jobs.stop_button, self.jobs.status]),
            self._outcome,
            self.kernels.widget,
        )
        self.start.on_click(self._start)
        self.use.on_click(self._use)
        self.picture.observe(self._draw, names="value")
        self.point.observe(self._tell, names="value")

    def show(self, plan: Plan) -> None:
        """See `Panel.show`: a sweep of another scenario is greyed out until it is run again."""
        if self._plan is None and not self.axes.value:
            self.axes.value = default_text(plan)
        self._plan = plan
        stale = self.found is not None and self.found.scenario != plan.scenario
        for part in (self._counts, self._figure.widget, self._why, self._table):
            (part.add_class if stale else part.remove_class)("wb-stale")

    @guarded
    def _start(self, _button: Any) -> None:
        self.clear_error()
        if self._plan is None:
            return
        lines = self.axes.value
        try:
            axes = parse_axes(lines)
        except WorkbenchError as error:
            self.jobs.refuse(error)
            return
        scenario = self._plan.scenario
        resume = self._stopped_before(scenario, lines)

        def work(job: Job) -> SweepResult:
            def report(done: int, points: int) -> None:
                job.report(f"Resolving ... {done:,} of {points:,}")

            stop = partial(getattr, job, "stopping")
            return sweep(scenario, axes, stop=stop, progress=report, resume=resume)

        self.jobs.start(work, partial(self._arrived, lines), "Resolving ...")

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
        self._outcome.layout.display = ""
        counts = counts_html(found.table.counts, found.table.reasons)
        self._counts.value = counts + notes_html(found.notes)
        self._table.value = sweep_table_html(found.rows(found.shown_points()[:200]), found.front)
        self._draw(None)
        rows = found.rows(found.front[:MAX_CHOICES])
        names = axes_of(rows)
        self.point.options = [(_label(row, names), row["point"]) for row in rows]
        self.point.value = rows[0]["point"] if rows else None
        self.use.disabled = not rows
        self.servers.text = _servers_text(found)
        self._tell(None)
        if self._plan is not None:
            self.show(self._plan)

    @guarded
    def _draw(self, _change: Any) -> None:
        if self.found is None:
            return
        self._figure.show(PICTURES[self.picture.value](self.found))

    @guarded
    def _tell(self, _change: Any) -> None:
        if self.found is None or self.point.value is None:
            self._why.value = ""
            return
        try:
            self._why.value = self.found.why(self.point.value)
        except WorkbenchError as error:
            self._why.value = html.document(html.refusal_html(error))

    @guarded
    def _use(self, _button: Any) -> None:
        if self.found is None or self.point.value is None:
            return
        wanted = self.found.scenario_of(self.point.value)
        self.session.request(wanted)


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
