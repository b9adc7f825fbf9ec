"""What a tab below the page figure is: a title, a widget, and how it shows a plan."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import ClassVar

import ipywidgets as widgets

from workbench.access.app_mode import shows_tracebacks
from workbench.core.errors import WorkbenchError
from workbench.plan import Plan
from workbench.scenario import Scenario
from workbench.ui.session import RecordedError, Session
from workbench.views.html import document, refusal_html

STALE = '<div class="wb-faint">Shown below: the last valid input.</div>'


class Panel:
    """One tab. `show` is called with the newest plan, and only while the tab is open.

    Callbacks of own controls wear `workbench.ui.session.guarded`; what they raise appears on top
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
        """There is no plan; the tab is greyed out and may stay as it is."""

    def refuse_input(self, error: WorkbenchError, *shown: widgets.DOMWidget) -> None:
        """An own input cannot be used: say why, and grey out what is `shown` of an older one."""
        self._error.value = document(refusal_html(error), STALE)
        for widget in shown:
            widget.add_class("wb-stale")

    def accept_input(self, *shown: widgets.DOMWidget) -> None:
        """The own inputs are used: what is `shown` is of them."""
        self.clear_error()
        for widget in shown:
            widget.remove_class("wb-stale")

    def show_error(self, error: RecordedError) -> None:
        """What a callback of this panel raised."""
        self._error.value = error_html(error)

    def clear_error(self) -> None:
        """The last input of this panel was fine."""
        self._error.value = ""


class HtmlPanel(Panel):
    """A tab that is nothing but HTML made from the plan."""

    def __init__(self, session: Session, render: Callable[[Plan], str]) -> None:
        super().__init__(session)
        self._render = render
        self._html = widgets.HTML()
        self.fill(self._html)

    def show(self, plan: Plan) -> None:
        """See `Panel.show`."""
        self._html.value = self._render(plan)


def error_html(error: RecordedError) -> str:
    """An unhandled exception, with a traceback to copy unless strangers may see it."""
    if not shows_tracebacks():
        return document(
            f'<div class="wb-error" data-workbench-error="{escape(error.callback)}"><b>✕ This did '
            "not work.</b><br>What is shown below is stale. Started with --show-tracebacks, the "
            "app shows why.</div>"
        )
    return document(
        f'<div class="wb-error" data-workbench-error="{escape(error.callback)}">'
        f"<b>✕ {escape(error.summary)}</b><br>What is shown below is stale. "
        f"<details open><summary>Traceback, to copy</summary><pre>{escape(error.traceback)}"
        "</pre></details></div>"
    )
