"""The labs below the front door: made when opened first; the open one is kept up to date."""

import threading
from collections.abc import Callable
from pkgutil import resolve_name
from typing import Protocol

import ipywidgets as widgets
from IPython.core.getipython import get_ipython

from workbench.access.app_mode import app_mode
from workbench.core.errors import WorkbenchError
from workbench.core.plan import Plan
from workbench.door.labs import LABS
from workbench.door.session import Session
from workbench.scenario import Scenario
from workbench.ui.panels.panel import Panel
from workbench.ui.pieces import CopyBox, SaveTables, display
from workbench.views.html import document, note, tag

CALL_LABEL = "the call of this lab"


class Following(Protocol):
    """What follows the scenario."""

    def show(self, plan: Plan) -> None:
        """Show a plan."""

    def show_refusal(self, scenario: Scenario, error: WorkbenchError) -> None:
        """React to a refused scenario."""


class Follower(Following, Protocol):
    """What follows the scenario in a cell of its own."""

    def keep(self) -> None:
        """Let notebooks keep what is shown now."""


Showing = Callable[[Following], None]


class Labs:
    """At most one open lab; the others keep their inputs. Labs in other cells follow along."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._panels: dict[str, Panel] = {}
        self._followers: list[Follower] = []
        self._lock = threading.RLock()  # a lab is opened on one thread, a plan comes on another
        self._newest: Showing = lambda _panel: None
        self._shown: dict[str, Showing] = {}
        self.title = ""
        """Of the open lab; empty: none."""
        self.call = CopyBox(label=CALL_LABEL, opens=True)
        display(self.call, shown=False)
        self.about = widgets.HTML()
        self.widget = widgets.VBox([self.about, self.call])
        self.widget.add_class("wb-labs")

    def open(self, title: str) -> Panel:
        """Open a lab and close the others. Errors: ValueError lists the titles."""
        if title not in LABS:
            raise ValueError(f"no lab {title!r}; labs: {', '.join(LABS)}")
        with self._lock:
            if title not in self._panels:
                panel = self._panels[title] = new_panel(title, self._session)
                panel.widget.add_class("wb-tab")
                self.widget.children = (*self.widget.children, panel.widget)
            self.call.text = self._call(title)
            self.about.value = about_html(title)
            self._switch(title)
            self._show_open()
            return self._panels[title]

    def close(self) -> None:
        """Take the open lab off the screen."""
        with self._lock:
            self._switch("")

    def follow(self, follower: Follower) -> None:
        """Show what is shown now, and everything from now on, in `follower` as well."""
        with self._lock:
            self._followers.append(follower)
            self._newest(follower)

    def leave(self, follower: Follower) -> None:
        """Show nothing more in `follower`."""
        with self._lock:
            if follower in self._followers:
                self._followers.remove(follower)

    def keep(self) -> None:
        """Let notebooks keep what labs in other cells show now."""
        for follower in tuple(self._followers):
            follower.keep()

    def show(self, plan: Plan) -> None:
        """Show `plan` in the open lab now, in the others when they are opened."""
        self._each(lambda panel: panel.show(plan))

    def show_refusal(self, scenario: Scenario, error: WorkbenchError) -> None:
        """Pass the refusal to every lab."""
        self._each(lambda panel: panel.show_refusal(scenario, error))

    def _call(self, title: str) -> str:
        """Return the code of a lab that follows this front door, by its name or that of its output.

        Without a shell, the names are those of the documentation.
        """
        shell = get_ipython()
        held = {"wb": None} if shell is None else shell.user_ns
        imported = "" if "wb" in held else "import workbench as wb\n"
        named = [
            name
            for name, value in held.items()
            if getattr(value, "__dict__", {}).get("labs") is self and name.strip("_")
        ]
        door = min(named, key=lambda name: name.startswith("_"), default="door")
        return f"{imported}wb.lab.{LABS[title].name}({door})"

    def _switch(self, title: str) -> None:
        self.title = title
        display(self.about, shown=bool(title))
        display(self.call, shown=bool(title) and app_mode() is None)
        for name, panel in self._panels.items():
            display(panel.widget, shown=name == title)

    def _each(self, showing: Showing) -> None:
        with self._lock:
            self._newest = showing
            self._show_open()
            for follower in tuple(self._followers):
                showing(follower)

    def _show_open(self) -> None:
        if self.title and self._shown.get(self.title) is not self._newest:
            self._shown[self.title] = self._newest
            self._newest(self._panels[self.title])


def about_html(title: str) -> str:
    """Return what a lab shows, and what a GPU adds to that."""
    kind = LABS[title]
    return document(note(tag("b", title), f": {kind.line} {kind.with_gpu}"))


def new_panel(title: str, session: Session) -> Panel:
    """Return the panel of a lab, which shows nothing yet."""
    panel: Panel = resolve_name(f"workbench.ui.panels.{LABS[title].panel}")(session)
    panel.widget.children = (*panel.widget.children, SaveTables(name=LABS[title].name))
    return panel
