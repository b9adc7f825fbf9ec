"""Take the scenario away: as Python, as vLLM flags, as files, and the log lines to compare with."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

import ipywidgets as widgets

from workbench.access.app_mode import AppRefusal, output_path
from workbench.core.errors import WorkbenchError
from workbench.exchange import commands_of, report_of, save_design
from workbench.interop.code import scenario_code
from workbench.plan import Plan
from workbench.scenario import Scenario
from workbench.ui.copy_box import CopyBox
from workbench.ui.panels.panel import Panel
from workbench.ui.session import Session, guarded
from workbench.views import html


class CopyPanel(Panel):
    """Copy as code, copy for vLLM, save as a design that opens again and a page to read."""

    title = "Copy"

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.code, self.flags = CopyBox(label="as code"), CopyBox(label="as vLLM flags")
        self.python = CopyBox(label="as vLLM in Python")
        self._log, self._saved = widgets.HTML(), widgets.HTML()
        self._plan: Plan | None = None
        self.name = widgets.Text(
            value="design",
            description="Save as",
            tooltip="Two files of this name beside the notebook: .json and .html",
            continuous_update=False,
        )
        self.save = widgets.Button(
            description="Save design and report",
            tooltip="The design opens again with wb.load_design, the page needs no kernel",
            layout=widgets.Layout(width="auto"),
        )
        self.save.on_click(self._save)
        self.fill(
            self.code,
            self.flags,
            self.python,
            widgets.HBox([self.name, self.save], layout=widgets.Layout(flex_flow="row wrap")),
            self._saved,
            self._log,
        )

    def show(self, plan: Plan) -> None:
        """See `Panel.show`."""
        told = commands_of(plan)
        self.code.text, self.flags.text = told["workbench"], told["vllm serve"]
        self.python.text = told["vLLM in Python"]
        self._plan, self.save.disabled = plan, False
        self._saved.value = ""
        self._log.value = html.document(html.log_html(plan.log_lines))

    def show_refusal(self, scenario: Scenario, error: WorkbenchError) -> None:
        """There is no plan: only the scenario itself can be taken away."""
        self.code.text = scenario_code(scenario.to_dict())
        self.flags.text = self.python.text = f"# {error.message}"
        self.save.disabled = True
        self._saved.value = self._log.value = ""

    @guarded
    def _save(self, _button: Any) -> None:
        if self._plan is None:
            return
        name = self.name.value.strip() or "design"
        try:
            design, page = (output_path(name + ending, ending) for ending in (".json", ".html"))
        except AppRefusal as error:
            self._saved.value = html.document(html.refusal_html(error))
            return
        taken = [str(path) for path in (design, page) if path.exists()]
        if taken:
            told = f"✕ {' and '.join(taken)} is there already: choose another name."
        else:
            try:
                save_design(self._plan.scenario, design, Path(name).name)
                page.write_text(report_of(self._plan, Path(name).name), encoding="utf-8")
                told = f"✓ Written: {design} and {page}"
            except OSError as error:
                told = f"✕ {error.filename} cannot be written: {error.strerror}."
        self._saved.value = html.document(f"<p>{escape(told)}</p>")
