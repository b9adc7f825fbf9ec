"""The regions of the front door: what is shown of a scenario, as HTML by the name of its place."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from workbench.core.capacity.occupancy import usual_length
from workbench.core.plan import Plan
from workbench.core.problems import Problem
from workbench.core.what_if.answers import Answers, answers
from workbench.core.what_if.next_steps import GOALS, NextStep
from workbench.door.explanations import PINNED, VIEWS, compared_with, refused
from workbench.door.history import History, Visit, changed_fields
from workbench.door.logs import explained
from workbench.door.questions import answered, other_meaning
from workbench.door.session import Outcome, evaluate
from workbench.interop.exchange import commands_of
from workbench.interop.understood import Side, Understood
from workbench.models.load import hybrids_first
from workbench.scenario import Scenario
from workbench.scenario.links import link_of
from workbench.views import html
from workbench.views.door.buttons import button, toolbar
from workbench.views.door.compared import Row, compared_table
from workbench.views.door.inspector import inspector
from workbench.views.door.next_cards import all_link, next_cards
from workbench.views.door.scenario_bar import Bar, requests_text, scenario_bar
from workbench.views.door.tiles import capacity, room_for, tiles
from workbench.views.door.trial import tried_html
from workbench.views.door.visits import HISTORY, Line, history
from workbench.views.html import Html, join, tag
from workbench.views.settings import changes_text, in_labels

Legal = Callable[[str, tuple[Any, ...]], tuple[Any, ...]]
HINT = "Command, log, config.json, model or question, such as Qwen3-Next-80B, 4 x H100, fp8 KV, 32K"


@dataclass(frozen=True, kw_only=True)
class View:
    """How a person looks at a scenario: nothing of it changes a number."""

    view: str = "why"
    goal: str = GOALS[0]
    everything: bool = False
    """Whether all next steps are shown."""
    opened: str = ""
    """Field whose control is open, "all", or nothing."""
    length: int | None = None
    """Tokens of the requests that are counted; None: as the scenario says."""
    keeps_length: bool = False
    """Whether the last text left the requests as long as they were."""
    pinned: Plan | None = None
    """A, with which every answer is compared."""
    is_pinned_by_text: bool = False
    """Whether a text compares with A, which ends with the next one."""
    tried: tuple[int, NextStep | None] | None = None
    """A block size that is tried, and what it leads to; None where it changes nothing."""
    understood: Understood | None = None
    """What the last text was taken for."""
    complaint: str = ""
    """HTML of what is wrong with the last input."""
    notices: tuple[str, ...] = ()
    """What the last change reset."""

    @property
    def stops(self) -> tuple[Problem, ...]:
        """Return what stops the last text's command before its settings count."""
        return self.understood.problems if self.understood else ()

    def length_of(self, plan: Plan) -> int:
        """Return the tokens of the requests that are counted for a plan."""
        return min(self.length or usual_length(plan), plan.max_model_len)

    def replace(self, **changes: Any) -> View:
        """Return the same with these changes; without A, nothing is compared with it."""
        found = replace(self, **changes)
        is_of_none = found.view == PINNED and found.pinned is None
        return replace(found, view="why") if is_of_none else found

    def of_next(self, shows: Mapping[str, Any], scenario: Scenario) -> View:
        """Return how the next scenario is looked at: what was said of the last one goes.

        shows: what was requested with the scenario. What a log says stays, for its other remedies,
        and so does a comparison that the scenario is part of.
        """
        found = self.understood
        stays = found is not None and (found.log or found.has_row_of(scenario))
        gone = {"complaint": "", "notices": (), "everything": False, "tried": None}
        gone["keeps_length"] = False
        kept = {"understood": found if stays else None}
        return self.replace(**{**gone, **kept, **shows})


@dataclass(frozen=True, kw_only=True)
class Shown:
    """Everything that the regions show."""

    outcome: Outcome
    answers: Answers | None
    """None where vLLM refuses the scenario."""
    pinned: Answers | None
    """Of A, at the same length."""
    steps: Sequence[NextStep]
    body: str
    """HTML of the open view."""
    looks: View
    history: History
    labs: Html
    """Links to the labs."""
    legal: Legal


