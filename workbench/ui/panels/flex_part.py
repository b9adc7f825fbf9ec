"""Pieces of the flex tab: parts that share a typed batch, and parts that launch off the thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import ipywidgets as widgets

from workbench.core.errors import ScenarioError
from workbench.core.flex.batch import KINDS
from workbench.core.flex.plan import FLEX
from workbench.core.tables.batch_grammar import BatchRequest, parse_batch
from workbench.kernels.mode import TritonModeError
from workbench.plan import Plan
from workbench.run.launches import launch
from workbench.ui.panels.panel import Panel
from workbench.ui.pieces import apply_button, button, dropdown, text_box
from workbench.ui.session import guarded
from workbench.views.html import document, refusal_html

if TYPE_CHECKING:
    from workbench.run.flex_jobs import StopFlag

Result = TypeVar("Result")
DEFAULT_BATCH, DEFAULT_SIZE = "2q48_q16s700", "64"


class BatchInput:
    """The batch and its mask, typed once for every part."""

    def __init__(self) -> None:
        self.batch = text_box("Flex batch", DEFAULT_BATCH)
        self.kind = dropdown("Mask", KINDS)
        self.size = text_box("Its tokens", DEFAULT_SIZE)
        self.controls = (self.batch, self.kind, self.size)

    def read(self) -> tuple[tuple[BatchRequest, ...], str, int]:
        """Requests, kind and size of the mask. Errors: ScenarioError."""
        return parse_batch(self.batch.value), self.kind.value, tokens(self.size.value)


class Part:
    """One page of the tab. `show` gets a plan of flex attention, and only while it is open."""

    title: ClassVar[str]

    def __init__(self, owner: Panel) -> None:
        self.session = owner.session
        self.show_error, self.clear_error = owner.show_error, owner.clear_error
        self._lock = threading.RLock()  # a plan comes on one thread, an input on another
        self._plan: Plan | None = None
        self.widget = widgets.VBox()

    def show(self, plan: Plan) -> None:
        """Show `plan`."""
        raise NotImplementedError

    def forget(self) -> None:
        """There is no plan to show."""
        self._plan = None

    def remedy_buttons(self, plan: Plan) -> list[widgets.Button]:
        """Buttons for what was tried against the problems of flex attention."""
        buttons = []
        for problem in plan.problems:
            if not problem.code.startswith("flex_"):
                continue
            for remedy in plan.remedies(problem):
                if remedy.plan.backend != FLEX:
                    continue
                changes = {"backend": FLEX, **remedy.changes}
                buttons.append(
                    apply_button(
                        f"Apply {remedy.text}",
                        f"Tried: {remedy.plan!r}",
                        partial(self._apply, changes),
                    )
                )
        return buttons

    @guarded
    def _apply(self, changes: dict[str, Any], _button: widgets.Button) -> None:
        self.session.replace(**changes)


class LaunchingPart(Part):
    """A part with buttons that launch. The newest request wins; the one before is asked to stop."""

    def __init__(self, owner: Panel) -> None:
        super().__init__(owner)
        self.pending: Future[Any] | None = None
        self._stop: StopFlag | None = None
        self.stop_button = button("Stop", "Ask the running launch to end")
        self.stop_button.disabled = True
        self.stop_button.on_click(self._stopped)
        self.status = widgets.HTML()

    def show(self, plan: Plan) -> None:
        """See `Part.show`: what ran for another plan is stopped, and marked as stale."""
        with self._lock:
            changed = self._plan is not None and plan.fingerprint != self._plan.fingerprint
            self._plan = plan
        if changed:
            self.cancel()
            self.mark_stale()

    def forget(self) -> None:
        """See `Part.forget`."""
        super().forget()
        self.cancel()

    def mark_stale(self) -> None:
        """What is shown belongs to another plan."""
        raise NotImplementedError

    def cancel(self) -> None:
        """Ask what runs to stop; it is heard between two launches."""
        with self._lock:
            if self._stop is not None:
                self._stop.request()
                self.status.value = document("<p>Stopping ...</p>")

    def start(self, job: Callable[[StopFlag], Result], done: Callable[[Result], None]) -> None:
        """Run `job` in the launching thread, then `done` with its result, there too."""
        from workbench.run.flex_jobs import StopFlag

        stop = StopFlag()
        with self._lock:
            self.cancel()
            self._stop = stop
            self.stop_button.disabled = False
            self.status.value = document("<p>Running ...</p>")
            self.pending = launch(partial(_unless_stopped, stop, job))
        self.pending.add_done_callback(partial(self._landed, stop, done))

    def say(self, stop: StopFlag, words: str) -> None:
        """How far the job with this bell is; nothing once another one has begun."""
        with self._lock:
            if self._stop is stop and not stop.requested:
                self.status.value = document(f"<p>{escape(words)}</p>")

    @guarded
    def _stopped(self, _button: Any) -> None:
        self.cancel()

    @guarded
    def _landed(self, stop: StopFlag, done: Callable[[Any], None], future: Future[Any]) -> None:
        """In the launching thread: show what came, or why nothing did."""
        from workbench.run.flex_jobs import Stopped

        with self._lock:
            if self._stop is not stop:
                return  # a newer request is on its way
            self._stop = None
            self.stop_button.disabled = True
            self.status.value = ""
        self.clear_error()
        try:
            result = future.result()
        except Stopped:
            self.status.value = document("<p>Stopped.</p>")
        except ScenarioError as error:
            self.refuse(error)
        except TritonModeError as error:
            self.refuse(ScenarioError("no_kernel_can_run", str(error)))
        else:
            done(result)

    def refuse(self, error: ScenarioError) -> None:
        """Say what was refused; what is shown below stays, greyed out."""
        self.status.value = document(refusal_html(error))
        self.mark_stale()


def _unless_stopped(stop: StopFlag, job: Callable[[StopFlag], Result]) -> Result:
    stop.check()  # it may have waited behind the job that it replaced
    return job(stop)


def tokens(typed: str) -> int:
    """A typed number of tokens. Errors: ScenarioError."""
    digits = typed.strip().replace(",", "")
    if digits.isdecimal() and digits.isascii():
        return int(digits[:12])
    raise ScenarioError(
        "wrong_type",
        "The size of the mask is a whole number of tokens, at least 1; got "
        f"{typed[:40]!r}. Nearest valid value: {DEFAULT_SIZE}.",
        field="batch",
    )
