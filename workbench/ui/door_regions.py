"""The regions of the front door: what is shown of a scenario, as HTML by the name of its place."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from workbench.core.errors import Refused
from workbench.core.plan import Plan
from workbench.core.remedies import Remedy
from workbench.core.what_if.answers import Answers
from workbench.core.what_if.next_steps import GOALS, NextStep
from workbench.exchange import commands_of
from workbench.interop.logs.report import LogReport
from workbench.models import catalog_names
from workbench.omnibox import Understood
from workbench.resolution import remedies_of_refusal
from workbench.ui.labs import LABS
from workbench.ui.session import Outcome
from workbench.versions import compare
from workbench.views import html
from workbench.views.capacity.html import pool_html
from workbench.views.capacity.memory_answer import answer_html
from workbench.views.door.inspector import inspector
from workbench.views.door.next_cards import next_cards
from workbench.views.door.scenario_bar import Bar, scenario_bar
from workbench.views.door.tiles import tiles
from workbench.views.hits.figure import hits_html
from workbench.views.html import Html, join, tag
from workbench.views.logs.table import failure_html, headline, lines_table
from workbench.views.pages.drawing import page_drawing
from workbench.views.versions.differences import differences_html

Legal = Callable[[str, tuple[Any, ...]], tuple[Any, ...]]
HINT = (
    "Paste a `vllm serve` command, a start-up log or a config.json, or type a model "
    "(for example qwen3-next-80b-a3b)"
)


@dataclass(frozen=True, kw_only=True)
class View:
    """How a person looks at a scenario: nothing of it changes a number."""

    view: str = "why"
    goal: str = GOALS[0]
    everything: bool = False
    """Whether all next steps are shown."""
    opened: str = ""
    """Field whose control is open, "all", or nothing."""
    pinned: Answers | None = None
    """The answers of A, with which each tile is compared."""
    understood: Understood | None = None
    """What the last text was taken for."""
    complaint: str = ""
    """HTML of what is wrong with the last input."""
    notices: tuple[str, ...] = ()
    """What the last change reset."""

    def replace(self, **changes: Any) -> View:
        """Return the same with these changes."""
        return replace(self, **changes)


@dataclass(frozen=True, kw_only=True)
class Shown:
    """Everything that the regions show."""

    outcome: Outcome
    answers: Answers | None
    """None where vLLM refuses the scenario."""
    steps: Sequence[NextStep]
    looks: View
    can_undo: bool
    can_redo: bool
    lab: str
    """Title of the open lab; empty: none."""
    legal: Legal


GOAL_NAMES = {
    "requests": "requests per GPU",
    "hits": "shorter prefix hits",
    "padding": "less padding",
    "starts": "a sure start",
}


def regions(shown: Shown) -> dict[str, str]:
    """Return HTML by region. Without a plan the answers say why there is none."""
    plan, error, looks = shown.outcome.plan, shown.outcome.error, shown.looks
    notices = (tag("div", text, class_="wb-good") for text in looks.notices)
    scenario, model = shown.outcome.scenario, shown.outcome.model
    bar = Bar(scenario, model, shown.legal, looks.opened)
    found = {
        "style": html.style(),
        "error": Html(),
        "omnibox": _omnibox(catalog_names()),
        "understood": join(Html(looks.complaint), *notices, _understood(looks.understood)),
        "bar": scenario_bar(bar),
        "actions": _actions(shown),
    }
    if plan is not None and shown.answers is not None:
        found["answers"] = tiles(shown.answers, looks.pinned)
        found["views"] = _views(looks.view)
        found["body"] = tag("div", Html(VIEWS[looks.view][1](plan)), class_="wb")
        found["inspector"] = inspector(plan) if looks.view == "why" else Html()
        cards = next_cards(shown.steps, everything=looks.everything)
        found["next"] = join(_goals(looks.goal), cards)
    elif error is not None:
        remedies = remedies_of_refusal(scenario, error) if isinstance(error, Refused) else ()
        found["answers"] = join(html.refusal_html(error), _remedies(remedies))
        found |= dict.fromkeys(("views", "body", "inspector", "next"), Html())
    found["labs"] = _labs(shown.lab)
    return {name: str(text) for name, text in found.items()}


def _omnibox(models: Sequence[str]) -> Html:
    box = tag(
        "textarea",
        rows=1,
        placeholder=HINT,
        aria_label="Model, command, config.json or log",
        role="combobox",
        aria_expanded=False,
        aria_autocomplete="list",
        spellcheck=False,
        data_key="omnibox",
        data_models=json.dumps(list(models)),
    )
    button = tag("button", "Show", type="button", data_do="submit", data_key="submit")
    return tag("div", box, button, tag("div", role="listbox", hidden=""), class_="wb-omnibox")


def _understood(found: Understood | None) -> Html:
    """Return what the last text was taken for; a log's fatal error comes first."""
    if found is None:
        return Html()
    parts = [tag("b", found.message)]
    if found.log is not None:
        report = found.log.to_dict()
        parts = [failure_html(report["failure"]), _fixes(found.log), tag("b", headline(report))]
        for scene in found.log.scenes:
            parts.append(_button(f"Use {scene.words}", scene.fields, "use"))
        parts.append(_again())
        parts.append(html.fold("Every known line", lines_table(report["lines"])))
    notes = html.bullets(found.notes)
    return tag("div", *parts, notes, class_="wb-understood")


