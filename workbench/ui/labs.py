"""The labs below the front door: made when opened first; the open one is kept up to date."""

import threading
from collections.abc import Callable
from pkgutil import resolve_name

import ipywidgets as widgets

from workbench.core.errors import WorkbenchError
from workbench.core.plan import Plan
from workbench.scenario import Scenario
from workbench.ui.panels.panel import Panel
from workbench.ui.pieces import display
from workbench.ui.session import Session

LABS = {
    "Bytes of a page": "pages:PagesPanel",
    "Groups and capacity": "capacity:CapacityPanel",
    "Prefix hits": "hits:HitsPanel",
    "Offload and transfer": "offload:OffloadPanel",
    "Chunks": "chunks:ChunksPanel",
    "Block tables": "block_tables:BlockTablesPanel",
    "Flex attention": "flex.panel:FlexPanel",
    "Backends by TP": "backends:backends_panel",
    "Versions": "versions:VersionsPanel",
    "Verify": "verify:VerifyPanel",
    "Tuning": "sweeps.panel:TuningPanel",
    "Copy": "copy:CopyPanel",
}
"""Title -> where its panel is made, in the order of the links; plotly and torch come with some."""

Showing = Callable[[Panel], None]


class Labs:
    """At most one open lab; the others keep their inputs."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._panels: dict[str, Panel] = {}
        self._lock = threading.RLock()  # a lab is opened on one thread, a plan comes on another
        self._newest: Showing = lambda _panel: None
        self._shown: dict[str, Showing] = {}
        self.title = ""
        """Of the open lab; empty: none."""
        self.widget = widgets.VBox()
        self.widget.add_class("wb-labs")

    def open(self, title: str) -> Panel:
        """Open a lab and close the others. Errors: ValueError lists the titles."""
        if title not in LABS:
            raise ValueError(f"no lab {title!r}; labs: {', '.join(LABS)}")
        with self._lock:
            if title not in self._panels:
                panel = self._panels[title] = _made(title, self._session)
                panel.widget.add_class("wb-tab")
                self.widget.children = (*self.widget.children, panel.widget)
            self._switch(title)
            self._show_open()
            return self._panels[title]

    def close(self) -> None:
        """Take the open lab off the screen."""
        with self._lock:
            self._switch("")

    def show(self, plan: Plan) -> None:
        """Show `plan` in the open lab now, in the others when they are opened."""
        self._each(lambda panel: panel.show(plan))

    def show_refusal(self, scenario: Scenario, error: WorkbenchError) -> None:
        """Pass the refusal to every lab."""
        self._each(lambda panel: panel.show_refusal(scenario, error))

    def _switch(self, title: str) -> None:
        self.title = title
        for name, panel in self._panels.items():
            display(panel.widget, shown=name == title)

    def _each(self, showing: Showing) -> None:
        with self._lock:
            self._newest = showing
            self._show_open()

    def _show_open(self) -> None:
        if self.title and self._shown.get(self.title) is not self._newest:
            self._shown[self.title] = self._newest
            self._newest(self._panels[self.title])


def _made(title: str, session: Session) -> Panel:
    panel: Panel = resolve_name(f"workbench.ui.panels.{LABS[title]}")(session)
    return panel
