"""The front door: paste anything, see four answers, one picture, and what to do next."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import Any, TypeVar

import ipywidgets as widgets

from workbench.core.errors import WorkbenchError
from workbench.core.plan import Plan
from workbench.core.what_if.answers import Answers, answers, usual_length
from workbench.core.what_if.next_steps import GOALS, NextStep, next_step, next_steps
from workbench.omnibox import understand
from workbench.scenario import FIELDS, Scenario
from workbench.scenario.sizes import integer_value
from workbench.ui.changes import changed
from workbench.ui.door_regions import Shown, View, body, regions, views_of
from workbench.ui.door_view import DoorView
from workbench.ui.history import History
from workbench.ui.hub_first import HubFirst
from workbench.ui.labs import LABS, Labs
from workbench.ui.panels.panel import Panel, error_html
from workbench.ui.pieces import mark_stale
from workbench.ui.saved import SavedPicture
from workbench.ui.sent import length_of, object_of, one_of
from workbench.ui.session import Outcome, RecordedError, Session, guarded
from workbench.views import html
from workbench.views.door.tiles import COMMON_DEVICES, announcement
from workbench.views.summary import plan_html

Found = TypeVar("Found")


def explore(start: Plan | Scenario | None = None, **fields: Any) -> FrontDoor:
    """Return the front door for a plan or a scenario, with these fields changed.

    Works headless: its `plan`, `scenario` and `answers` are values, and its HTML is a static copy.

    >>> wb.explore(plan, tensor_parallel=2).plan.block_size
    2096
    """
    scenario = start.scenario if isinstance(start, Plan) else start or Scenario()
    return FrontDoor(scenario.replace(**fields) if fields else scenario)


class FrontDoor(SavedPicture):
    """The newest scenario, its history, and what is shown of it. Every callback only requests."""

    def __init__(self, scenario: Scenario) -> None:
        self.plan: Plan | None = None
        self.error: WorkbenchError | None = None
        self._history = History(scenario)
        self._shows = View()
        self._with_next: dict[str, Any] = {}
        self._known: tuple[Plan | None, dict[Hashable, Any]] = (None, {})
        self._actions: Mapping[str, Callable[[str, str], None]] = {
            "submit": self._submit,
            "open": lambda field, _: self._look(opened=field),
            "set": self._set,
            "view": lambda name, _: self._look(view=one_of(name, views_of(self._shows))),
            "goal": lambda name, _: self._look(goal=one_of(name, GOALS)),
            "all": lambda _arg, _text: self._look(everything=True),
            "next": self._next,
            "length": lambda _, text: self._look(opened="", length=length_of(text, self.plan)),
            "try": self._try,
            "device": lambda name, _: self._change({"device": one_of(name, COMMON_DEVICES)}),
            "apply": lambda changes, _: self._change(object_of(changes)),
            "use": lambda fields, _: self._request(Scenario.from_dict(object_of(fields))),
            "undo": lambda _arg, _text: self.undo(),
            "redo": lambda _arg, _text: self.undo(-1),
            "go": self._go,
            "pin": lambda _arg, _text: self._look(pinned=self.plan),
            "unpin": lambda _arg, _text: self._look(pinned=None, view="why"),
            "swap": self._swap,
            "reset": lambda _arg, _text: self._request(Scenario()),
            "lab": lambda title, _: self._lab(one_of(title, LABS)),
            "show_lab": self._show_lab,
        }
        self.session = Session(scenario, self._show)
        self.view = DoorView()
        self._hub_first = HubFirst(partial(self._received, self.view, _buffers=()), self._look)
        self.view.on_msg(self._clicked)
        self.labs = Labs(self.session)
        self.labs.call.on_msg(self._opened_in_a_cell)
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
        self.session.request(self._history.go(self._history.at - count))

    def show_error(self, error: RecordedError) -> None:
        """Show an unhandled exception in place, and grey out what is stale after it."""
        with self.view.hold_sync():
            self.view.regions = {**self.view.regions, "error": error_html(error)}
            self.view.stale = True
        mark_stale(True, self.labs)

    def _kept(self) -> tuple[str, str]:
        if self.error is not None:
            return f"no block size: {self.error}", html.document(html.refusal_html(self.error))
        return ("", "") if self.plan is None else (repr(self.plan), plan_html(self.plan))

    @guarded
    def _first_show(self, scenario: Scenario) -> None:
        self.session.request(scenario)

    @guarded
    def _clicked(self, _widget: Any, message: Mapping[str, Any], _buffers: Any) -> None:
        self._hub_first.take(message)

    @guarded
    def _received(self, _widget: Any, message: Mapping[str, Any], _buffers: Any) -> None:
        """Do what was clicked; an invalid input is answered in place, and changes nothing."""
        action = self._actions.get(str(message.get("do")), lambda _arg, _text: None)
        text = str(message.get("text", ""))
        try:
            action(str(message.get("arg", "")), text)
        except WorkbenchError as error:
            # a new text takes the place of the last one; a model for a log belongs to that log
            gone = {"understood": None} if action == self._submit and not text else {}
            self._look(complaint=html.refusal_html(error), **gone)

    def _submit(self, text: str, model: str) -> None:
        found = understand(text, self.scenario, model.strip() or None)
        is_fatal = found.log is not None and found.log.failure is not None
        view = found.question.topic.view if found.question else self._shows.view
        shows = {"understood": found, "view": "start" if is_fatal else view}
        if found.length_tokens is not None:
            shows["length"] = found.length_tokens
        if found.scenario is None:
            self._look(**shows)
        else:
            self._request(found.scenario, **shows)

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
        def change(present: Scenario) -> Scenario:
            scenario, self._with_next["notices"] = changed(present, changes, self.session.evaluate)
            return scenario

        self.session.change(change)

    def _request(self, scenario: Scenario, **shows: Any) -> None:
        """Request a scenario. shows: how it is looked at as soon as it is shown."""
        self._with_next |= shows
        self.session.request(scenario)

    def _next(self, number: str, _text: str) -> None:
        found = () if self.plan is None else self._next_steps(self.plan)
        offered = dict(zip(map(str, range(len(found))), found, strict=True))
        self._change(offered[one_of(number, offered)].changes)

    def _try(self, _arg: str, text: str) -> None:
        """Show what another block size would lead to; the scenario stays."""
        plan, tokens = self.plan, integer_value(text)
        if plan is not None and isinstance(tokens, int):
            FIELDS["block_size"].kind.check("block_size", tokens, plan.settings.rules)
            step = next_step(plan, self._answers(plan), {"block_size": tokens})
            self._look(tried=(tokens, step))

    def _go(self, number: str, _text: str) -> None:
        known = map(str, range(len(self._history.visits)))
        self._request(self._history.go(int(one_of(number, tuple(known)))), opened="")

    def _swap(self, _arg: str, _text: str) -> None:
        pinned = self._shows.pinned
        if pinned is not None:
            self._request(pinned.scenario, pinned=self.plan)

    def _lab(self, title: str) -> None:
        if title == self.labs.title:
            self.labs.close()
        else:
            self.labs.open(title)
        self._draw(self.session.evaluate(self.scenario))

    def _opened_in_a_cell(self, *_message: Any) -> None:
        """Close the lab below the front door: it has a cell of its own now."""
        if self.labs.title:
            self._received(self.view, {"do": "lab", "arg": self.labs.title}, ())

    def _show_lab(self, title: str, _text: str) -> None:
        self.open(one_of(title, LABS))

    def _look(self, **changes: Any) -> None:
        """Look at the same scenario in another way."""
        self._shows = self._shows.replace(**{"complaint": "", **changes})
        self._draw(self.session.evaluate(self.scenario))

    def _show(self, outcome: Outcome) -> None:
        plan = outcome.plan
        shows, self._with_next = self._with_next, {}
        self._shows = self._shows.of_next(shows)
        self._history.visit(outcome.scenario, None if plan is None else self._answers(plan))
        self.error = outcome.error
        if plan is not None:
            self.plan = plan
            self._draw(outcome)
            self.labs.show(plan)
        elif outcome.error is not None:
            self._draw(outcome)
            self.labs.show_refusal(outcome.scenario, outcome.error)
        mark_stale(plan is None, self.labs)

    def _draw(self, outcome: Outcome) -> None:
        """Send every region as a whole, so that none can be of an older scenario."""
        plan, looks = outcome.plan, self._shows
        found = None if plan is None else self._answers(plan)
        state = Shown(
            outcome=outcome,
            answers=found,
            pinned=None if looks.pinned is None else self._answers(looks.pinned),
            steps=() if plan is None else self._next_steps(plan),
            body="" if plan is None else self._body(plan),
            looks=looks,
            history=self._history,
            lab=self.labs.title,
            legal=self._legal(outcome),
        )
        drawn = regions(state)
        with self.view.hold_sync():
            self.view.regions = drawn
            self.view.plan = "" if plan is None else plan.fingerprint
            self.view.announced = str(outcome.error) if found is None else announcement(found)
            self.view.stale = False

    def _answers(self, plan: Plan) -> Answers:
        return answers(plan, self._length(plan))

    def _length(self, plan: Plan) -> int:
        return min(self._shows.length or usual_length(plan), plan.max_model_len)

    def _next_steps(self, plan: Plan) -> tuple[NextStep, ...]:
        goal, length = self._shows.goal, self._length(plan)
        return self._once(plan, ("next", goal, length), lambda: next_steps(plan, goal, length))

    def _body(self, plan: Plan) -> str:
        pinned = self._shows.pinned
        key = ("body", self._shows.view, pinned and pinned.fingerprint)
        return self._once(plan, key, lambda: body(self._shows, plan))

    def _once(self, plan: Plan, key: Hashable, make: Callable[[], Found]) -> Found:
        """Return what was made of this very plan before, or make it; of older plans none stays."""
        known, found = self._known
        if known is not plan:
            self._known = (plan, found := {})
        if key not in found:
            found[key] = make()
        made: Found = found[key]
        return made

    def _legal(self, outcome: Outcome) -> Callable[[str, tuple[Any, ...]], tuple[Any, ...]]:
        model = outcome.model
        if model is None:
            return lambda _field, candidates: candidates
        known = self.session.legal_values(model)
        known.remember(outcome.scenario, outcome.plan)
        return lambda field, candidates: known.of(outcome.scenario, field, candidates)
