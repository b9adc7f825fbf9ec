"""Verify the shown scenario against an installed vLLM, in a thread of its own."""

from functools import partial

import ipywidgets as widgets

from workbench.core.plan import Plan
from workbench.core.what_if.verification import Report
from workbench.door.session import Session
from workbench.labs.jobs import PROCESSES
from workbench.scenario import Scenario
from workbench.ui.jobs import Done, JobRunner, Work
from workbench.ui.panels.panel import Panel
from workbench.ui.pieces import button, line, mark_stale, text_box
from workbench.verify import verify
from workbench.views.verify import verification_html


class VerifyPanel(Panel):
    """A button, the Python that has vLLM, and the table of fields."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._verified: Scenario | None = None
        self.jobs = JobRunner(self, on_end=self._ended, lane=PROCESSES)
        self.python = text_box("Python", "", "this one, or the Python of an environment with vLLM")
        self.python.layout.flex = "1 1 330px"
        self.python.layout.max_width = "min(640px, calc(100% - 4px))"
        self.start = button("Run vLLM", button_style="primary")
        self._table = widgets.HTML()
        self.fill(line(self.python, self.start, self.jobs.status), self._table)
        busy = "Running: vLLM takes some seconds to import ..."
        self.jobs.start_with(self.start, self._verify, busy)

    def show(self, plan: Plan) -> None:
        """See `Panel.show`: the result of another scenario is greyed out."""
        self._plan = plan
        mark_stale(self._verified not in (None, plan.scenario), self._table)

    def _verify(self) -> tuple[Work, Done] | None:
        if self._plan is None or self.start.disabled:
            return None
        self.start.disabled = True
        scenario, python = self._plan.scenario, self.python.value.strip() or None
        return lambda _job: verify([scenario], python), partial(self._show_report, scenario)

    def _ended(self) -> None:
        self.start.disabled = False

    def _show_report(self, scenario: Scenario, report: Report) -> None:
        self._verified = scenario
        self._table.value = verification_html(report)
        if self._plan is not None:
            self.show(self._plan)
