"""The job runner of a panel: work leaves the callback's thread, and its result is shown."""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import nullcontext
from functools import partial
from html import escape
from typing import Any

import ipywidgets as widgets

from workbench.core.errors import ScenarioError, WorkbenchError
from workbench.door.session import guarded
from workbench.kernels.errors import BlockTableError
from workbench.kernels.inspection import InspectionError
from workbench.kernels.mode import TritonModeError
from workbench.labs.jobs import KERNELS, Job, Stopped, launch
from workbench.ui.panels.panel import Panel
from workbench.ui.pieces import button, close_tree
from workbench.views.html import document, refusal_html

Work = Callable[[Job], Any]
Done = Callable[[Any], None]
REFUSED = (WorkbenchError, BlockTableError, InspectionError, TritonModeError)
"""Errors that say what you can change; any other is a defect of ours."""


class JobRunner:
    """The jobs of a panel's buttons. The newest wins; the previous one is requested to stop.

    on_refusal: called after a refusal, to mark what is shown as stale. on_end: called in the
    thread of the newest job after all of it. lane: see `workbench.labs.jobs.launch`.
    """

    def __init__(
        self,
        owner: Panel,
        on_refusal: Callable[[], None] = lambda: None,
        on_end: Callable[[], None] = lambda: None,
        lane: str = KERNELS,
    ) -> None:
        self._owner, self.session, self.show_error = owner, owner.session, owner.show_error
        self._on_refusal, self._on_end, self._lane = on_refusal, on_end, lane
        self._lock = threading.RLock()
        self._job: Job | None = None
        self.pending: Future[None] | None = None
        self.status = widgets.HTML()
        self.stop_button = button("Stop", "Stop the running job.", disabled=True)
        owner.press(self.stop_button, self.cancel)
        owner.when_closed(self._close)

    def start_with(
        self,
        pressed: widgets.Button,
        prepare: Callable[[], tuple[Work, Done] | None],
        busy: str = "Running ...",
    ) -> None:
        """Start what `prepare` returns when the button is pressed; show an input's refusal."""

        def start() -> None:
            self._owner.clear_error()
            try:
                prepared = prepare()
            except WorkbenchError as error:
                self.refuse(error)
            else:
                if prepared is not None:
                    self._start(*prepared, busy)

        self._owner.press(pressed, start)

    def _close(self) -> None:
        self.cancel()
        close_tree(self.stop_button)  # some panels show none

    def _start(self, work: Work, done: Done, busy: str) -> None:
        """Run `work` in the thread of the lane, then `done` with its result, there too."""
        job = Job()
        job.report = lambda text: None if job.stopping else self._say(job, text)
        with self._lock:
            self.cancel()
            self._job = job
            self.stop_button.disabled = False
            self._say(job, busy)
            self.pending = launch(partial(self._run, job, work, done), self._lane)

    def cancel(self) -> None:
        """Request the running job to stop; it notices between two launches or programs."""
        with self._lock:
            if self._job is not None:
                self._job.stop()
                self._say(self._job, "Stopping ...")

    def refuse(self, error: Exception) -> None:
        """Show a refusal, also of an input; what was shown before stays, and is stale."""
        if not isinstance(error, WorkbenchError):
            error = ScenarioError("not_done", str(error))
        self.status.value = document(refusal_html(error))
        self._on_refusal()

    def _say(self, job: Job, text: str) -> None:
        with self._lock:
            if self._job is job:
                self.status.value = document(f"<p>{escape(text)}</p>") if text else ""

    @guarded
    def _run(self, job: Job, work: Work, done: Done) -> None:
        try:
            shown = self._outcome(job, work, done)
            if self._job is job:
                shown()
        finally:
            with self._lock:
                newest = self._job is job
                if newest:
                    self._job = None
                    self.stop_button.disabled = True
            if newest:
                self._on_end()

    def _outcome(self, job: Job, work: Work, done: Done) -> Callable[[], None]:
        """Do the work; return the function that shows the result, or why there is none."""
        try:
            job.check()  # it may have waited for the job that it replaces
            with job.stops_launches() if self._lane == KERNELS else nullcontext():
                return partial(done, work(job))
        except Stopped:
            return partial(self._say, job, "Stopped.")
        except REFUSED as error:
            return partial(self.refuse, error)
        finally:
            self._say(job, "")
