"""Problems as badges, each with buttons that apply a remedy that was tried."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ipywidgets as widgets

from workbench.core.errors import ScenarioError, WorkbenchError
from workbench.core.plan import Plan
from workbench.core.remedies import Remedy
from workbench.ui.pieces import apply_button, replace_children
from workbench.views import html


class ProblemList:
    """The problems of the newest scenario, and of the last input."""

    def __init__(self, apply: Callable[[dict[str, Any]], None]) -> None:
        self._apply = apply
        self._input_error = widgets.HTML()
        self._list = widgets.VBox()
        self.widget = widgets.VBox([self._input_error, self._list])

    def show(self, plan: Plan, failure: str = "") -> None:
        """Show the problems of a plan, or that there is none.

        failure: HTML of an error with which vLLM did not start, which a plan without an error
        must not contradict silently.
        """
        self.clear_input_error()
        entries: list[widgets.Widget] = []
        for problem in plan.problems:
            entries.append(widgets.HTML(html.document(html.problem_html(problem))))
            entries.append(self._buttons(plan.remedies(problem)))
        if failure and not plan.errors:
            entries.insert(0, widgets.HTML(html.document(failure)))
        if not entries:
            good = '<div class="wb-good">✓ No start-up problem found for these settings.</div>'
            entries = [widgets.HTML(html.document(good))]
        replace_children(self._list, entries)

    def show_refusal(self, error: WorkbenchError, remedies: Sequence[Remedy]) -> None:
        """Show why there is no plan at all."""
        self.clear_input_error()
        card = widgets.HTML(html.document(html.refusal_html(error)))
        replace_children(self._list, [card, self._buttons(remedies)])

    def show_input_error(self, error: ScenarioError) -> None:
        """Show why an input is invalid; the last plan and the input stay."""
        note = '<div class="wb-faint">Showing the last valid settings.</div>'
        self._input_error.value = html.document(html.refusal_html(error), note)
        self._list.layout.display = "none"

    def clear_input_error(self) -> None:
        """Clear the message: the input is valid again."""
        self._input_error.value = ""
        self._list.layout.display = None

    def _buttons(self, remedies: Sequence[Remedy]) -> widgets.HBox:
        return widgets.HBox(
            [self._button(remedy) for remedy in remedies],
            layout=widgets.Layout(flex_flow="row wrap"),
        )

    def _button(self, remedy: Remedy) -> widgets.Button:
        return apply_button(
            f"Apply {remedy.text}",
            f"Tested: {remedy.plan!r}",
            lambda _button: self._apply(dict(remedy.changes)),
        )
