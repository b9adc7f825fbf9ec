"""Verify the shown scenario against an installed vLLM, in a thread of its own."""

from __future__ import annotations

from functools import partial
from typing import Any

import ipywidgets as widgets

from workbench.core.plan import Plan
from workbench.core.what_if.verification import Report
from workbench.labs.jobs import PROCESSES
from workbench.scenario import Scenario
from workbench.ui.jobs import JobRunner
from workbench.ui.panels.panel import Panel
from workbench.ui.session import Session, guarded
from workbench.verify import verify
from workbench.views.verify import verification_html


class VerifyPanel(Panel):
    """A button, the Python that has vLLM, and the table of fields."""

    title = "Verify"

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.report: Report | None = None
        self._plan: Plan | None = None
        self._verified: Scenario | None = None
        self.jobs = JobRunner(self, on_end=self._ended, lane=PROCESSES)
        self.python = widgets.Text(
            description="Python",
            placeholder="this one, or the Python of an environment with vLLM",
            continuous_update=False,
            layout=widgets.Layout(width="60%"),
        )
        self.start = widgets.Button(description="Run vLLM", button_style="primary")
        self._table = widgets.HTML()
        self.fill(widgets.HBox([self.python, self.start, self.jobs.status]), self._table)
        self.start.on_click(self._start)

    def show(self, plan: Plan) -> None:
        """See `Panel.show`: the result of another scenario is greyed out."""
        self._plan = plan
        stale = self._verified is not None and self._verified != plan.scenario
        (self._table.add_class if stale else self._table.remove_class)("wb-stale")

    @guarded
    def _start(self, _button: Any) -> None:
        self.clear_error()
        if self._plan is None or self.start.disabled:
            return
        self.start.disabled = True
        scenario, python = self._plan.scenario, self.python.value.strip() or None
        self.jobs.start(
            lambda _job: verify([scenario], python),
            partial(self._show_report, scenario),
            "Running: vLLM takes some seconds to import ...",
        )

    def _ended(self) -> None:
        self.start.disabled = False

    def _show_report(self, scenario: Scenario, report: Report) -> None:
        self.report, self._verified = report, scenario
        self._table.value = verification_html(report)
        if self._plan is not None:
            self.show(self._plan)
