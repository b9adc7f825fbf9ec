"""The front door in Jupyter: one widget that draws it, and the labs below."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import anywidget
import ipywidgets as widgets
from IPython.core.getipython import get_ipython
from traitlets import Bool, Dict, Unicode

from workbench.access.app_mode import app_mode
from workbench.core.errors import WorkbenchError
from workbench.core.what_if.answers import Answers
from workbench.door.door import Door
from workbench.door.labs import LABS, LESSON, lab_links, learn
from workbench.door.session import Outcome, RecordedError, error_html, guarded
from workbench.interop.omnibox import hub_ids
from workbench.interop.said import said_words
from workbench.labs.jobs import HUB, launch
from workbench.models.load import load_model
from workbench.scenario import FIELDS, Scenario
from workbench.scenario.start import Start, is_words, scenario_from
from workbench.ui.labs import Labs
from workbench.ui.panels.panel import Panel
from workbench.ui.pieces import mark_stale
from workbench.ui.saved import SavedPicture
from workbench.views import html
from workbench.views.door.tiles import answer_list
from workbench.views.html import Html, join, tag
from workbench.views.summary import plan_html


def explore(start: Start = None, **fields: Any) -> FrontDoor:
    """Return the front door for a plan, a scenario or a model, with these fields changed.

    A text of several words is entered into its box: a `vllm serve` command, a description, a log,
    as in `wb.explore("vllm serve Qwen/Qwen3.5-4B -tp 2")`. Works headless: its `plan`, `scenario`
    and `answers` are values, and its HTML is a static copy.

    >>> wb.explore(plan, tensor_parallel=2).plan.block_size
    2096
    """
    if isinstance(start, str) and is_words(start):
        door = FrontDoor(Scenario(**fields))
        door.submit(start)
        return door
    return FrontDoor(scenario_from(start, **fields))


class FrontDoor(Door, SavedPicture):
    """The front door as a widget, of which a notebook keeps a picture."""

    def __init__(self, scenario: Scenario) -> None:
        super().__init__(scenario)
        self.view = DoorView()
        self._hub_first = HubFirst(self.receive, self._look)
        self.view.on_msg(self._clicked)
        self.labs = Labs(self.session)
        self.labs.call.on_msg(self._opened_in_a_cell)
        self.widget = widgets.VBox([self.view, self.labs.widget])
        self.widget.add_class("wb-panel")
        self.start()

    @property
    def answers(self) -> Answers | None:
        """The four answers of the newest plan; None while there is none."""
        return None if self.plan is None else self._now(self.plan)

    def open(self, title: str) -> Panel:
        """Open the lab with this title below the front door. Errors: ValueError lists them."""
        if title in LABS and title != self.labs.title:
            self.receive({"do": "lab", "arg": title})
        return self.labs.open(title)

    def draw(self, drawn: Mapping[str, str], fingerprint: str, announced: str) -> None:
        """Send every region to the browser at once."""
        with self.view.hold_sync():
            self.view.regions = dict(drawn)
            self.view.plan = fingerprint
            self.view.announced = announced
            self.view.stale = False

    def follow(self, outcome: Outcome) -> None:
        """Show the scenario in the labs."""
        if outcome.plan is not None:
            self.labs.show(outcome.plan)
        elif outcome.error is not None:
            self.labs.show_refusal(outcome.scenario, outcome.error)
        mark_stale(outcome.plan is None, self.labs)

    def switch_lab(self, title: str) -> None:
        """Open a lab below the front door, or close the open one."""
        if title == self.labs.title:
            self.labs.close()
        else:
            self.labs.open(title)
        self.redraw()

    def show_lab(self, title: str) -> None:
        """Open a lab that an answer refers to."""
        self.open(title)

    def lab_links(self) -> Html:
        """Return a link for every lab, and to the lessons."""
        return lab_links(self.labs.title, lesson())

    def show_error(self, error: RecordedError) -> None:
        """Show an unhandled exception in place, and grey out what is stale after it."""
        with self.view.hold_sync():
            self.view.regions = {**self.view.regions, "error": error_html(error)}
            self.view.stale = True
        mark_stale(True, self.labs)

    def _kept(self) -> tuple[str, str]:
        if self.error is not None:
            return f"no block size: {self.error}", html.document(html.refusal_html(self.error))
        if self.plan is None or self.answers is None:
            return "", ""
        answered = join(
            tag("p", said_words(self.scenario, FIELDS)), answer_list(self.answers), learn(lesson())
        )
        return repr(self.plan), plan_html(self.plan, answered)

    def _ipython_display_(self) -> None:
        """See `SavedPicture`; an app keeps nothing."""
        self.view.keeps = app_mode() is None
        self.view.addressed = not self.view.keeps
        super()._ipython_display_()

    def keep(self) -> None:
        """See `SavedPicture.keep`; labs in other cells keep theirs, too."""
        super().keep()
        self.labs.keep()

    @guarded
    def _clicked(self, _widget: Any, message: Mapping[str, Any], _buffers: Any) -> None:
        if message.get("do") == "keep":
            self.keep()
        else:
            self._hub_first.take(message)

    def _opened_in_a_cell(self, *_message: Any) -> None:
        """Close the lab below the front door: it has a cell of its own now."""
        if self.labs.title:
            self.receive({"do": "lab", "arg": self.labs.title})


def lesson() -> str:
    """Return where the first lesson is for a notebook; nothing where none is found or served."""
    if app_mode() is not None or get_ipython() is None:
        return ""
    return next((one for one in (LESSON, f"notebooks/{LESSON}") if Path(one).is_file()), "")


FOLDER = Path(__file__).parents[1] / "door"


class DoorView(anywidget.AnyWidget):
    """The drawing: regions of HTML that Python made, and the messages of what was clicked."""

    _esm = FOLDER / "front_door.js"
    _css = FOLDER / "front_door.css"
    regions = Dict().tag(sync=True)
    """Name of a region -> its HTML."""
    plan = Unicode().tag(sync=True)
    """Fingerprint of the plan that the regions show."""
    announced = Unicode().tag(sync=True)
    """The answers in a sentence, for screen readers."""
    stale = Bool().tag(sync=True)
    """Whether the answers are those of an older scenario."""
    addressed = Bool().tag(sync=True)
    """Whether the page's address holds what is shown, so that it outlives a reload."""
    keeps = Bool().tag(sync=True)
    """Whether a notebook keeps a picture: it is made when nothing has changed for a while."""
    arrives = Bool(True).tag(sync=True)
    """Whether it was never shown: its first view is scrolled to."""


Message = Mapping[str, Any]


class HubFirst:
    """Passes messages of the browser on; one that names a model of the hub after it was read.

    do: takes a message. look: shows an HTML `complaint`.
    """

    def __init__(self, do: Callable[[Message], None], look: Callable[..., None]) -> None:
        self._do, self._look = do, look
        self._newest: Message = {}

    def take(self, message: Message) -> None:
        """Do what a message says, now or later; a newer entry takes the place of a waiting one."""
        arg = message.get("arg")
        entered = {"submit": arg, "ask": arg, "set": message.get("text")}
        text = entered.get(str(message.get("do")))
        if text is not None:
            self._newest = message
        if named := hub_ids(str(text or "")):
            waiting = f"Reading config.json of {' and '.join(named)} from the hub ..."
            self._look(complaint=html.note(waiting))
            launch(partial(self._read, named, message), HUB)
        else:
            self._do(message)

    def _read(self, named: tuple[str, ...], message: Message) -> None:
        for hub_id in named:
            with suppress(WorkbenchError):  # it occurs again below, and is shown
                load_model(hub_id)
        if self._newest is message:
            self._do(message)
