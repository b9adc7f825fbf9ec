"""Base of a lab, or of a part of one: controls, and what they show."""

import threading
from collections.abc import Callable, Iterable
from typing import Any

import ipywidgets as widgets

from workbench.core.errors import WorkbenchError
from workbench.core.plan import Plan
from workbench.door.session import RecordedError, Session, error_html, guarded
from workbench.scenario import Scenario
from workbench.ui.live_figure import LiveFigure
from workbench.ui.pieces import (
    ProgramChanges,
    apply_button,
    close_tree,
    mark_stale,
    replace_children,
    widget_of,
)
from workbench.views.html import document, refusal_html

STALE = '<div class="wb-faint">Showing the last valid input.</div>'
Shown = Iterable[tuple[Any, Any]]
"""(part, what it shows now): HTML, a figure or None for none, widgets of a box."""


class Panel:
    """`show` is called with the newest plan, and only while the lab is open.

    A panel lays its parts out with `fill`, wires its controls with `watch` and `press`, and yields
    in `_draw` what its parts show. An exception of a callback appears on top of the panel.
    """

    def __init__(self, session: Session) -> None:
        self.session = session
        self.by_program = ProgramChanges()
        self._plan: Plan | None = None
        self._lock = threading.RLock()  # a plan comes on one thread, an input on another
        self._error = self._refusal = widgets.HTML()
        self._drawn: set[Any] = set()
        self._closing: list[Callable[[], None]] = []
        self.widget = widgets.VBox([self._error])

    def when_closed(self, then: Callable[[], None]) -> None:
        """Call `then` when the panel is closed."""
        self._closing.append(then)

    def close(self) -> None:
        """Stop what runs, and close every widget. A panel in a panel is closed by that one."""
        for then in self._closing:
            then()
        close_tree(self.widget)

    def fill(self, *parts: Any) -> None:
        """Lay parts out below each other; one with a `widget` of its own is shown by that."""
        self.widget.children = [widget_of(part) for part in (self._error, *parts)]

    def watch(self, *controls: widgets.ValueWidget, then: Callable[[], None] | None = None) -> None:
        """Call `then`, by default `redraw`, when a person has changed one of the controls."""
        for control in controls:
            control.observe(lambda _change: self._changed(then or self.redraw), names="value")

    def press(self, button: widgets.Button, then: Callable[[], None]) -> None:
        """Call `then` when the button is pressed.

        Without the lock: what changes the scenario waits for other tabs, which may wait for it.
        """
        button.on_click(lambda _button: self._pressed(then))

    def apply_button(self, name: str, tip: str, then: Callable[[], None]) -> widgets.Button:
        """Return a button, in the look of a remedy, that calls `then` when it is pressed."""
        made = apply_button(name, tip)
        self.press(made, then)
        return made

    @guarded
    def _changed(self, then: Callable[[], None]) -> None:
        with self._lock:
            if not self.by_program:
                then()

    @guarded
    def _pressed(self, then: Callable[[], None]) -> None:
        then()

    def show(self, plan: Plan) -> None:
        """Show `plan`."""
        with self._lock:
            self._plan = plan
            self.redraw()

    def show_refusal(self, scenario: Scenario, error: WorkbenchError) -> None:
        """React to a refused scenario; the tab is greyed out and may stay as it is."""

    def _draw(self, plan: Plan) -> Shown:
        """Yield what the parts show. Errors: WorkbenchError for an input that is refused."""
        return ()

    def redraw(self, draw: Callable[[Plan], Shown] | None = None, *parts: Any) -> None:
        """Show what `draw` yields; what a refused input keeps it from drawing is greyed out.

        draw: of only these parts, where it is not that of the whole panel.
        """
        if self._plan is None:
            return
        drawn, refusal = set(), ""
        try:
            for part, content in (draw or self._draw)(self._plan):
                put(part, content)
                drawn.add(part)
        except WorkbenchError as error:
            older = (set(parts) or self._drawn) - drawn
            mark_stale(True, *older)
            refusal = document(refusal_html(error), STALE if older else "")
        mark_stale(False, *drawn)
        self._drawn |= drawn
        self.clear_error()
        self._refusal.value = refusal

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

    def _draw(self, plan: Plan) -> Shown:
        yield self._html, self._render(plan)


def put(part: Any, content: Any) -> None:
    """Show HTML, a figure (None: take it off the screen), or the children of a box."""
    if isinstance(part, widgets.Box):
        replace_children(part, content)
    elif not isinstance(part, LiveFigure):
        part.value = content
    elif content is None:
        part.hide()
    else:
        part.show(content)
