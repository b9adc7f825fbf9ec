"""The tabs below the figure; the open one is kept up to date, the others when opened."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import ipywidgets as widgets

from workbench.core.errors import WorkbenchError
from workbench.core.plan import Plan
from workbench.scenario import Scenario
from workbench.ui.panels import PANELS, Panel
from workbench.ui.session import RecordedError, Session, guarded

Showing = Callable[[Panel], None]


class Tabs:
    """Every panel in a tab of its own."""

    def __init__(self, session: Session, show_error: Callable[[RecordedError], None]) -> None:
        self.session = session
        self.show_error = show_error
        self.panels = tuple(panel(session) for panel in PANELS)
        self._lock = threading.RLock()  # a tab is opened on one thread, a plan comes on another
        self._waiting: dict[int, Showing] = {}
        self.widget = widgets.Tab(
            [panel.widget for panel in self.panels],
            titles=tuple(panel.title for panel in self.panels),
            selected_index=0,
        )
        self.widget.observe(self._opened, names="selected_index")

    def show(self, plan: Plan) -> None:
        """Show `plan` in the open tab now, in the others when they are opened."""
        self._each(lambda panel: panel.show(plan))

    def show_refusal(self, scenario: Scenario, error: WorkbenchError) -> None:
        """Pass the refusal to every tab."""
        self._each(lambda panel: panel.show_refusal(scenario, error))

    def open(self, title: str) -> Panel:
        """Open the tab with this title. Errors: ValueError lists the titles."""
        titles = [panel.title for panel in self.panels]
        if title not in titles:
            raise ValueError(f"no tab {title!r}; tabs: {', '.join(titles)}")
        self.widget.selected_index = titles.index(title)
        return self.panels[titles.index(title)]

    def _each(self, showing: Showing) -> None:
        with self._lock:
            self._waiting = dict.fromkeys(range(len(self.panels)), showing)
            self._show_open()

    def _show_open(self) -> None:
        with self._lock:
            index = self.widget.selected_index
            showing = self._waiting.pop(index, None)
            if showing is not None:
                showing(self.panels[index])

    @guarded
    def _opened(self, _change: Any) -> None:
        self._show_open()
