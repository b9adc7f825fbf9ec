"""Block tables: launch the real kernels on a batch, step by step, and see every number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

import ipywidgets as widgets

from workbench.core.errors import ScenarioError
from workbench.core.plan import Plan
from workbench.core.tables.batch_grammar import BatchRequest, parse_batch
from workbench.core.tables.step import TableStep
from workbench.door.session import Session
from workbench.kernels.inspection import INSPECTED_MODULES, TARGETS, inspect_kernels
from workbench.labs.tables.mistakes import MISTAKES, make_mistake
from workbench.ui.jobs import Done, JobRunner, Work
from workbench.ui.live_figure import LiveFigure
from workbench.ui.panels.panel import Panel, Shown, put
from workbench.ui.pieces import button, dropdown, grid, line, text_box
from workbench.views import html
from workbench.views.inspection import inspection_html
from workbench.views.tables.figure import block_tables, slot_map
from workbench.views.tables.text import damage_html, step_html

if TYPE_CHECKING:
    from workbench.kernels.block_table.api import PathName
    from workbench.labs.tables.session import TableSession

BUTTONS = {
    "Start": "Admit the whole batch and run one step.",
    "Decode 1": "Decode one more token of every request.",
    "Finish": "End the chosen request and free its blocks.",
    "Move": "Move the chosen request to a free row.",
    "Shrink": "Schedule only the first half; the rows of the others become 0.",
    "Grow back": "Schedule all requests again.",
    "Admit": "Add the request entered on the right.",
    "Run it": "Run the kernels with this mistake and see where tokens land.",
    "Compile": "Show registers, spills and copy widths for a target; nothing is run.",
}
"""Name -> tip."""
START, MISTAKE, COMPILE = ALWAYS = ("Start", "Run it", "Compile")
"""Buttons that need no running batch."""
ASSEMBLY_CHARACTERS, WIDE_PX = 40_000, 430
DEFAULT_BATCH, DEFAULT_NEWCOMER = "2q700_3q1s3000", "q100"
PATHS = {
    "fast: two launches": "fast",
    "faithful: as in vLLM 0.23": "faithful",
    "faithful: as in vLLM 0.33": "faithful-0.33",
}
EXPLAINED = (
    "<p>Real Triton kernels on the groups of this plan: block ids are staged, applied, gathered at "
    "kernel-block granularity and turned into slots. A batch is written in vLLM's grammar: "
    "<code>2q700_3q1s3000</code> is two prompts of 700 tokens and three requests that decode one "
    "token after 2,999. Press <b>Start</b>.</p>"
)


class BlockTablesPanel(Panel):
    """Controls on top, then device and verdict, then the two pictures."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._tables: TableSession | None = None
        self._step: TableStep | None = None
        self.jobs = JobRunner(self, on_end=self._enable)
        self.batch = text_box("Batch", DEFAULT_BATCH)
        self.path = dropdown("Path", PATHS.items())
        self.group, self.row = dropdown("Group", ()), dropdown("Request", ())
        self.newcomer = widgets.Text(
            value=DEFAULT_NEWCOMER, continuous_update=False, layout={"width": "90px"}
        )
        self.mistake = dropdown("Failure demo", MISTAKES)
        targets = [(target.title, name) for name, target in TARGETS.items()]
        self.target = dropdown("Target", targets, "sm_90")
        self.buttons = {name: button(name, tip) for name, tip in BUTTONS.items()}
        self._status = widgets.HTML(html.document(EXPLAINED))
        self._damage, self._compiled = widgets.HTML(), widgets.HTML()
        self._figures = self._tables_figure, self._slots_figure = LiveFigure(), LiveFigure()
        steps = [made for name, made in self.buttons.items() if name not in ALWAYS]
        self.fill(
            grid([self.batch, self.path, self.buttons[START]]),
            line(self.row, *steps, self.newcomer),
            self.jobs.status,
            self._status,
            self.group,
            *self._figures,
            grid([self.mistake, self.buttons[MISTAKE]], WIDE_PX),
            self._damage,
            grid([self.target, self.buttons[COMPILE]]),
            self._compiled,
        )
        for name, made in self.buttons.items():
            self.jobs.start_with(made, partial(self._prepare, name))
        self.watch(self.group)
        self._enable()

    def show(self, plan: Plan) -> None:
        """See `Panel.show`. Nothing is launched: the tables of another plan are dropped."""
        if self._plan is not None and plan.cache == self._plan.cache:
            self._plan = plan
            return
        self._tables = self._step = None
        self._damage.value = ""
        with self.by_program:
            groups = () if plan.cache is None else plan.cache.groups
            self.group.options = [
                (f"{index}: {group.spec.kind.removesuffix('Spec')}", index)
                for index, group in enumerate(groups)
            ]
            attention = [i for i, group in enumerate(groups) if not group.spec.is_mamba]
            if attention:
                self.group.value = attention[0]
        super().show(plan)
        self._enable()

    def _draw(self, plan: Plan) -> Shown:
        step, group = self._step, self.group.value or 0
        yield self._status, step_html(step) if step else html.document(EXPLAINED)
        yield self._tables_figure, block_tables(step, group) if step else None
        yield self._slots_figure, slot_map(step, group) if step else None

    def _prepare(self, name: str) -> tuple[Work, Done]:
        work, done = self._work(name)
        self._enable(running=True)
        return lambda _job: work(), done

    def _work(self, name: str) -> tuple[Callable[[], Any], Done]:
        """Return the action of a button, to be run in the launching thread, and what shows it."""
        plan = self._plan
        assert plan is not None
        if name == COMPILE:
            return partial(_compiled, self.target.value), partial(put, self._compiled)
        if name not in ALWAYS:
            return self._step_job(name), self._landed
        batch = parse_batch(self.batch.value)
        if name == START:
            return partial(self._start, plan, batch, self.path.value), self._landed
        return partial(_damage, plan, batch, self.mistake.value), partial(put, self._damage)

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

    def _landed(self, step: TableStep) -> None:
        self._step = step
        self.redraw()

    def _enable(self, *, running: bool = False) -> None:
        """Enable only the buttons whose action is possible now."""
        has_cache = self._plan is not None and self._plan.kept_cache is not None
        rows = () if self._tables is None else self._tables.live_rows
        if not running and tuple(self.row.options) != rows:
            self.row.options = rows
            self.row.value = rows[0] if rows else None
        self.row.disabled = not rows
        for name, made in self.buttons.items():
            made.disabled = running or not has_cache or (name not in ALWAYS and not rows)


def _damage(plan: Plan, batch: Sequence[BatchRequest], mistake: str) -> str:
    return damage_html(make_mistake(plan, batch, mistake).damage)


def _compiled(target: str) -> str:
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
    return inspection_html(reports) + html.document(listings)
