"""One session: the newest scenario under a lock, and every error of a callback.

Callbacks may run on another thread while a cell runs (ipykernel 7). A callback therefore only
requests a scenario; one thread at a time shows, and always the newest request.
"""

import os
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from html import escape
from typing import Any, Concatenate, ParamSpec

from workbench.access.app_mode import shows_tracebacks
from workbench.core.capacity.occupancy import usual_length
from workbench.core.errors import WorkbenchError
from workbench.core.model import Model
from workbench.core.plan import Plan
from workbench.core.resolve import resolve as resolve_model
from workbench.core.what_if.choices import LegalValues
from workbench.models import load_scenario_model
from workbench.scenario import Scenario
from workbench.views.html import document

STRICT_VARIABLE = "WORKBENCH_STRICT"
Arguments = ParamSpec("Arguments")


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a scenario: a plan, or the error that says why there is none.

    model: None only when its config.json cannot be read.
    """

    scenario: Scenario
    model: Model | None
    plan: Plan | None
    error: WorkbenchError | None = None


def evaluate(scenario: Scenario) -> Outcome:
    """Resolve `scenario`; expected errors are returned as values."""
    model = None
    try:
        model = load_scenario_model(scenario)
        return Outcome(scenario, model, resolve_model(model, scenario))
    except WorkbenchError as error:
        return Outcome(scenario, model, None, error)


@dataclass(frozen=True, slots=True)
class RecordedError:
    """An exception that a callback did not handle."""

    callback: str
    summary: str
    traceback: str


class Session:
    """Holder of the scenario; `show` is called with an outcome, by one thread at a time."""

    def __init__(self, scenario: Scenario, show: Callable[[Outcome], None]) -> None:
        self._lock = threading.Lock()
        self._scenario = scenario
        self._wanted: Scenario | None = None
        self._showing = False
        self._show = show
        self._legal: LegalValues | None = None
        self._evaluated: Outcome | None = None
        self.errors: list[RecordedError] = []
        self.length_of: Callable[[Plan], int] = usual_length
        """Tokens of the requests that are counted; a front door knows which were said."""

    @property
    def scenario(self) -> Scenario:
        """Newest requested scenario."""
        with self._lock:
            return self._scenario

    def request(self, scenario: Scenario) -> None:
        """Request `scenario` to be shown; while another thread shows, that thread takes it over."""
        self.change(lambda _present: scenario)

    def legal_values(self, model: Model) -> LegalValues:
        """Return what is known of the legal values of this model's fields."""
        known = self._legal
        if known is None or known.model != model:
            self._legal = known = LegalValues(model)
        return known

    def legal_of(self, outcome: Outcome) -> Callable[[str, tuple[Any, ...]], tuple[Any, ...]]:
        """Return (field, its candidates) -> those that vLLM accepts with the rest of a scenario."""
        model = outcome.model
        if model is None:
            return lambda _field, candidates: candidates
        known = self.legal_values(model)
        known.remember(outcome.scenario, outcome.plan)
        return lambda field, candidates: known.of(outcome.scenario, field, candidates)

    def evaluate(self, scenario: Scenario) -> Outcome:
        """Resolve `scenario`, or return the last outcome if it is the one of this very object."""
        known = self._evaluated
        if known is None or known.scenario is not scenario:
            self._evaluated = known = evaluate(scenario)
        return known

    def replace(self, **changes: Any) -> None:
        """Request the newest scenario with these fields."""
        self.change(lambda present: present.replace(**changes))

    def change(self, change: Callable[[Scenario], Scenario]) -> None:
        """Request `change(newest scenario)`, computed again if another thread came in between.

        So two threads that change different fields both get their change.
        """
        while not self._put(present := self.scenario, change(present)):
            pass

    def _put(self, present: Scenario, wanted: Scenario) -> bool:
        """Replace `present`, unless it is not the newest any more; show if no other thread does."""
        with self._lock:
            if self._scenario is not present:
                return False
            self._scenario = self._wanted = wanted
            if self._showing:
                return True
            self._showing = True
        self._show_newest()
        return True

    def _show_newest(self) -> None:
        try:
            while (wanted := self._take()) is not None:
                self._show(self.evaluate(wanted))
        except Exception:
            self._show_newest()  # a request made meanwhile must not wait for the next click
            raise
        except BaseException:
            with self._lock:
                self._showing = False
            raise

    def _take(self) -> Scenario | None:
        with self._lock:
            wanted, self._wanted = self._wanted, None
            self._showing = wanted is not None
            return wanted


def guarded(
    callback: Callable[Concatenate[Any, Arguments], None],
) -> Callable[Concatenate[Any, Arguments], None]:
    """Wrap a panel's callback: an exception goes to its `show_error`, and to its session's record.

    With WORKBENCH_STRICT=1 it is raised as well, so that a headless run fails.
    """

    @wraps(callback)
    def wrapped(panel: Any, /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        try:
            callback(panel, *args, **kwargs)
        except Exception as error:
            recorded = RecordedError(
                callback.__name__, f"{type(error).__name__}: {error}", traceback.format_exc()
            )
            panel.session.errors.append(recorded)
            panel.show_error(recorded)
            if os.environ.get(STRICT_VARIABLE) == "1":
                raise

    return wrapped


def error_html(error: RecordedError) -> str:
    """Return an unhandled exception, with a traceback to copy unless strangers may see it."""
    title, more = "Internal error.", "Started with --show-tracebacks, the app shows the traceback."
    if shows_tracebacks():
        title = error.summary
        more = (
            "<details open><summary>Traceback, to copy</summary>"
            f"<pre>{escape(error.traceback)}</pre></details>"
        )
    return document(
        f'<div class="wb-error" data-workbench-error="{escape(error.callback)}">'
        f"<b>✕ {escape(title)}</b><br>The results below are stale. {more}</div>"
    )
