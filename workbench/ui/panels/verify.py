"""Ask an installed vLLM about the scenario that is shown, off the thread that shows it."""

from __future__ import annotations

import threading
from typing import Any

import ipywidgets as widgets

from workbench.core.errors import WorkbenchError
from workbench.core.what_if.live_check import Report
from workbench.plan import Plan
from workbench.scenario import Scenario
from workbench.ui.panels.panel import Panel
from workbench.ui.session import Session, guarded
from workbench.verify import verify
from workbench.views import html
from workbench.views.verify import live_check_html


class VerifyPanel(Panel):
    """A button, the Python that has vLLM, and the table of fields."""

    title = "Live check"

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.report: Report | None = None
        self._plan: Plan | None = None
        self._asked: Scenario | None = None
        self._thread: threading.Thread | None = None
        self.python = widgets.Text(
            description="Python",
            placeholder="this one; or the Python of an environment that has vLLM",
            continuous_update=False,
            layout=widgets.Layout(width="60%"),
        )
        self.start = widgets.Button(description="Ask vLLM", button_style="primary")
        self.progress = widgets.HTML()
        self._table = widgets.HTML()
        self.fill(widgets.HBox([self.python, self.start, self.progress]), self._table)
        self.start.on_click(self._start)

    def show(self, plan: Plan) -> None:
        """See `Panel.show`: the answer about another scenario is greyed out."""
        self._plan = plan
        stale = self._asked is not None and self._asked != plan.scenario
        (self._table.add_class if stale else self._table.remove_class)("wb-stale")

    def wait(self, timeout_s: float = 300.0) -> bool:
        """For tests and cells: wait until vLLM has answered; whether it has."""
        if self._thread is None:
            return True
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @guarded
    def _start(self, _button: Any) -> None:
        self.clear_error()
        if self._plan is None or self.start.disabled:
            return
        self.start.disabled = True
        self.progress.value = "Asking: vLLM takes some seconds to import ..."
        scenario, python = self._plan.scenario, self.python.value.strip() or None
        self._thread = threading.Thread(target=self._run, args=(scenario, python), daemon=True)
        self._thread.start()

    @guarded
    def _run(self, scenario: Scenario, python: str | None) -> None:
        try:
            self.report = verify([scenario], python)
        except WorkbenchError as error:
            self._error.value = html.document(html.refusal_html(error))
            return
        finally:
            self.start.disabled = False
            self.progress.value = ""
        self._asked = scenario
        self._table.value = live_check_html(self.report)
        if self._plan is not None:
            self.show(self._plan)