GOAL_NAMES = {
    "requests": "requests per GPU",
    "hits": "shorter prefix hits",
    "padding": "less padding",
    "starts": "a sure start",
}


def regions(shown: Shown) -> dict[str, str]:
    """Return HTML by region. Without a plan the answers say why there is none."""
    outcome, plan, looks = shown.outcome, shown.outcome.plan, shown.looks
    notices = (tag("div", text, class_="wb-good") for text in looks.notices)
    length = shown.answers.length_tokens if shown.answers else 0
    bar = Bar(outcome.scenario, model=outcome.model, legal=shown.legal, opened=looks.opened)
    bar = bar._replace(length_tokens=length, is_length_set=looks.length is not None)
    found = {
        "style": html.style(),
        "error": Html(),
        "omnibox": _omnibox(hybrids_first()),
        "understood": join(Html(looks.complaint), *notices, _understood(shown)),
        "bar": scenario_bar(bar),
        "actions": _actions(shown),
    }
    if plan is not None and shown.answers is not None:
        found["answers"] = tiles(shown.answers, shown.pinned)
        found["views"] = _views(looks)
        found["body"] = tag("div", Html(shown.body), class_="wb")
        found["tried"] = tried_html(*looks.tried, plan) if looks.tried else Html()
        found["inspector"] = inspector(plan) if looks.view == "why" else Html()
        cards = next_cards(shown.steps, looks.goal, everything=looks.everything)
        every = all_link(shown.steps, looks.goal, everything=looks.everything)
        found["next"] = tag("div", _goals(looks.goal, every), cards, class_="wb-next")
    elif outcome.error is not None:
        found["answers"] = refused(outcome.error, outcome.scenario)
        found |= dict.fromkeys(("views", "body", "tried", "inspector", "next"), Html())
    found["labs"] = shown.labs
    return {name: str(text) for name, text in found.items()}


def body(looks: View, plan: Plan) -> str:
    """Return the HTML of the open view."""
    if looks.view == PINNED and looks.pinned is not None:
        return compared_with(plan, looks.pinned)
    counted = Html()
    if looks.view == "fits":
        found = answers(plan, looks.length_of(plan))
        counted = capacity(found, has_states=plan.model.state is not None)
    elif looks.view == "start":
        counted = join(*map(html.problem_html, looks.stops))
    return join(counted, Html(VIEWS[looks.view][1](plan, looks.pinned)))


def views_of(looks: View) -> Mapping[str, str]:
    """Return the names of the views that can be opened, with their titles."""
    pinned = {} if looks.pinned is None else {PINNED: "A against now"}
    return {**{name: title for name, (title, _draw) in VIEWS.items()}, **pinned}


def _omnibox(names: Sequence[str]) -> Html:
    box = tag(
        "textarea",
        rows=1,
        placeholder=HINT,
        aria_label="Model, command, config.json or log",
        aria_autocomplete="list",
        spellcheck=False,
        data_key="omnibox",
        data_models=json.dumps(list(names)),
    )
    models = tag("div", role="listbox", aria_label="Models", hidden="")
    return tag("div", box, button("Show", "submit", key="submit"), models, class_="wb-omnibox")


def _understood(shown: Shown) -> Html:
    """Return what the last text was taken for; a log's fatal error comes first."""
    found = shown.looks.understood
    if found is None:
        return Html()
    parts = [tag("b", found.message)]
    if shown.answers is not None and shown.outcome.plan is not None:
        parts.append(answered(found, shown.outcome.plan, shown.answers))
        # a table has a word for each side, and machines that are offered hold as many
        of_others = found.is_table or (found.question and found.question.is_of_machines)
        counted = None if of_others else found.load.requests
        if counted and (room := room_for(counted, shown.answers)):
            parts.append(tag("p", room))
    if found.is_table:
        rows = [_row(side, shown.looks) for side in found.compared]
        parts.append(compared_table(rows, shown.outcome.scenario))
    if found.log is not None:
        parts = [explained(found.log, shown.outcome.scenario)]
        if found.log.failure is not None and found.scenario is not None:
            parts.append(_copy_command(shown.outcome.plan, "copy-corrected"))
    else:
        parts += [html.bullets(map(in_labels, found.notes)), other_meaning(found)]
    if shown.looks.keeps_length and shown.answers is not None:
        parts.append(_kept_length(shown.answers.length_tokens))
    return tag("div", *parts, class_="wb-understood")


