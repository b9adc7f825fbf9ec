"""What the answers open: the picture and its steps, hits, memory, blockers, changes, versions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from html import escape
from typing import Any

from workbench.core.capacity.memory_answer import NO, PERHAPS
from workbench.core.errors import NEAREST, PHRASE, Refused, WorkbenchError
from workbench.core.plan import Plan
from workbench.core.problems import Problem
from workbench.core.remedies import Remedy
from workbench.core.versions import RULE_SETS
from workbench.core.what_if.answers import Answers
from workbench.core.what_if.differences import plan_differences
from workbench.door.changes import CACHING
from workbench.door.history import changed_fields
from workbench.interop.exchange import commands_of
from workbench.interop.questions import QUESTIONS
from workbench.scenario import FIELDS, Scenario
from workbench.scenario.resolution import remedies_of_refusal
from workbench.scenario.versions import compare
from workbench.views import html
from workbench.views.capacity.html import pool_html
from workbench.views.capacity.memory_answer import answer_html
from workbench.views.door.buttons import button, change_button, data_button
from workbench.views.door.inspector import step_links, step_list
from workbench.views.door.trial import slider
from workbench.views.hits.html import hits_html
from workbench.views.html import Html, join, tag
from workbench.views.pages.drawing import longest_page, other_page, page_drawing
from workbench.views.settings import changes_text, in_labels
from workbench.views.versions.differences import differences_html, differences_table

PINNED = "pinned"
"""Name of the view that compares with A; it is there while a plan is pinned."""


def why(plan: Plan, pinned: Plan | None) -> Html:
    """Return the picture, compared with that of A, and every step."""
    steps = html.fold(f"All {len(plan.steps)} steps", step_list(plan))
    lab = button("as a table, with the layers \u25b8", "show_lab", "Model fields", class_="wb-link")
    origins = html.fold(html.ORIGINS, join(html.origins_html(plan), lab))
    other, longest = Html(), longest_page(plan)
    if pinned is not None:
        longest = max(longest, longest_page(pinned))
        changes = changes_text(changed_fields(plan.scenario, pinned.scenario))
        other = other_page(f"A: {changes or 'the same'}", pinned, longest)
    return join(page_drawing(plan, longest), other, slider(plan), steps, origins)


def start(plan: Plan) -> Html:
    """Return every problem with buttons for the changes that help, and what keeps it open."""
    memory = plan.memory()
    parts = [Html(answer_html(memory))] if memory.starts == PERHAPS else []
    if not plan.problems and not parts:
        return tag("p", "✓ No start-up problem found for these settings.", class_="wb-good")
    for problem in plan.problems:
        fixes = remedies_html(plan.remedies(problem), problem.field)
        parts += [html.problem_html(problem), fixes]
    return join(*parts, html.log_html(plan.log_lines))


def stopped(found: Answers, problems: Sequence[Problem]) -> Answers:
    """Return answers to a command that a problem stops before its settings count."""
    if not problems:
        return found
    return replace(found, starts=NO, is_stopped=True, blocker=problems[0].message.split(". ")[0])


def hits(plan: Plan) -> Html:
    """Return what hits, with the button that turns prefix caching on where it is off."""
    drawn = Html(hits_html(plan))
    if plan.enable_prefix_caching:
        return drawn
    version = RULE_SETS[plan.settings.rules].title
    default = f"That is the default of {version} for this model; --enable-prefix-caching is needed."
    why = tag("p", default) if plan.settings.enable_prefix_caching is None else Html()
    return join(
        drawn, why, tag("div", data_button(f"Apply {changes_text(CACHING)}", "apply", CACHING))
    )


def refused(
    error: WorkbenchError,
    scenario: Scenario | None = None,
    text: str = "",
    works: Callable[[str], bool] = lambda _text: True,
) -> Html:
    """Return why there is no plan, with a button per change that helps.

    scenario: of which there is none; None for a text that was not read. text: that text. works:
    whether another text leads to a plan; only such ones are offered in its place.
    """
    said = _with_questions(html.refusal_html(error))
    if (phrase := error.operands.get(PHRASE)) is not None:
        return join(said, _instead(text, phrase, error.operands.get(NEAREST, ()), works))
    field = error.field if error.field in FIELDS else None
    changes = [{field: one} for one in error.operands.get(NEAREST, ()) if field]
    if error.field in error.operands:
        changes.append({error.field: error.operands[error.field]})
    if isinstance(error, Refused) and scenario is not None:
        changes = [dict(one.changes) for one in remedies_of_refusal(scenario, error)]
    return join(said, _fixes(changes, error.field))


def _with_questions(said: Html) -> Html:
    """Return a message in which the questions that are answered can be clicked."""
    for one in QUESTIONS:
        said = Html(said.replace(escape(repr(one)), button(one, "ask", one, class_="wb-link")))
    return said


def _instead(text: str, phrase: str, names: Iterable[str], works: Callable[[str], bool]) -> Html:
    """Return a button per name that enters the text with the name in place of a phrase."""
    pattern = r"\W+".join(map(re.escape, phrase.split()))
    texts = {name: re.sub(pattern, name, text, count=1) for name in names}
    return tag("div", *(button(name, "ask", one) for name, one in texts.items() if works(one)))


def remedies_html(remedies: Iterable[Remedy], field: str | None = None) -> Html:
    """Return a button per remedy that applies it, and one that opens the control of the field."""
    return _fixes((dict(one.changes) for one in remedies), field)


def _fixes(changes: Iterable[Mapping[str, Any]], field: str | None) -> Html:
    applied = (data_button(f"Apply {changes_text(one)}", "apply", one) for one in changes)
    return tag("div", *applied, " ", change_button(field))


def compared_with(plan: Plan, pinned: Plan) -> Html:
    """Return the settings that differ from those of A, and every number that follows."""
    fields = changed_fields(pinned.scenario, plan.scenario)
    before = {name: getattr(pinned.scenario, name) for name in fields}
    if not fields:
        return tag("p", "A is this very scenario. Change something to compare.")
    found = tuple(plan_differences(pinned, plan))
    return join(
        tag("p", tag("b", "A: "), changes_text(before)),
        tag("p", tag("b", "Now: "), changes_text(fields)),
        differences_table(("A", "now"), found) if found else tag("p", _same(pinned, plan)),
    )


def _same(pinned: Plan, plan: Plan) -> str:
    """Return that no number differs, or why neither starts: those numbers mean nothing then."""
    if not pinned.errors or not plan.errors:
        return "Every number is the same."
    first, second = (in_labels(one.errors[0].message) for one in (pinned, plan))
    return f"Neither starts. A: {first} Now: {'the same.' if first == second else second}"


def _copies(plan: Plan) -> Html:
    found = commands_of(plan).items()
    return join(*(join(tag("h4", name), html.code_block(text)) for name, text in found))


def _sourced(name: str, draw: Callable[[Plan], str]) -> Callable[[Plan, Any], str]:
    """Return the drawing with links to the steps that its numbers come from."""
    return lambda plan, _pinned: join(Html(draw(plan)), step_links(plan, name))


VIEWS: Mapping[str, tuple[str, Callable[[Plan, Plan | None], str]]] = {
    "why": ("Why this number?", why),
    "hits": ("Will it hit?", _sourced("hits", hits)),
    "fits": (
        "What fits?",
        _sourced("fits", lambda plan: join(Html(answer_html(plan.memory())), pool_html(plan))),
    ),
    "start": ("Will it start?", _sourced("start", start)),
    "what_if": ("What if?", lambda plan, _: Html(plan.sensitivity()._repr_html_())),
    "versions": (
        "Another version?",
        lambda plan, _: Html(differences_html(compare(plan.scenario))),
    ),
    "copy": ("Copy", lambda plan, _: _copies(plan)),
}
"""Name of a view -> its title, and its content from the plan and from A."""
