"""The front door: what a person enters and clicks -> the scenario, and regions that show it."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Container, Mapping
from functools import partial
from typing import Any

from workbench.core.errors import WorkbenchError
from workbench.core.plan import Plan
from workbench.core.sizes import integer_value
from workbench.core.what_if.answers import Answers, answers
from workbench.core.what_if.next_steps import GOALS, NextStep, next_step, next_steps
from workbench.door.changes import changed, leads_to_a_plan, with_model
from workbench.door.explanations import PINNED, refused, stopped
from workbench.door.history import History, Visit
from workbench.door.labs import LABS
from workbench.door.logs import still
from workbench.door.once import OncePerPlan
from workbench.door.regions import Shown, View, body, regions, views_of
from workbench.door.sent import action_of, length_of, object_of, one_of, value_of
from workbench.door.session import Outcome, Session, guarded
from workbench.interop.omnibox import LINKED, understand
from workbench.scenario import FIELDS, Scenario
from workbench.views.door.tiles import COMMON_DEVICES, announcement
from workbench.views.html import BADGES, Html, join
from workbench.views.settings import in_labels

Act = Callable[[str, str], None]


class Door:
    """The newest scenario, its history, and what is shown of it. Every message only requests.

    `start` it once it can `draw`. A subclass says how regions and errors come to a screen, and what
    a lab is there.
    """

    def __init__(self, scenario: Scenario) -> None:
        self.plan: Plan | None = None
        self.error: WorkbenchError | None = None
        self.session = Session(scenario, self._show)
        self.session.length_of = self._length
        self._shows = View()
        self._release_is_chosen = scenario.rules != FIELDS["rules"].default
        self._history = History(Visit(scenario, release_is_chosen=self._release_is_chosen))
        self._with_next: dict[str, Any] = {}
        self._once = OncePerPlan()
        self._actions: Mapping[str, Act] = {
            "submit": self._submit,
            "ask": self._submit,
            "open": lambda field, _: self._look(opened=field),
            "set": self._set,
            "view": lambda name, _: self._look(view=one_of(name, views_of(self._shows))),
            "goal": lambda name, _: self._look(goal=one_of(name, GOALS)),
            "all": lambda _arg, _text: self._look(everything=True),
            "next": self._next,
            "length": lambda _, text: self._count(length_of(text, self.plan)),
            "try": self._try,
            "device": lambda name, _: self._change({"device": one_of(name, COMMON_DEVICES)}),
            "apply": lambda changes, _: self._change(object_of(changes)),
            "use": lambda fields, _: self._request(Scenario.from_dict(object_of(fields))),
            "undo": lambda _arg, _text: self.undo(),
            "redo": lambda _arg, _text: self.undo(-1),
            "go": self._go,
            "pin": lambda _arg, _text: self._look(pinned=self.plan, is_pinned_by_text=False),
            "unpin": lambda _arg, _text: self._look(pinned=None, view="why"),
            "swap": self._swap,
            "reset": lambda _arg, _text: self._reset(),
            "lab": lambda title, _: self.switch_lab(one_of(title, LABS)),
            "show_lab": lambda title, _: self.show_lab(one_of(title, LABS)),
        }

    @abstractmethod
    def draw(self, drawn: Mapping[str, str], fingerprint: str, announced: str) -> None:
        """Show regions, of the plan with this fingerprint; announced: the answers in a sentence."""

    @abstractmethod
    def switch_lab(self, title: str) -> None:
        """Open a lab, or close the one that is open."""

    @abstractmethod
    def show_lab(self, title: str) -> None:
        """Open a lab that an answer refers to."""

    @abstractmethod
    def lab_links(self) -> Html:
        """Return what is shown of the labs."""

    def follow(self, outcome: Outcome) -> None:
        """Show a scenario in whatever follows the front door."""

    @property
    def scenario(self) -> Scenario:
        """Newest scenario."""
        return self.session.scenario

    @guarded
    def start(self) -> None:
        """Show the first scenario."""
        self.session.request(self.scenario)

    @guarded
    def receive(self, message: Mapping[str, Any]) -> None:
        """Do what was clicked; an invalid input is answered in place, and changes nothing."""
        do, arg, text = action_of(message)
        action = self._actions.get(do, lambda _arg, _text: None)
        try:
            action(arg, text)
        except WorkbenchError as error:
            # a new text takes the place of the last one; a model for a log belongs to that log
            gone = {"understood": None} if action == self._submit and not text else {}
            works = partial(leads_to_a_plan, present=self.scenario, evaluate=self.session.evaluate)
            shown = "" if self.plan is None or error.code in BADGES else still(self.scenario)
            said = join(refused(error, text=arg, works=works), shown)
            self._look(complaint=said, notices=(), **gone)

    def submit(self, text: str, model: str = "") -> None:
        """Do what *Show* does with a pasted text. model: see `understand`."""
        self.receive({"do": "submit", "arg": text, "text": model})

    def apply(self, **changes: Any) -> None:
        """Do what a card or a remedy does: change these fields."""
        self.receive({"do": "apply", "arg": json.dumps(changes)})

    def set(self, field: str, text: str) -> None:
        """Do what a control does: JSON of a value that is listed, else what a person enters."""
        self.receive({"do": "set", "arg": field, "text": text})

    def show_field(self, field: str) -> None:
        """Open the control of a field, or "all" of them; an empty name closes it."""
        self.receive({"do": "open", "arg": field})

    def undo(self, count: int = 1) -> None:
        """Go back by so many scenarios; forward for a negative number."""
        self._return_to(self._history.go(self._history.at - count))

    def redraw(self) -> None:
        """Draw the present scenario again."""
        self._draw(self.session.evaluate(self.scenario))

    def _submit(self, text: str, model: str) -> None:
        found = understand(text, self.scenario, model.strip() or None)
        is_fatal = found.log is not None and found.log.failure is not None
        view = (found.question.topic.view if found.question else "") or self._shows.view
        shows: dict[str, Any] = {"understood": found, "view": "start" if is_fatal else view}
        if found.load.length_tokens is not None or found.kind == LINKED:
            shows["length"] = found.load.length_tokens
        else:
            shows["keeps_length"] = self._shows.length is not None
        if self._shows.is_pinned_by_text:
            shows |= {"pinned": None, "is_pinned_by_text": False}
        if found.scenario is None:
            self._look(**shows)
        else:
            self._note_release(found.said, found.scenario)
            evaluate, is_chosen = self.session.evaluate, self._release_is_chosen
            known = [
                with_model(self.scenario, one, found.said, evaluate, release_is_chosen=is_chosen)
                for one in found.scenarios
            ]
            first, (scenario, notices) = known[0][0], known[-1]
            shows["understood"] = found.of_scenarios([one for one, _notices in known])
            if first != scenario:
                shows |= self._pinned(first, by_text=found.kind != LINKED)
            shows["notices"] = (*shows.get("notices", ()), *notices)
            self._request(scenario, **shows)

    def _pinned(self, scenario: Scenario, *, by_text: bool) -> dict[str, Any]:
        """Show A of a comparison, so that Undo leads to it; return how the other one is shown."""
        self._request(scenario)
        found = self.session.evaluate(scenario)
        if found.plan is not None:
            return {"pinned": found.plan, "is_pinned_by_text": by_text, "view": PINNED}
        return {"pinned": None, "notices": (f"A cannot be shown: {in_labels(str(found.error))}",)}

    def _set(self, field: str, text: str) -> None:
        value = value_of(field, text)
        if self._shows.opened == field:
            self._shows = self._shows.replace(opened="")
        self._change({field: value})

    def _change(self, changes: Mapping[str, Any]) -> None:
        def change(present: Scenario) -> Scenario:
            scenario, self._with_next["notices"] = changed(
                present, changes, self.session.evaluate, release_is_chosen=self._release_is_chosen
            )
            self._note_release(changes, scenario)
            return scenario

        self.session.change(change)

    def _note_release(self, said: Container[str], scenario: Scenario) -> None:
        """Note whether a person chose the release, so that it stays with the next model."""
        if "rules" in said:
            self._release_is_chosen = scenario.rules != FIELDS["rules"].default

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
        self._return_to(self._history.go(int(one_of(number, tuple(known)))))

    def _return_to(self, visit: Visit) -> None:
        self._release_is_chosen = visit.release_is_chosen
        self._request(visit.scenario, opened="", length=visit.length, understood=visit.understood)

    def _count(self, length: int | None) -> None:
        """Count requests of another length, of the same scenario."""
        self._request(self.scenario, opened="", length=length, understood=self._shows.understood)

    def _swap(self, _arg: str, _text: str) -> None:
        pinned = self._shows.pinned
        if pinned is not None:
            self._request(pinned.scenario, pinned=self.plan)

    def _reset(self) -> None:
        self._release_is_chosen = False
        self._request(Scenario(), length=None, understood=None, pinned=None)

    def _look(self, **changes: Any) -> None:
        """Look at the same scenario in another way."""
        counted = self._shows.length
        self._shows = self._shows.replace(**{"complaint": "", **changes})
        self.redraw()
        if self._shows.length != counted:
            self.follow(self.session.evaluate(self.scenario))

    def _show(self, outcome: Outcome) -> None:
        plan = outcome.plan
        shows, self._with_next = self._with_next, {}
        self._shows = self._shows.of_next(shows, outcome.scenario)
        self._history.visit(
            Visit(
                outcome.scenario,
                self._shows.length,
                self._release_is_chosen,
                self._shows.understood,
                None if plan is None else self._now(plan),
            )
        )
        self.error = outcome.error
        self.plan = plan or self.plan
        self._draw(outcome)
        self.follow(outcome)

    def _draw(self, outcome: Outcome) -> None:
        """Draw every region as a whole, so that none can be of an older scenario."""
        plan, looks = outcome.plan, self._shows
        found = None if plan is None else self._now(plan)
        state = Shown(
            outcome=outcome,
            answers=found,
            pinned=None if looks.pinned is None else self._answers(looks.pinned),
            steps=() if plan is None else self._next_steps(plan),
            body="" if plan is None else self._body(plan),
            looks=looks,
            history=self._history,
            labs=self.lab_links(),
            legal=self.session.legal_of(outcome),
        )
        announced = in_labels(str(outcome.error)) if found is None else announcement(found)
        self.draw(regions(state), "" if plan is None else plan.fingerprint, announced)

    def _answers(self, plan: Plan) -> Answers:
        return answers(plan, self._length(plan))

    def _now(self, plan: Plan) -> Answers:
        return stopped(self._answers(plan), self._shows.stops)

    def _length(self, plan: Plan) -> int:
        return self._shows.length_of(plan)

    def _next_steps(self, plan: Plan) -> tuple[NextStep, ...]:
        goal, length = self._shows.goal, self._length(plan)
        return self._once(plan, ("next", goal, length), lambda: next_steps(plan, goal, length))

    def _body(self, plan: Plan) -> str:
        pinned = self._shows.pinned
        looks = (self._shows.view, *map(str, self._shows.stops))
        key = ("body", *looks, pinned and pinned.fingerprint, self._length(plan))
        return self._once(plan, key, lambda: body(self._shows, plan))
