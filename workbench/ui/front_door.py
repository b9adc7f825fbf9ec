"""The front door: paste anything, see four answers, one picture, and what to do next."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import anywidget
import ipywidgets as widgets
from traitlets import Bool, Dict, Unicode

from workbench.access.json_text import json_or_word
from workbench.core.errors import ScenarioError, WorkbenchError, unknown_name_message
from workbench.core.plan import Plan
from workbench.core.what_if.answers import answers
from workbench.core.what_if.next_steps import GOALS, next_steps
from workbench.omnibox import understand
from workbench.scenario import FIELDS, Scenario
from workbench.ui.changes import changed
from workbench.ui.door_regions import VIEWS, Shown, View, regions
from workbench.ui.labs import LABS, Labs
from workbench.ui.panels.panel import Panel, error_html
from workbench.ui.pieces import mark_stale
from workbench.ui.session import Outcome, RecordedError, Session, guarded
from workbench.views import html
from workbench.views.door.tiles import announcement
from workbench.views.summary import plan_html

FOLDER = Path(__file__).parent
MOST_REMEMBERED = 200


def explore(start: Plan | Scenario | None = None, **fields: Any) -> FrontDoor:
    """Return the front door for a plan or a scenario, with these fields changed.

    Works headless: its `plan`, `scenario` and `answers` are values, and its HTML is a static copy.

    >>> wb.explore(plan, tensor_parallel=2).plan.block_size
    2096
    """
    scenario = start.scenario if isinstance(start, Plan) else start or Scenario()
    return FrontDoor(scenario.replace(**fields) if fields else scenario)


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


class FrontDoor:
    """The newest scenario, its history, and what is shown of it. Every callback only requests."""

    def __init__(self, scenario: Scenario) -> None:
        self.plan: Plan | None = None
        self.error: WorkbenchError | None = None
        self._history, self._at = [scenario], 0
        self._shows = View()
        self._steps: Mapping[str, Mapping[str, Any]] = {}
        self._actions: Mapping[str, Callable[[str, str], None]] = {
            "submit": self._submit,
            "open": lambda field, _: self._look(opened=field),
            "set": self._set,
            "view": lambda name, _: self._look(view=one_of(name, VIEWS)),
            "goal": lambda name, _: self._look(goal=one_of(name, GOALS)),
            "all": lambda _arg, _text: self._look(everything=True),
            "next": lambda name, _: self._change(self._steps[one_of(name, self._steps)]),
            "apply": lambda changes, _: self._change(object_of(changes)),
            "use": lambda fields, _: self._request(Scenario.from_dict(object_of(fields))),
            "undo": lambda _arg, _text: self.undo(),
            "redo": lambda _arg, _text: self.undo(-1),
            "pin": lambda _arg, _text: self._look(pinned=self.plan and answers(self.plan)),
            "unpin": lambda _arg, _text: self._look(pinned=None),
            "reset": lambda _arg, _text: self._request(Scenario()),
            "lab": lambda title, _: self._lab(one_of(title, LABS)),
        }
        self.session = Session(scenario, self._show)
        self.view = DoorView()
        self.view.on_msg(self._received)
        self.labs = Labs(self.session)
        self.widget = widgets.VBox([self.view, self.labs.widget])
        self.widget.add_class("wb-panel")
        self._first_show(scenario)

    @property
    def scenario(self) -> Scenario:
        """Newest scenario."""
        return self.session.scenario

    def submit(self, text: str, model: str = "") -> None:
        """Do what *Show* does with a pasted text. model: see `understand`."""
        self._received(self.view, {"do": "submit", "arg": text, "text": model}, ())

    def apply(self, **changes: Any) -> None:
        """Do what a card or a remedy does: change these fields."""
        self._received(self.view, {"do": "apply", "arg": json.dumps(changes)}, ())

    def set(self, field: str, text: str) -> None:
        """Do what a control does: JSON of a value that is listed, else what a person enters."""
        self._received(self.view, {"do": "set", "arg": field, "text": text}, ())

    def show_field(self, field: str) -> None:
        """Open the control of a field, or "all" of them; an empty name closes it."""
        self._received(self.view, {"do": "open", "arg": field}, ())

    def open(self, title: str) -> Panel:
        """Open the lab with this title below the front door. Errors: ValueError lists them."""
        if title in LABS and title != self.labs.title:
            self._received(self.view, {"do": "lab", "arg": title}, ())
        return self.labs.open(title)

    def undo(self, count: int = 1) -> None:
        """Go back by so many scenarios; forward for a negative number."""
        self._at = min(max(self._at - count, 0), len(self._history) - 1)
        self.session.request(self._history[self._at])

    def show_error(self, error: RecordedError) -> None:
        """Show an unhandled exception in place, and grey out what is stale after it."""
        with self.view.hold_sync():
            self.view.regions = {**self.view.regions, "error": error_html(error)}
            self.view.stale = True
        mark_stale(True, self.labs)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = self.widget._repr_mimebundle_(**kwargs) or {}
        if self.error is not None:
            bundle["text/plain"] = f"no block size: {self.error}"
            bundle["text/html"] = html.document(html.refusal_html(self.error))
        elif self.plan is not None:
            bundle["text/plain"] = repr(self.plan)
            bundle["text/html"] = plan_html(self.plan)
        return bundle

    @guarded
    def _first_show(self, scenario: Scenario) -> None:
        self.session.request(scenario)

    @guarded
    def _received(self, _widget: Any, message: Mapping[str, Any], _buffers: Any) -> None:
        """Do what was clicked; an invalid input is answered in place, and changes nothing."""
        action = self._actions.get(str(message.get("do")))
        if action is None:
            return
        try:
            action(str(message.get("arg", "")), str(message.get("text", "")))
        except WorkbenchError as error:
            self._look(complaint=html.refusal_html(error))

    def _submit(self, text: str, model: str) -> None:
        found = understand(text, self.scenario, model.strip() or None)
        if found.scenario is not None:
            self._request(found.scenario)
        is_fatal = found.log is not None and found.log.failure is not None
        self._look(understood=found, view="start" if is_fatal else self._shows.view)

    def _set(self, field: str, text: str) -> None:
        declared = FIELDS[one_of(field, FIELDS)]
        if declared.is_listed:
            value = object_of(f'{{"value": {text}}}')["value"]
        else:
            value = declared.kind.parse(field, text)
        if self._shows.opened == field:
            self._shows = self._shows.replace(opened="")
        self._change({field: value})

    def _change(self, changes: Mapping[str, Any]) -> None:
        notices: tuple[str, ...] = ()

        def change(present: Scenario) -> Scenario:
            nonlocal notices
            scenario, notices = changed(present, changes, self.session.evaluate)
            return scenario

        self.session.change(change)
        if notices:
            self._look(notices=notices)

    def _request(self, scenario: Scenario) -> None:
        self.session.request(scenario)

    def _lab(self, title: str) -> None:
        if title == self.labs.title:
            self.labs.close()
        else:
            self.labs.open(title)
        self._draw(self.session.evaluate(self.scenario))

    def _look(self, **changes: Any) -> None:
        """Look at the same scenario in another way."""
        self._shows = self._shows.replace(**{"complaint": "", **changes})
        self._draw(self.session.evaluate(self.scenario))

    def _show(self, outcome: Outcome) -> None:
        if outcome.scenario != self._history[self._at]:
            self._history = [*self._history[: self._at + 1], outcome.scenario][-MOST_REMEMBERED:]
            self._at = len(self._history) - 1
        self.error = outcome.error
        self._shows = self._shows.replace(complaint="", notices=(), everything=False)
        if outcome.plan is not None:
            self.plan = outcome.plan
            self._draw(outcome)
            self.labs.show(outcome.plan)
        elif outcome.error is not None:
            self._draw(outcome)
            self.labs.show_refusal(outcome.scenario, outcome.error)
        mark_stale(outcome.plan is None, self.labs)

    def _draw(self, outcome: Outcome) -> None:
        """Send every region as a whole, so that none can be of an older scenario."""
        plan = outcome.plan
        found = None if plan is None else answers(plan)
        steps = () if plan is None else next_steps(plan, self._shows.goal)
        shown = Shown(
            outcome=outcome,
            answers=found,
            steps=steps,
            looks=self._shows,
            can_undo=self._at > 0,
            can_redo=self._at + 1 < len(self._history),
            lab=self.labs.title,
            legal=self._legal(outcome),
        )
        drawn = regions(shown)
        self._steps = {str(number): step.changes for number, step in enumerate(steps)}
        with self.view.hold_sync():
            self.view.regions = drawn
            self.view.plan = "" if plan is None else plan.fingerprint
            self.view.announced = str(outcome.error) if found is None else announcement(found)
            self.view.stale = False

    def _legal(self, outcome: Outcome) -> Callable[[str, tuple[Any, ...]], tuple[Any, ...]]:
        model = outcome.model
        if model is None:
            return lambda _field, candidates: candidates
        known = self.session.legal_values(model)
        known.remember(outcome.scenario, outcome.plan)
        return lambda field, candidates: known.of(outcome.scenario, field, candidates)


def one_of(name: str, allowed: Collection[str]) -> str:
    """Return a name that the browser sent. Errors: ScenarioError if it is none of these."""
    if name not in allowed:
        raise ScenarioError("unknown_name", unknown_name_message("name", name, allowed))
    return name


def object_of(text: str) -> dict[str, Any]:
    """Return the JSON object that the browser sent. Errors: ScenarioError for anything else."""
    found = json_or_word(text)
    if not isinstance(found, dict):
        message = "The page sent something that is not an object. Nothing was changed."
        raise ScenarioError("wrong_type", message)
    return found
