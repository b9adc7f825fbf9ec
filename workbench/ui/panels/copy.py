"""Take the scenario away: as Python, as vLLM flags, and the log lines to compare with."""

from __future__ import annotations

import ipywidgets as widgets

from workbench.core.errors import WorkbenchError
from workbench.interop.code import scenario_code
from workbench.plan import Plan
from workbench.scenario import Scenario
from workbench.ui.copy_box import CopyBox
from workbench.ui.panels.panel import Panel
from workbench.ui.session import Session
from workbench.views import html


class CopyPanel(Panel):
    """Copy as code, copy as vLLM flags."""

    title = "Copy"

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.code, self.flags = CopyBox(label="as code"), CopyBox(label="as vLLM flags")
        self._log = widgets.HTML()
        self.fill(self.code, self.flags, self._log)

    def show(self, plan: Plan) -> None:
        """See `Panel.show`."""
        self.code.text = plan.to_code()
        self.flags.text = plan.to_vllm_command()
        self._log.value = html.document(html.log_html(plan.log_lines))

    def show_refusal(self, scenario: Scenario, error: WorkbenchError) -> None:
        """There is no plan: only the scenario itself can be taken away."""
        self.code.text = scenario_code(scenario.to_dict())
        self.flags.text = f"# {error.message}"
        self._log.value = ""