def _fixes(log: LogReport) -> Html:
    """Return buttons for the changes after which the fatal error of a log is gone."""
    plan = log.reading.plan
    if plan is None or log.failure is None:
        return Html()
    fatal = (problem for problem in plan.errors if problem.code == log.failure.problem)
    return join(*(_remedies(plan.remedies(problem)) for problem in fatal))


def _again() -> Html:
    label = "Explain again with another model"
    box = tag("input", type="text", aria_label=label, placeholder=label, data_key="log-model")
    button = tag("button", "Explain again", type="button", data_do="submit", data_key="again")
    return tag("div", box, button, class_="wb-again")


def _actions(shown: Shown) -> Html:
    pin = ("unpin", "Unpin A") if shown.looks.pinned else ("pin", "Pin as A")
    buttons = [
        _action("undo", "Undo", disabled=not shown.can_undo),
        _action("redo", "Redo", disabled=not shown.can_redo),
        _action("reset", "Reset"),
        _action(*pin),
    ]
    if (plan := shown.outcome.plan) is not None:
        for name, text in commands_of(plan).items():
            buttons.append(_action("copy", f"Copy {name}", data_copy=text))
    return tag("div", *buttons, class_="wb-actions")


def _action(do: str, label: str, *, disabled: bool = False, **more: str) -> Html:
    state = {"disabled": ""} if disabled else {}
    return tag(
        "button", label, type="button", data_do=do, data_key=f"{do}-{label}", **state, **more
    )


def _labs(present: str) -> Html:
    """Return a link for every lab; the open one closes it."""
    links = (
        tag(
            "button",
            title,
            type="button",
            aria_expanded=title == present,
            data_do="lab",
            data_arg=title,
            data_key=f"lab-{title}",
        )
        for title in LABS
    )
    return tag("div", tag("b", "Labs"), *links, class_="wb-lab-links")


def _views(present: str) -> Html:
    tabs = (
        tag(
            "button",
            title,
            type="button",
            role="tab",
            aria_selected=name == present,
            data_do="view",
            data_arg=name,
            data_key=f"view-{name}",
        )
        for name, (title, _draw) in VIEWS.items()
    )
    return tag("div", *tabs, role="tablist", class_="wb-views")


def _goals(present: str) -> Html:
    options = (
        tag("option", GOAL_NAMES[name], value=name, **({"selected": ""} if name == present else {}))
        for name in GOALS
    )
    select = tag("select", *options, aria_label="Goal", data_do="goal", data_key="goal")
    return tag("div", tag("b", "Next"), " for ", select, class_="wb-goal")


def _why(plan: Plan) -> Html:
    steps = html.fold(f"All {len(plan.steps)} steps", html.trace_table(plan.steps))
    origins = html.fold("Where the model's numbers come from", html.origins_html(plan))
    return join(page_drawing(plan), steps, origins)


def _start(plan: Plan) -> Html:
    """Return every problem with buttons for the changes that help."""
    if not plan.problems:
        return tag("p", "✓ No start-up problem found for these settings.", class_="wb-good")
    parts = []
    for problem in plan.problems:
        parts += [html.problem_html(problem), _remedies(plan.remedies(problem))]
    return join(*parts, html.log_html(plan.log_lines))


def _remedies(remedies: Iterable[Remedy]) -> Html:
    return tag("div", *(_button(f"Apply {one.text}", one.changes) for one in remedies))


def _button(label: str, fields: Mapping[str, Any], do: str = "apply") -> Html:
    arg = json.dumps(dict(fields))
    return tag("button", label, type="button", data_do=do, data_arg=arg, data_key=label)


def _copies(plan: Plan) -> Html:
    found = commands_of(plan).items()
    return join(*(join(tag("h4", name), html.code_block(text)) for name, text in found))


VIEWS: Mapping[str, tuple[str, Callable[[Plan], str]]] = {
    "why": ("Why this number?", _why),
    "hits": ("Will it hit?", hits_html),
    "fits": ("What fits?", lambda plan: join(Html(answer_html(plan.memory())), pool_html(plan))),
    "start": ("Will it start?", _start),
    "what_if": ("What if?", lambda plan: Html(plan.sensitivity()._repr_html_())),
    "versions": ("Another version?", lambda plan: Html(differences_html(compare(plan.scenario)))),
    "copy": ("Copy", _copies),
}
"""Name of a view -> its title, and its content."""