def _kept_length(tokens: int) -> Html:
    """Return that requests are as long as a person said before, with the way back."""
    back = button("Count requests of the usual length", "length", class_="wb-link")
    return tag("p", f"Also as before: requests of {tokens:,} tokens. ", back)


def _row(side: Side, looks: View) -> Row:
    found = evaluate(side.scenario)
    counted = None if found.plan is None else answers(found.plan, looks.length_of(found.plan))
    return Row(side.scenario, counted, str(found.error or ""), side.load.requests)


def _actions(shown: Shown) -> Html:
    looks, visits = shown.looks, shown.history
    pins = [button("Pin as A", "pin")]
    if looks.pinned is not None:
        pins = [button("Unpin A", "unpin"), button("Swap with A", "swap")]
    buttons = [
        button("Undo", "undo", **_disabled(not visits.can_undo)),
        button("Redo", "redo", **_disabled(not visits.can_redo)),
        history(_lines(visits), visits.at, is_open=looks.opened == HISTORY),
        button("Reset", "reset"),
        *pins,
        button("Copy link", "copy", data_copy=_link(shown)),
    ]
    return toolbar("Actions", *buttons, _copy_command(shown.outcome.plan), class_="wb-actions")


def _link(shown: Shown) -> str:
    """Return the link to all that the answers depend on."""
    looks = shown.looks
    pinned = None if looks.pinned is None else looks.pinned.scenario
    return link_of(shown.outcome.scenario, length=looks.length, pinned=pinned)


def _copy_command(plan: Plan | None, key: str = "") -> Html:
    """Return the button that copies the command of a plan; nothing without one."""
    if plan is None:
        return Html()
    name, text = next(iter(commands_of(plan).items()))
    return button(f"Copy {name}", "copy", key=key, data_copy=text)


def _disabled(is_disabled: bool) -> dict[str, str]:
    return {"disabled": ""} if is_disabled else {}


def _lines(visits: History) -> list[Line]:
    """Return what the list of the tried scenarios shows of each."""
    first, *others = visits.visits
    changes = [_name(first.scenario), *map(_change_to, visits.visits, others)]
    return [
        Line(i, text, visit.answers)
        for i, (text, visit) in enumerate(zip(changes, visits.visits, strict=True))
    ]


def _name(scenario: Scenario) -> str:
    return scenario.model if isinstance(scenario.model, str) else "inline config"


def _change_to(before: Visit, now: Visit) -> str:
    """Return what a person changed; with another model, everything that is set with it."""
    old, new = before.scenario, now.scenario
    changes = changed_fields(old, new) if old.model == new.model else new.stated()
    length = requests_text(now.length) if now.length and now.length != before.length else ""
    return ", ".join(filter(None, (changes_text(changes), length))) or _name(new)


def _views(looks: View) -> Html:
    tabs = (
        button(title, "view", name, role="tab", aria_selected=name == looks.view)
        for name, title in views_of(looks).items()
    )
    return tag("div", *tabs, role="tablist", aria_label="Explanations", class_="wb-views")


def _goals(present: str, every: Html) -> Html:
    options = (
        tag("option", GOAL_NAMES[name], value=name, **({"selected": ""} if name == present else {}))
        for name in GOALS
    )
    select = tag("select", *options, aria_label="Goal", data_do="goal", data_key="goal")
    words = tag("span", tag("b", "Next"), " for ")
    return tag("div", words, select, every, class_="wb-goal")
