"""Export the scenario: as Python, as a command, as files, with the log lines to compare with."""

from html import escape
from pathlib import Path

import ipywidgets as widgets

from workbench.access.app_mode import output_path
from workbench.access.files import write_file
from workbench.core.errors import ScenarioError, WorkbenchError
from workbench.core.plan import Plan
from workbench.door.session import Session
from workbench.interop.commands.code import scenario_code
from workbench.interop.exchange import commands_of, report_of, save_design
from workbench.scenario import Scenario
from workbench.ui.panels.panel import Panel
from workbench.ui.pieces import CopyBox, button, grid, text_box
from workbench.views import html


class ExportPanel(Panel):
    """Copy as code, copy for vLLM, save as a design that opens again and a page to read."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.code, self.flags = CopyBox(label="workbench code"), CopyBox(label="vllm serve")
        self.python = CopyBox(label="vLLM in Python")
        self._log, self._saved = widgets.HTML(), widgets.HTML()
        tip = "Save two files of this name, .json and .html, next to the notebook."
        self.name = text_box("Save as", "design", tip=tip)
        tip = "Save a design for wb.load_design, and a page that needs no kernel."
        self.save = button("Save design and report", tip)
        below = (grid([self.name, self.save]), self._saved, self._log)
        self.fill(self.code, self.flags, self.python, *below)
        self.press(self.save, self._save)

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
        self.code.text = scenario_code(scenario.stated())
        self.flags.text = self.python.text = f"# {error.message}"
        self.save.disabled = True
        self._saved.value = self._log.value = ""

    def _save(self) -> None:
        if self._plan is None:
            return
        try:
            message = _save_files(self._plan, self.name.value.strip() or "design")
        except ScenarioError as error:
            self._saved.value = html.document(html.refusal_html(error))
            return
        except OSError as error:
            message = f"✕ {error.filename} cannot be written: {error.strerror}."
        self._saved.value = html.document(f"<p>{escape(message)}</p>")


def _save_files(plan: Plan, name: str) -> str:
    """Write both files; return what happened. Errors: AppRefusal, FileError, OSError."""
    design, page = (output_path(name + ending, ending) for ending in (".json", ".html"))
    if taken := [str(path) for path in (design, page) if path.exists()]:
        return f"✕ {' and '.join(taken)} already exists: choose another name."
    save_design(plan.scenario, design, Path(name).name)
    write_file(page, report_of(plan, Path(name).name))
    return f"✓ Written: {design} and {page}"
