"""A pasted start-up log, explained; and its scenario, to continue with."""

from functools import partial
from html import escape

import ipywidgets as widgets

from workbench.core.errors import WorkbenchError
from workbench.core.plan import Plan
from workbench.exchange import explain_log, from_vllm_command
from workbench.interop.commands.code import scenario_code
from workbench.interop.commands.command_line import read_command
from workbench.scenario import Scenario
from workbench.ui.panels.panel import Panel
from workbench.ui.pieces import apply_button, line, replace_children, text_box
from workbench.ui.session import Session
from workbench.views.html import document, refusal_html
from workbench.views.logs.table import failure_html, log_html, scenario_html

HINT = (
    "Paste the start-up log of vLLM, or a `vllm serve` command. For a file: "
    "workbench explain-log FILE"
)
MAX_COMMAND = 20_000
"""A text of more characters is not a command."""
MACHINE = (
    *("platform", "device", "compute_capability", "rules", "device_memory_bytes"),
    *("torch_version", "entry_point"),
)
"""Fields of the present scenario that a command line does not contain."""


class LogPanel(Panel):
    """Text in, a table of explanations out; nothing of the text is changed or lost."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.text = widgets.Textarea(
            placeholder=HINT,
            tooltip="Paste vLLM's start-up log or a command line.",
            layout={"width": "100%", "height": "160px"},
        )
        self.model = text_box(
            "Model",
            hint="the log's",
            tip="Catalog name or path to compare with, instead of the model that the log names.",
        )
        self.explain = apply_button("Explain", "Explain every known line of this log.")
        self.clear = apply_button("Clear", "Clear the text and the table.")
        self._use, self._scenario, self._lines = line(), widgets.HTML(), widgets.HTML()
        below = (self._use, self._scenario, self._lines)
        self.fill(self.text, line(self.explain, self.clear, self.model), *below)
        self.press(self.explain, self._explain)
        self.press(self.clear, self._clear)

    def show(self, plan: Plan) -> None:
        """Ignore the plan: the log belongs to its own scenario."""

    def _explain(self) -> None:
        with self._lock:
            self._empty()
            text = self.text.value
            try:
                if _is_command(text):
                    self._show_command(text)
                else:
                    self._show_log(text)
            except WorkbenchError as error:
                self._error.value = document(refusal_html(error))

    def _show_command(self, text: str) -> None:
        present = self.session.scenario
        found = from_vllm_command(text, **{name: getattr(present, name) for name in MACHINE})
        notes = "".join(f"<li>{escape(note)}</li>" for note in found.notes)
        self._lines.value = document(
            "<p>Scenario of this command line:</p>"
            f"<pre class='wb-code'>{escape(scenario_code(found.scenario.to_dict()))}</pre>"
            f"<ul>{notes}</ul>"
        )
        self._offer({"Use this scenario": found.scenario})

    def _show_log(self, text: str) -> None:
        report = explain_log(text, self.model.value.strip() or None)
        published = report.to_dict()
        self._lines.value = log_html(published)
        self._scenario.value = scenario_html(published)
        offered = {}
        if report.scenario is not None:
            offered["Use this scenario"] = Scenario.from_dict(report.scenario)
        for scene in report.scenes:
            offered.setdefault(f"Use {scene.words}", Scenario.from_dict(scene.fields))
        self._offer(offered, failure_html(published["failure"]))

    def _offer(self, scenarios: dict[str, Scenario], failure: str = "") -> None:
        """Show a button for every scenario. failure: HTML of the error that ended its start."""
        replace_children(
            self._use,
            [
                self.apply_button(
                    label, scenario.to_json(), partial(self.session.request, scenario, failure)
                )
                for label, scenario in scenarios.items()
            ],
        )

    def _clear(self) -> None:
        with self._lock:
            self.text.value = self.model.value = ""
            self._empty()

    def _empty(self) -> None:
        self.clear_error()
        replace_children(self._use, ())
        self._lines.value = self._scenario.value = ""


def _is_command(text: str) -> bool:
    """Return whether a text is one command rather than a log that quotes one."""
    if len(text) > MAX_COMMAND or "INFO" in text or " pid=" in text:
        return False
    try:
        read_command(text)
    except WorkbenchError as error:
        return error.code != "not_a_vllm_command"
    return True
