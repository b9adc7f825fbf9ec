"""The part of the tab "Tuning" that measures: rows as they arrive, Stop, and go on tomorrow."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from concurrent.futures import Future, wait
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

import ipywidgets as widgets

from workbench.access.app_mode import AppRefusal, output_path
from workbench.run.store import ResultStore, Row, StoreError
from workbench.run.sweeps.cluster import ClusterError, cluster
from workbench.run.sweeps.execute import Sweep
from workbench.run.sweeps.kernel_session import KERNELS, Chosen, SweptKernel
from workbench.run.sweeps.lanes import LaneLostError, in_thread
from workbench.run.sweeps.place import Place, here
from workbench.ui.session import RecordedError, Session, guarded
from workbench.views import html
from workbench.views.sweep_progress import (
    export_hint,
    measured_html,
    note_html,
    progress_text,
    winners_html,
)

REFRESH_S = 0.25
READ_ONLY = "Nothing is measured; this is what the file holds."


@dataclass(frozen=True, slots=True)
class _Asked:
    """A request: where results are kept and points are measured, and the way to stop it."""

    path: str
    where: str
    kernel: SweptKernel
    bitwise: bool
    stopping: threading.Event


class KernelTuning:
    """Controls, a progress bar, the newest rows of a kernel sweep, and who wins."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.sweep: Sweep | None = None
        self._rows: list[dict[str, Any]] = []
        self._newest = _Asked("", "", next(iter(KERNELS.values())), False, threading.Event())
        self._thread: threading.Thread | None = None
        self.kernel = widgets.Dropdown(
            options=[(kernel.title, name) for name, kernel in KERNELS.items()],
            description="Swept kernel",
            tooltip="Which kernel is measured",
            style={"description_width": "initial"},
        )
        self.file = widgets.Text(
            value="results.db",
            description="Results in",
            tooltip="What is in the file already is not measured again",
            continuous_update=False,
            layout=widgets.Layout(width="360px"),
        )
        self.where = widgets.Text(
            placeholder="this machine",
            description="Measure on",
            tooltip="This machine, or the address of a Dask scheduler: tcp://host:8786",
            continuous_update=False,
        )
        self.bitwise = widgets.Checkbox(
            description="equal bits",
            tooltip="One configuration for every batch, so that bits do not depend on it",
            indent=False,
            layout=widgets.Layout(width="auto"),
        )
        self.start = widgets.Button(description="Measure kernel")
        self.stop = widgets.Button(description="Stop measuring", disabled=True)
        self.bar = widgets.IntProgress(layout=widgets.Layout(width="180px"))
        self._text, self._table, self._error, self._notes, self._winners = (
            widgets.HTML() for _ in range(5)
        )
        row = widgets.Layout(flex_flow="row wrap")
        self.widget = widgets.VBox(
            [
                widgets.HTML(html.document("<h4>Measure a kernel</h4>")),
                self._error,
                widgets.HBox([self.kernel, self.where, self.file, self.bitwise], layout=row),
                widgets.HBox([self.start, self.stop, self.bar, self._text], layout=row),
                self._notes,
                self._winners,
                self._table,
            ]
        )
        self.start.on_click(self._start)
        self.stop.on_click(self._stop)
        self.kernel.observe(self._other_kernel, names="value")

    def show_error(self, error: RecordedError) -> None:
        """See `workbench.ui.session.Guarded`."""
        from workbench.ui.panels.panel import error_html

        self._error.value = error_html(error)

    def wait(self, timeout_s: float = 120.0) -> bool:
        """For tests and cells: wait until nothing is measured; whether that is so."""
        if self._thread is None:
            return True
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @guarded
    def _other_kernel(self, _change: Any) -> None:
        self.bitwise.disabled = KERNELS[self.kernel.value].one_for_all

    @guarded
    def _start(self, _button: Any) -> None:
        """The newest request wins: what is measured is stopped, and its points stay missing."""
        kernel = KERNELS[self.kernel.value]
        asked = _Asked(
            self.file.value.strip(),
            self.where.value.strip(),
            kernel,
            self.bitwise.value and not kernel.one_for_all,
            threading.Event(),
        )
        self._newest.stopping.set()
        self._newest = asked
        self._thread = threading.Thread(target=self._run, args=(asked, self._thread), daemon=True)
        self._thread.start()

    @guarded
    def _run(self, asked: _Asked, before: threading.Thread | None) -> None:
        if before is not None:
            before.join()
        if asked is not self._newest:
            return
        self._error.value = self._notes.value = self._winners.value = self._table.value = ""
        self._rows.clear()
        self.bar.value = 0
        self.stop.disabled = False
        self._text.value = "Choosing what is legal and fits ..."
        try:
            with ResultStore(output_path(asked.path, ".db")) as store:
                if store.read_only:
                    self._notes.value = note_html((*store.notes, READ_ONLY))
                    self._text.value = ""
                else:
                    self._notes.value = note_html(store.notes)
                    self._measure(store, asked)
                self._show_stored(asked.kernel.rows(store), asked)
        except (AppRefusal, StoreError, ClusterError, LaneLostError) as error:
            self._text.value = ""
            self._error.value = html.document(
                f'<div class="wb-problem">✕ {escape(str(error))}</div>'
            )
        finally:
            self.sweep = None
            self.stop.disabled = True

    def _measure(self, store: ResultStore, asked: _Asked) -> None:
        kernel, stopping = asked.kernel, asked.stopping

        def choose() -> tuple[Place, Chosen]:
            place = cluster(asked.where) if asked.where else here()
            return place, kernel.chosen(place, bitwise=asked.bitwise)

        choosing = in_thread(choose)
        while not wait([choosing], REFRESH_S).done:
            if stopping.is_set():
                choosing.add_done_callback(_close_place)
                self._text.value = "Stopped before anything was measured."
                return
        place, chosen = choosing.result()
        with place:
            told = f"; on {place.device}; {chosen.candidates.left_out}"
            self.sweep = sweep = kernel.sweep(store, chosen, place=place, on_row=self._arrived)
            sweep.start()
            while not sweep.join(REFRESH_S):
                if stopping.is_set():
                    sweep.stop()
                self._show(sweep, kernel, told)
            self._show(sweep, kernel, told, "Stopped at " if stopping.is_set() else "Done: ")
            if sweep.error is not None:
                raise sweep.error

    def _arrived(self, row: Row) -> None:
        self._rows.append(row.to_dict())

    def _show(self, sweep: Sweep, kernel: SweptKernel, told: str, state: str = "") -> None:
        at = sweep.progress
        self.bar.max, self.bar.value = max(1, at.total), at.done
        left = None if state else at.remaining_s
        text = progress_text(at.done, at.total, at.per_second, left, at.failed)
        resumed = f", {at.resumed:,} of them from before" if at.resumed else ""
        self._text.value = state + text + resumed + escape(told)
        self._table.value = measured_html(self._rows, ("bucket", *kernel.fields))

    def _show_stored(self, rows: Iterable[Row], asked: _Asked) -> None:
        """Everything that the file holds of this kernel, newest first, and who wins."""
        told, kernel = sorted(rows, key=lambda row: row.measured_at), asked.kernel
        self._table.value = measured_html(
            [row.to_dict() for row in told], ("bucket", *kernel.fields)
        )
        shown = [
            winners_html(
                f"{one.device}, kernel {one.kernel_hash}",
                {bucket: asdict(found) for bucket, found in one.winners.items()},
                kernel.fields,
            )
            for one in kernel.winners(told, bitwise=asked.bitwise)
        ]
        if shown and kernel.name == "flex":
            shown.append(export_hint(asked.path, bitwise=asked.bitwise))
        self._winners.value = "".join(shown)

    @guarded
    def _stop(self, _button: Any) -> None:
        self._newest.stopping.set()
        if self.sweep is not None:
            self.sweep.stop()


def _close_place(choosing: Future[tuple[Place, Chosen]]) -> None:
    if choosing.exception() is None:
        choosing.result()[0].close()
