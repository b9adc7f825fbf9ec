"""Block tables: launch the real kernels on a batch, step by step, and see every number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets

from workbench.core.errors import ScenarioError
from workbench.core.plan import Plan
from workbench.core.tables.batch_grammar import BatchRequest, parse_batch
from workbench.core.tables.step import TableStep
from workbench.kernels.inspection import (
    INSPECTED_MODULES,
    TARGETS,
    inspect_kernels,
)
from workbench.labs.tables.mistakes import MISTAKES, make_mistake
from workbench.ui.jobs import JobRunner
from workbench.ui.live_figure import LiveFigure
from workbench.ui.panels.panel import Panel
from workbench.ui.pieces import button
from workbench.ui.session import Session, guarded
from workbench.views import html
from workbench.views.inspection import inspection_html
from workbench.views.tables.figure import block_tables, slot_map
from workbench.views.tables.text import damage_html, step_html

if TYPE_CHECKING:
    from workbench.kernels.block_table.api import PathName
    from workbench.labs.tables.session import TableSession

STEP_BUTTONS = ("Decode 1", "Finish", "Move", "Shrink", "Grow back", "Admit")
ALWAYS = frozenset({"Start", "Trigger the mistake", "Compile"})
"""Buttons that need no running batch."""
ASSEMBLY_CHARACTERS = 40_000
DEFAULT_BATCH, DEFAULT_NEWCOMER = "2q700_3q1s3000", "q100"
PATHS = {"fast: two launches": "fast", "faithful: as in vLLM 0.23": "faithful"}
EXPLAINED = (
    "<p>Real Triton kernels on the groups of this plan: block ids are staged, applied, gathered at "
    "kernel-block granularity and turned into slots. A batch is written in vLLM's grammar: "
    "<code>2q700_3q1s3000</code> is two prompts of 700 tokens and three requests that decode one "
    "token after 2,999. Press <b>Start</b>.</p>"
)


@dataclass(frozen=True)
class JobText:
    """The result of a job that is not a step."""

    html: str
    is_damage: bool


Work = Callable[[], TableStep | JobText]


class BlockTablesPanel(Panel):
    """Controls on top, then device and verdict, then the two pictures."""

    title = "Block tables"

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._plan: Plan | None = None
        self._tables: TableSession | None = None
        self._step: TableStep | None = None
        self.jobs = JobRunner(self, on_end=self._enable)
        self.batch = widgets.Text(value=DEFAULT_BATCH, description="Batch", continuous_update=False)
        self.path = widgets.Dropdown(options=PATHS, description="Path")
        self.group = widgets.Dropdown(description="Group")
        self.row = widgets.Dropdown(description="Request", layout={"width": "160px"})
        self.newcomer = widgets.Text(
            value=DEFAULT_NEWCOMER, continuous_update=False, layout={"width": "90px"}
        )
        self.mistake = widgets.Dropdown(options=tuple(MISTAKES), description="Mistake")
        self.buttons = {
            name: button(name, tip)
            for name, tip in {
                "Start": "Admit the whole batch and run one step.",
                "Decode 1": "Decode one more token of every request.",
                "Finish": "End the chosen request and free its blocks.",
                "Admit": "Add the request entered on the right.",
                "Move": "Move the chosen request to a free row.",
                "Shrink": "Schedule only the first half; the rows of the others become 0.",
                "Grow back": "Schedule all requests again.",
                "Trigger the mistake": "Run the kernels with a mistake and see where tokens land.",
                "Compile": "Show registers, spills and copy widths for a target; nothing is run.",
            }.items()
        }
        self._status = widgets.HTML(html.document(EXPLAINED))
        self._tables_figure, self._slots_figure = LiveFigure(), LiveFigure()
        self._figures = (self._tables_figure, self._slots_figure)
        self._damage, self._compiled = widgets.HTML(), widgets.HTML()
        self.target = widgets.Dropdown(
            options=[(target.title, name) for name, target in TARGETS.items()],
            value="sm_90",
            description="Target",
        )
        steps = [self.buttons[name] for name in STEP_BUTTONS]
        steps.append(self.newcomer)
        self.fill(
            widgets.HBox([self.batch, self.path, self.buttons["Start"]]),
            widgets.HBox([self.row, *steps]),
            self.jobs.status,
            self._status,
            self.group,
            *(figure.widget for figure in self._figures),
            widgets.HBox([self.mistake, self.buttons["Trigger the mistake"]]),
            self._damage,
            widgets.HBox([self.target, self.buttons["Compile"]]),
            self._compiled,
        )
        for name, pressed in self.buttons.items():
            pressed.on_click(lambda _button, name=name: self._clicked(name))
        self.group.observe(self._draw_again, names="value")
        self._enable()

    def show(self, plan: Plan) -> None:
        """See `Panel.show`. Nothing is launched: the tables of another plan are dropped."""
        if self._plan is not None and plan.cache == self._plan.cache:
            self._plan = plan
            return
        self._plan, self._tables, self._step = plan, None, None
        self._status.value = html.document(EXPLAINED)
        self._damage.value = ""
        for figure in self._figures:
            figure.hide()
        groups = () if plan.cache is None else plan.cache.groups
        self.group.options = [
            (f"{index}: {group.spec.kind.removesuffix('Spec')}", index)
            for index, group in enumerate(groups)
        ]
        attention = [i for i, group in enumerate(groups) if not group.spec.is_mamba]
        if attention:
            self.group.value = attention[0]
        self._enable()

    @guarded
    def _clicked(self, name: str) -> None:
        self.clear_error()
        try:
            work = self._work(name)
        except ScenarioError as error:
            self.jobs.refuse(error)
            return
        self._enable(running=True)
        self.jobs.start(lambda _job: work(), self._landed)

    def _work(self, name: str) -> Work:
        """Return the action of a button, to be run in the launching thread."""
        plan, path = self._plan, self.path.value
        assert plan is not None
        if name == "Compile":
            target = self.target.value
            return lambda: _compiled(target)
        if name not in ALWAYS:
            return self._step_job(name)
        batch, mistake = parse_batch(self.batch.value), self.mistake.value
        if name == "Start":
            return lambda: self._start(plan, batch, path)
        return lambda: _make_mistake(plan, batch, mistake)

    def _step_job(self, name: str) -> Callable[[], TableStep]:
        """Return the next step of the running batch."""
        tables, row = self._tables, self.row.value
        assert tables is not None
        newcomer = parse_batch(self.newcomer.value) if name == "Admit" else ()
        if len(newcomer) > 1:
            raise ScenarioError(
                "batch_not_readable",
                f"Invalid request {self.newcomer.value[:40]!r}. Expected one request, for example "
                f"{DEFAULT_NEWCOMER}, and not {len(newcomer)}.",
                field="batch",
            )
        steps: dict[str, Callable[[], TableStep]] = {
            "Decode 1": tables.decode,
            "Shrink": tables.shrink,
            "Grow back": tables.grow_back,
            "Finish": lambda: tables.finish(row),
            "Move": lambda: tables.move(row),
            "Admit": lambda: tables.admit(newcomer[0]),
        }
        return steps[name]

    def _start(self, plan: Plan, batch: Sequence[BatchRequest], path: PathName) -> TableStep:
        from workbench.labs.tables.session import TableSession

        tables = TableSession(plan, batch, path)
        step = tables.launch()
        self._tables = tables
        return step

    def _landed(self, result: TableStep | JobText) -> None:
        if isinstance(result, TableStep):
            self._step = result
            self._status.value = step_html(result)
            self._draw()
        elif result.is_damage:
            self._damage.value = result.html
        else:
            self._compiled.value = result.html

    @guarded
    def _draw_again(self, _change: Any) -> None:
        if self._step is not None:
            self._draw()

    def _draw(self) -> None:
        assert self._step is not None
        group = self.group.value or 0
        self._tables_figure.show(block_tables(self._step, group))
        self._slots_figure.show(slot_map(self._step, group))

    def _enable(self, *, running: bool = False) -> None:
        """Enable only the buttons whose action is possible now."""
        has_cache = self._plan is not None and self._plan.cache is not None
        rows = () if self._tables is None else self._tables.live_rows
        if not running and tuple(self.row.options) != rows:
            self.row.options = rows
            self.row.value = rows[0] if rows else None
        for name, pressed in self.buttons.items():
            pressed.disabled = running or not has_cache or (name not in ALWAYS and not rows)


def _make_mistake(plan: Plan, batch: Sequence[BatchRequest], mistake: str) -> JobText:
    return JobText(damage_html(make_mistake(plan, batch, mistake).damage), is_damage=True)


def _compiled(target: str) -> JobText:
    reports = [
        report
        for module in INSPECTED_MODULES["block-table"]
        for report in inspect_kernels(module, [target])
    ]
    listings = "".join(
        f"<details><summary>{escape(report.kernel)}: {report.instructions:,} instructions</summary>"
        f'<pre class="wb-code">{escape(report.assembly[:ASSEMBLY_CHARACTERS])}</pre></details>'
        for report in reports
    )
    return JobText(inspection_html(reports) + html.document(listings), is_damage=False)
