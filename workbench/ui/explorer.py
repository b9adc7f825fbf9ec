"""`explore`: pick a scenario, see its block size, why, the pages, and what to change."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future
from functools import partial
from html import escape
from typing import Any

import ipywidgets as widgets

from workbench.core.errors import ConfigError, Refused, ScenarioError, WorkbenchError
from workbench.core.plan import Plan
from workbench.core.remedies import Remedy
from workbench.core.what_if.choices import LegalValues
from workbench.labs.jobs import CHOICES, launch
from workbench.models import catalog_names, load_model
from workbench.resolution import remedies_of_refusal
from workbench.scenario import DEFAULT_MODEL, Scenario
from workbench.ui.controls import Controls, ModelPath, Picker
from workbench.ui.live_figure import LiveFigure
from workbench.ui.panels.panel import Panel, error_html
from workbench.ui.pieces import (
    ProgramChanges,
    apply_button,
    display,
    line,
    mark_stale,
    replace_children,
    widget_of,
)
from workbench.ui.session import Outcome, RecordedError, Session, guarded
from workbench.ui.tabs import Tabs
from workbench.views import html
from workbench.views.pages.figure import page
from workbench.views.rows import plan_facts
from workbench.views.summary import plan_html

RESETS_BACKEND = frozenset({"model", "platform", "device", "compute_capability", "rules"})
"""Fields that, when changed, reset a backend that is no longer available, with a notice."""

NO_PROBLEM = '<div class="wb-good">✓ No start-up problem found for these settings.</div>'


def explore(start: Plan | Scenario | None = None, **fields: Any) -> Explorer:
    """Return the live panel for a plan or a scenario, with these fields changed.

    Works headless: the panel's `plan` and `scenario` are values, and its HTML is a static copy.

    >>> wb.explore(plan, tensor_parallel=2).plan.block_size
    2096
    """
    scenario = start.scenario if isinstance(start, Plan) else start or Scenario()
    return Explorer(scenario.replace(**fields) if fields else scenario)


class ProblemList:
    """The problems of the newest scenario, and of the last input."""

    def __init__(self, apply: Callable[[dict[str, Any]], None]) -> None:
        self._apply = apply
        self._input_error = widgets.HTML()
        self._list = widgets.VBox()
        self.widget = widgets.VBox([self._input_error, self._list])

    def show(self, cards: Iterable[tuple[str, Iterable[Remedy]]]) -> None:
        """Show the HTML of problems, each with buttons for its remedies."""
        self.clear_input_error()
        entries: list[widgets.Widget] = []
        for card, remedies in cards:
            buttons = line(*map(self._button, remedies))
            entries += [widgets.HTML(html.document(card)), buttons]
        replace_children(self._list, entries)

    def show_input_error(self, error: ScenarioError) -> None:
        """Show why an input is invalid; the last plan and the input stay."""
        note = '<div class="wb-faint">Showing the last valid settings.</div>'
        self._input_error.value = html.document(html.refusal_html(error), note)
        display(self._list, shown=False)

    def clear_input_error(self) -> None:
        """Clear the message: the input is valid again."""
        self._input_error.value = ""
        display(self._list, shown=True)

    def _button(self, remedy: Remedy) -> widgets.Button:
        made = apply_button(f"Apply {remedy.text}", f"Tested: {remedy.plan!r}")
        made.on_click(lambda _button: self._apply(dict(remedy.changes)))
        return made


class Explorer:
    """The panel. Every callback only requests a changed scenario from the session."""

    def __init__(self, scenario: Scenario) -> None:
        self.plan: Plan | None = None
        self.error: WorkbenchError | None = None
        self._by_program = ProgramChanges()
        self._offering: Future[None] | None = None
        self._is_shown = False
        self._catalog_model: str | dict[str, Any] = DEFAULT_MODEL
        self._controls = Controls()
        self._pickers = self._controls.pickers
        self._headline, self._error_area, self._notice, self._facts = (
            widgets.HTML() for _ in range(4)
        )
        self._figure = LiveFigure()
        self._problems = ProblemList(self._apply)
        self.session = Session(scenario, self._show)
        self._tabs = Tabs(self.session, self.show_error)
        for picker in self._pickers:
            picked = partial(self._picked, picker)
            picker.widget.observe(lambda change, then=picked: then(change.new), names="value")
        above = (widgets.HTML(html.style()), self._headline, self._controls, self._error_area)
        below = (self._notice, self._problems, self._facts, self._figure, self._tabs)
        self.widget = widgets.VBox([widget_of(part) for part in (*above, *below)])
        self.widget.add_class("wb-panel")
        self._first_show(scenario)

    @property
    def scenario(self) -> Scenario:
        """Newest scenario."""
        return self.session.scenario

    @property
    def controls(self) -> dict[str, widgets.ValueWidget]:
        """Control of every field, for tests and for driving the panel from code.

        Waits until what is legal is offered.
        """
        if self._offering is not None:
            self._offering.result()
        every = self._pickers
        return {one.field: one.widget for one in every if not isinstance(one, ModelPath)}

    def open(self, title: str) -> Panel:
        """Open the tab with this title, as a click on it does."""
        return self._tabs.open(title)

    def show_error(self, error: RecordedError) -> None:
        """Show an unhandled exception in place, and grey out what is stale after it."""
        self._error_area.value = error_html(error)
        self._set_stale(result=True, verdict=True)

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
        self._is_shown = True

    @guarded
    def _picked(self, picker: Picker, shown: Any) -> None:
        if self._by_program:
            return
        try:
            value = picker.read(shown)
            if isinstance(picker, ModelPath):
                value = self._readable_model(value)
            if value == getattr(self.session.scenario, picker.field):
                self._problems.clear_input_error()
                return
            self._change({picker.field: value})
        except ScenarioError as error:
            self._problems.show_input_error(error)

    def _readable_model(self, given: str | None) -> str | dict[str, Any]:
        """Return the given model if it can be read; for an empty field, the model in use."""
        present = self.session.scenario.model
        if given is None:
            return present if present in catalog_names() else self._catalog_model
        try:
            load_model(given)
        except ConfigError as error:
            raise ScenarioError(error.code, error.message, field="model") from error
        return given

    @guarded
    def _apply(self, changes: dict[str, Any]) -> None:
        self._change(changes)

    def _change(self, changes: dict[str, Any]) -> None:
        def changed(present: Scenario) -> Scenario:
            self._notice.value = ""
            return self._without_lost_backend(self._with_device(present, changes), changes)

        self._error_area.value = ""
        self.session.change(changed)

    def _with_device(self, present: Scenario, changes: dict[str, Any]) -> Scenario:
        """Return the changed scenario; of a device and what contradicts it the newest counts."""
        if changes.get("device") is not None:
            return present.replace(**{"compute_capability": None, **changes})
        try:
            return present.replace(**changes)
        except ScenarioError as error:
            if error.code != "contradicts_device" or "device" in changes:
                raise
            self._notify(f"The device {present.device} is something else; no device is named now.")
            return present.replace(**changes, device=None)

    def _notify(self, text: str) -> None:
        self._notice.value += f'<div class="wb wb-good">{escape(text)}</div>'

    def _without_lost_backend(self, scenario: Scenario, changed: Iterable[str]) -> Scenario:
        """Drop a backend that is no longer available, with a notice instead of a refusal."""
        if scenario.backend is None or RESETS_BACKEND.isdisjoint(changed):
            return scenario
        plan = self.session.evaluate(scenario).plan
        if plan is None or all(problem.code != "backend_not_valid" for problem in plan.problems):
            return scenario
        self._notify(
            f"Backend {scenario.backend} is not available here; the engine chooses the backend "
            "again."
        )
        return scenario.replace(backend=None)

    def _show(self, outcome: Outcome) -> None:
        with self._by_program:
            self._controls.refresh(outcome.scenario, outcome.model)
        self.error = outcome.error
        try:
            if outcome.plan is not None:
                self._show_plan(outcome.scenario, outcome.plan)
            elif outcome.error is not None:
                self._show_refusal(outcome.scenario, outcome.error)
        finally:
            self._offer_legal(outcome)  # a panel that failed can still be used

    def _offer_legal(self, outcome: Outcome) -> None:
        """Offer the legal values: after the click, in a thread, unless all of them are known."""
        if outcome.model is None:
            return
        legal = self.session.legal_values(outcome.model)
        legal.remember(outcome.scenario, outcome.plan)
        offer = partial(self._offer, outcome.scenario, legal)
        if self._is_shown and not self._controls.legal_is_known(outcome.scenario, legal):
            self._offering = launch(offer, CHOICES)
        else:
            offer()

    @guarded
    def _offer(self, scenario: Scenario, legal: LegalValues) -> None:
        with self._by_program:
            self._controls.offer_legal(scenario, legal)

    def _show_plan(self, scenario: Scenario, plan: Plan) -> None:
        self.plan = plan
        if scenario.model in catalog_names():
            self._catalog_model = scenario.model
        self._headline.value = html.document(html.headline_html(plan))
        self._facts.value = html.document(html.facts_html(plan_facts(plan)))
        self._problems.show(self._cards(scenario, plan))
        self._figure.show(page(plan))
        self._tabs.show(plan)
        self._set_stale(result=False, verdict=False)

    def _cards(self, scenario: Scenario, plan: Plan) -> Iterable[tuple[str, Iterable[Remedy]]]:
        """Return the problems of a plan; an error with which vLLM did not start is one, too."""
        cards: list[tuple[str, Iterable[Remedy]]] = [
            (html.problem_html(found), plan.remedies(found)) for found in plan.problems
        ]
        failure = self.session.failure_of(scenario)
        if failure and not plan.errors:
            cards.insert(0, (failure, ()))
        return cards or [(NO_PROBLEM, ())]

    def _show_refusal(self, scenario: Scenario, error: WorkbenchError) -> None:
        reason = "vLLM refuses this configuration"
        if not isinstance(error, Refused):
            reason = "this configuration cannot be resolved"
        self._headline.value = html.document(
            '<div class="wb-headline"><span class="wb-block-size" data-value="">no block size'
            f"</span><span>{reason}</span></div>"
        )
        remedies = remedies_of_refusal(scenario, error) if isinstance(error, Refused) else ()
        self._problems.show([(html.refusal_html(error), remedies)])
        self._tabs.show_refusal(scenario, error)
        self._set_stale(result=True, verdict=False)

    def _set_stale(self, *, result: bool, verdict: bool) -> None:
        """Grey out what belongs to an older plan; the verdict is the headline and the problems."""
        mark_stale(result, self._facts, self._figure, self._tabs)
        mark_stale(verdict, self._headline, self._problems)
