"""Export the scenario: as Python, as vLLM flags, as files, with the log lines to compare with."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

import ipywidgets as widgets

from workbench.access.app_mode import AppRefusal, output_path
from workbench.core.errors import WorkbenchError
from workbench.core.plan import Plan
from workbench.exchange import commands_of, report_of, save_design
from workbench.interop.commands.code import scenario_code
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
            tooltip="Save two files of this name, .json and .html, next to the notebook.",
            continuous_update=False,
        )
        self.save = widgets.Button(
            description="Save design and report",
            tooltip="Save a design for wb.load_design, and a page that needs no kernel.",
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
        commands = commands_of(plan)
        self.code.text, self.flags.text = commands["workbench"], commands["vllm serve"]
        self.python.text = commands["vLLM in Python"]
        self._plan, self.save.disabled = plan, False
        self._saved.value = ""
        self._log.value = html.document(html.log_html(plan.log_lines))

    def show_refusal(self, scenario: Scenario, error: WorkbenchError) -> None:
        """Show the scenario alone: without a plan there is nothing else to copy."""
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
            message = f"✕ {' and '.join(taken)} already exists: choose another name."
        else:
            try:
                save_design(self._plan.scenario, design, Path(name).name)
                page.write_text(report_of(self._plan, Path(name).name), encoding="utf-8")
                message = f"✓ Written: {design} and {page}"
            except OSError as error:
                message = f"✕ {error.filename} cannot be written: {error.strerror}."
        self._saved.value = html.document(f"<p>{escape(message)}</p>")
