"""Base of a tab below the page figure: a title, a widget, and a method that shows a plan."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import ClassVar

import ipywidgets as widgets

from workbench.access.app_mode import shows_tracebacks
from workbench.core.errors import WorkbenchError
from workbench.core.plan import Plan
from workbench.scenario import Scenario
from workbench.ui.session import RecordedError, Session
from workbench.views.html import document, refusal_html

STALE = '<div class="wb-faint">Showing the last valid input.</div>'


class Panel:
    """One tab. `show` is called with the newest plan, and only while the tab is open.

    Callbacks of its controls use `workbench.ui.session.guarded`; their exceptions appear on top
    of this panel.
    """

    title: ClassVar[str]

    def __init__(self, session: Session) -> None:
        self.session = session
        self._error = widgets.HTML()
        self.widget = widgets.VBox([self._error])
        self.widget.add_class("wb-tab")

    def fill(self, *parts: widgets.Widget) -> None:
        """Lay `parts` out below each other."""
        self.widget.children = [self._error, *parts]

    def show(self, plan: Plan) -> None:
        """Show `plan`."""
        raise NotImplementedError

    def show_refusal(self, scenario: Scenario, error: WorkbenchError) -> None:
        """React to a refused scenario; the tab is greyed out and may stay as it is."""

    def refuse_input(self, error: WorkbenchError, *shown: widgets.DOMWidget) -> None:
        """Show why an input is invalid, and grey out the `shown` results of an older one."""
        self._error.value = document(refusal_html(error), STALE)
        for widget in shown:
            widget.add_class("wb-stale")

    def accept_input(self, *shown: widgets.DOMWidget) -> None:
        """Clear the error: what is `shown` belongs to the present inputs."""
        self.clear_error()
        for widget in shown:
            widget.remove_class("wb-stale")

    def show_error(self, error: RecordedError) -> None:
        """Show the exception of a callback of this panel."""
        self._error.value = error_html(error)

    def clear_error(self) -> None:
        """Clear the message: the last input was valid."""
        self._error.value = ""


class HtmlPanel(Panel):
    """A tab that contains only HTML of the plan."""

    def __init__(self, session: Session, render: Callable[[Plan], str]) -> None:
        super().__init__(session)
        self._render = render
        self._html = widgets.HTML()
        self.fill(self._html)

    def show(self, plan: Plan) -> None:
        """See `Panel.show`."""
        self._html.value = self._render(plan)


def error_html(error: RecordedError) -> str:
    """Return an unhandled exception, with a traceback to copy unless strangers may see it."""
    if not shows_tracebacks():
        return document(
            f'<div class="wb-error" data-workbench-error="{escape(error.callback)}"><b>✕ Internal '
            "error.</b><br>The results below are stale. Started with --show-tracebacks, the "
            "app shows the traceback.</div>"
        )
    return document(
        f'<div class="wb-error" data-workbench-error="{escape(error.callback)}">'
        f"<b>✕ {escape(error.summary)}</b><br>The results below are stale. "
        f"<details open><summary>Traceback, to copy</summary><pre>{escape(error.traceback)}"
        "</pre></details></div>"
    )
