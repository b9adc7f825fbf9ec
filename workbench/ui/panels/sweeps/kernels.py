"""Measure a kernel: rows as they arrive, stop, and go on tomorrow."""

from concurrent.futures import Future, wait
from dataclasses import asdict, dataclass
from functools import partial
from html import escape
from typing import Any

import ipywidgets as widgets

from workbench.access.app_mode import output_path
from workbench.core.errors import ScenarioError
from workbench.door.session import Session
from workbench.labs.jobs import MEASUREMENTS, Job
from workbench.sweeps.kernels.cluster import ClusterError, cluster
from workbench.sweeps.kernels.execute import Sweep
from workbench.sweeps.kernels.fitting import Candidates
from workbench.sweeps.kernels.kernel_session import KERNELS, SweptKernel
from workbench.sweeps.kernels.lanes import LaneLostError, in_thread
from workbench.sweeps.kernels.place import Place, here
from workbench.sweeps.store import ResultStore, Row, StoreError
from workbench.ui.jobs import Done, JobRunner, Work
from workbench.ui.panels.panel import Panel
from workbench.ui.pieces import button, display, dropdown, grid, line, text_box
from workbench.views.sweeps import progress

REFRESH_S = 0.25
AHEAD = "Varies {}. Legal configurations are counted before the first one is measured."
READ_ONLY = "Read-only: showing stored results."


@dataclass(frozen=True, slots=True)
class _Request:
    """A request: where results are kept and points are measured, and of what."""

    path: str
    where: str
    kernel: SweptKernel
    bitwise: bool


class KernelTuning(Panel):
    """Controls, a progress bar, the newest rows of a kernel sweep, and who wins."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.sweep: Sweep | None = None
        self._rows: list[dict[str, Any]] = []
        self.jobs = JobRunner(self, lane=MEASUREMENTS)
        self.jobs.stop_button.description = "Stop measuring"
        kernels = [(kernel.title, name) for name, kernel in KERNELS.items()]
        self.kernel = dropdown("Kernel", kernels, tip="Which kernel is measured")
        tip = "Existing results are reused"
        self.file = text_box("Results in", "results.db", tip=tip)
        tip = "This machine, or the address of a Dask scheduler: tcp://host:8786"
        self.where = text_box("Machine", "", "this machine", tip)
        self.bitwise = widgets.Checkbox(
            description="Require bitwise equality",
            tooltip="One configuration for every batch, so that bits do not depend on it",
            indent=False,
            layout={"width": "auto"},
        )
        self.start = button("Measure kernel")
        self.bar = widgets.IntProgress(layout={"width": "180px"})
        display(self.bar, shown=False)
        self._text, self._table, self._notes, self._winners = (widgets.HTML() for _ in range(4))
        self.fill(
            grid([self.kernel, self.where, self.file, self.bitwise]),
            line(self.start, self.jobs.stop_button, self.bar, self._text),
            self.jobs.status,
            self._notes,
            self._winners,
            self._table,
        )
        self.jobs.start_with(self.start, self._start, "Choosing legal configurations ...")
        self.watch(self.kernel, then=self._other_kernel)
        self._other_kernel()

    def _other_kernel(self) -> None:
        kernel = KERNELS[self.kernel.value]
        self.bitwise.disabled = kernel.one_for_all
        if self.sweep is None:
            self._text.value = AHEAD.format(", ".join(kernel.fields))

    def _start(self) -> tuple[Work, Done]:
        """Start the newest request; what is measured is stopped, and its points stay missing."""
        kernel = KERNELS[self.kernel.value]
        bitwise = self.bitwise.value and not kernel.one_for_all
        request = _Request(self.file.value.strip(), self.where.value.strip(), kernel, bitwise)
        return partial(self._run, request), partial(self._show_stored, request)

    def _run(self, request: _Request, job: Job) -> list[Row]:
        """Measure what is missing in the file; return all its rows of this kernel."""
        for part in (self._text, self._notes, self._winners, self._table):
            part.value = ""
        self._rows.clear()
        self.bar.value = 0
        display(self.bar, shown=True)
        try:
            with ResultStore(output_path(request.path, ".db")) as store:
                notes = (*store.notes, READ_ONLY) if store.read_only else store.notes
                self._notes.value = progress.note_html(notes)
                if not store.read_only:
                    self._measure(store, request, job)
                return list(request.kernel.rows(store))
        except (StoreError, ClusterError, LaneLostError) as error:
            raise ScenarioError("not_measured", str(error)) from error
        finally:
            self.sweep = None

    def _measure(self, store: ResultStore, request: _Request, job: Job) -> None:
        def choose() -> tuple[Place, Candidates]:
            place = cluster(request.where) if request.where else here()
            return place, request.kernel.chosen(place, bitwise=request.bitwise)

        choosing = in_thread(choose)
        while not wait([choosing], REFRESH_S).done:
            if job.stopping:
                choosing.add_done_callback(_close_place)
                self._text.value = "Stopped before anything was measured."
                return
        place, chosen = choosing.result()
        with place:
            notes = f"; on {place.device}; {chosen.skipped_text}"
            kernel, arrived = request.kernel, self._arrived
            self.sweep = sweep = kernel.sweep(store, chosen, place=place, on_row=arrived)
            job.report("Measuring ...")
            sweep.start()
            while not sweep.join(REFRESH_S):
                if job.stopping:
                    sweep.stop()
                self._show(sweep, kernel, notes)
            state = "Stopped at " if job.stopping else "Done: "
            self._show(sweep, kernel, notes, state)
            if sweep.error is not None:
                raise sweep.error

    def _arrived(self, row: Row) -> None:
        self._rows.append(row.to_dict())

    def _show(self, sweep: Sweep, kernel: SweptKernel, notes: str, state: str = "") -> None:
        at = sweep.progress
        self.bar.max, self.bar.value = max(1, at.total), at.done
        left = None if state else at.remaining_s
        text = progress.progress_text(at.done, at.total, at.per_second, left, at.failed)
        resumed = f", {at.resumed:,} of them from before" if at.resumed else ""
        self._text.value = state + text + resumed + escape(notes)
        self._table.value = progress.measured_html(self._rows, ("bucket", *kernel.fields))

    def _show_stored(self, request: _Request, rows: list[Row]) -> None:
        """Everything that the file holds of this kernel, newest first, and who wins."""
        stored, kernel = sorted(rows, key=lambda row: row.measured_at), request.kernel
        self._table.value = progress.measured_html(
            [row.to_dict() for row in stored], ("bucket", *kernel.fields)
        )
        shown = [
            progress.winners_html(
                f"{one.device}, kernel {one.kernel_hash}",
                {bucket: asdict(found) for bucket, found in one.winners.items()},
                kernel.fields,
            )
            for one in kernel.winners(stored, bitwise=request.bitwise)
        ]
        if shown and kernel.name == "flex":
            shown.append(progress.export_hint(request.path, bitwise=request.bitwise))
        self._winners.value = "".join(shown)


def _close_place(choosing: Future[tuple[Place, Candidates]]) -> None:
    if choosing.exception() is None:
        choosing.result()[0].close()
