"""Block tables: launch the real kernels on a batch, step by step, and see every number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets

from workbench.core.errors import ScenarioError
from workbench.core.tables.batch_grammar import BatchRequest, parse_batch
from workbench.core.tables.block_pool import PoolIsEmptyError
from workbench.core.tables.step import TableStep
from workbench.kernels.block_table.errors import BlockTableError
from workbench.kernels.inspection import (
    INSPECTED_MODULES,
    TARGETS,
    InspectionError,
    inspect_kernels,
)
from workbench.kernels.mode import TritonModeError
from workbench.plan import Plan
from workbench.run.launches import launch
from workbench.run.table_mistakes import MISTAKES, make_mistake
from workbench.ui.live_figure import LiveFigure
from workbench.ui.panels.panel import Panel
from workbench.ui.pieces import button
from workbench.ui.session import Session, guarded
from workbench.views import html
from workbench.views.block_table_figure import block_tables, slot_map
from workbench.views.block_table_text import damage_html, step_html
from workbench.views.inspection import inspection_html

if TYPE_CHECKING:
    from workbench.kernels.block_table.api import PathName
    from workbench.run.table_session import TableSession

STEP_BUTTONS = ("Decode 1", "Finish", "Move", "Shrink", "Grow back", "Admit")
ALWAYS = frozenset({"Start", "Make the mistake", "Compile"})
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
class Told:
    """What a job has to say that is no step."""

    html: str
    is_damage: bool


Job = Callable[[], TableStep | Told]


class BlockTablesPanel(Panel):
    """Controls on top, then where it ran and whether it is right, then the two pictures."""

    title = "Block tables"

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._plan: Plan | None = None
        self._tables: TableSession | None = None
        self._step: TableStep | None = None
        self.pending: Future[TableStep | Told] | None = None
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
                "Start": "Admit the whole batch and run one step",
                "Decode 1": "One more token for every request",
                "Finish": "End the chosen request; its blocks are handed out again",
                "Admit": "Add the request entered on the right",
                "Move": "Move the chosen request to a free row",
                "Shrink": "Schedule only the first half; the others wait, their rows become 0",
                "Grow back": "Schedule all requests again",
                "Make the mistake": "Run the kernels with a mistake and see where tokens land",
                "Compile": "Registers, spills and widths of copies for a target; nothing is run",
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
            self._status,
            self.group,
            *(figure.widget for figure in self._figures),
            widgets.HBox([self.mistake, self.buttons["Make the mistake"]]),
            self._damage,
            widgets.HBox([self.target, self.buttons["Compile"]]),
            self._compiled,
        )
        for name, pressed in self.buttons.items():
            pressed.on_click(lambda _button, name=name: self._clicked(name))
        self.group.observe(self._draw_again, names="value")
        self._enable()

    def show(self, plan: Plan) -> None:
        """See `Panel.show`. Nothing is launched: what ran before belonged to another plan."""
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
            job = self._job(name)
        except ScenarioError as error:
            self._error.value = html.document(html.refusal_html(error))
            return
        self._status.value = html.document("<p>Running ...</p>")
        self._enable(running=True)
        self.pending = launch(job)
        self.pending.add_done_callback(self._landed)

    def _job(self, name: str) -> Job:
        """What a button does, to be run in the launching thread."""
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
        """The next step of the running batch."""
        tables, row = self._tables, self.row.value
        assert tables is not None
        newcomer = parse_batch(self.newcomer.value) if name == "Admit" else ()
        if len(newcomer) > 1:
            raise ScenarioError(
                "batch_not_readable",
                f"One request is admitted at a time, for example {DEFAULT_NEWCOMER}; "
                f"{self.newcomer.value[:40]!r} is {len(newcomer)}.",
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
        from workbench.run.table_session import TableSession

        tables = TableSession(plan, batch, path)
        step = tables.start()
        self._tables = tables
        return step

    @guarded
    def _landed(self, done: Future[TableStep | Told]) -> None:
        """In the launching thread: show what came, or why nothing did."""
        from workbench.run.table_session import TableSessionError

        refused = (
            InspectionError,
            TableSessionError,
            PoolIsEmptyError,
            BlockTableError,
            TritonModeError,
            ScenarioError,
        )
        try:
            result = done.result()
        except refused as error:
            self._error.value = html.document(
                f'<div class="wb-problem"><b>✕ not done</b> {escape(str(error))}</div>'
            )
            self._status.value = "" if self._step is None else step_html(self._step)
            self._enable()
            return
        except BaseException:
            self._status.value = "" if self._step is None else step_html(self._step)
            self._enable()
            raise
        if not isinstance(result, TableStep):
            place = self._damage if result.is_damage else self._compiled
            place.value = result.html
            self._status.value = "" if self._step is None else step_html(self._step)
        else:
            self._step = result
            self._status.value = step_html(result)
            self._draw()
        self._enable()

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
        """Only what can be done now can be pressed."""
        has_cache = self._plan is not None and self._plan.cache is not None
        rows = () if self._tables is None else self._tables.live_rows
        if not running and tuple(self.row.options) != rows:
            self.row.options = rows
            self.row.value = rows[0] if rows else None
        for name, pressed in self.buttons.items():
            pressed.disabled = running or not has_cache or (name not in ALWAYS and not rows)


def _make_mistake(plan: Plan, batch: Sequence[BatchRequest], mistake: str) -> Told:
    return Told(damage_html(make_mistake(plan, batch, mistake)), is_damage=True)


def _compiled(target: str) -> Told:
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
    return Told(inspection_html(reports) + html.document(listings), is_damage=False)
