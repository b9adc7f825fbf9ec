"""The part of the tab "Tuning" that measures: rows as they arrive, Stop, and go on tomorrow."""

from __future__ import annotations

import threading
from html import escape
from typing import Any

import ipywidgets as widgets

from workbench.run.store import ResultStore, Row, StoreError
from workbench.run.sweeps.execute import Sweep
from workbench.ui.session import RecordedError, Session, guarded
from workbench.views import html
from workbench.views.sweep_progress import measured_html, progress_text

FIELDS = ("bucket", "block_m", "block_n", "num_warps", "decode_n", "split_tokens")
REFRESH_S = 0.25


class KernelTuning:
    """Controls, a progress bar and the newest rows of a sweep of the paged flex kernel."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.sweep: Sweep | None = None
        self._rows: list[dict[str, Any]] = []
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self.file = widgets.Text(
            value="results.db",
            description="Results in",
            tooltip="What is in the file already is not measured again",
            continuous_update=False,
        )
        self.bitwise = widgets.Checkbox(description="equal bits", indent=False)
        self.start = widgets.Button(description="Measure kernel", icon="play")
        self.stop = widgets.Button(description="Stop measuring", icon="stop", disabled=True)
        self.bar = widgets.IntProgress(layout=widgets.Layout(width="180px"))
        self._text, self._table, self._error = (widgets.HTML() for _ in range(3))
        self.widget = widgets.VBox(
            [
                widgets.HTML(html.document("<h4>Measure the paged flex kernel</h4>")),
                self._error,
                widgets.HBox([self.file, self.bitwise, self.start, self.stop]),
                widgets.HBox([self.bar, self._text]),
                self._table,
            ]
        )
        self.start.on_click(self._start)
        self.stop.on_click(self._stop)

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
    def _start(self, _button: Any) -> None:
        self._error.value = ""
        self._stopping.clear()
        self._rows.clear()
        self.start.disabled, self.stop.disabled = True, False
        self._text.value = "Choosing what is legal and fits ..."
        path, bitwise = self.file.value.strip(), self.bitwise.value
        self._thread = threading.Thread(target=self._run, args=(path, bitwise), daemon=True)
        self._thread.start()

    @guarded
    def _run(self, path: str, bitwise: bool) -> None:
        try:
            with ResultStore(path) as store:
                self._measure(store, bitwise)
        except StoreError as error:
            self._error.value = html.document(f"<p>✕ {escape(str(error))}</p>")
        finally:
            self.sweep = None
            self.start.disabled, self.stop.disabled = False, True

    def _measure(self, store: ResultStore, bitwise: bool) -> None:
        from workbench.run.sweeps.flex_session import flex_candidates, flex_sweep

        found, buckets = flex_candidates(bitwise=bitwise)
        left_out = sum(found.illegal.values()), sum(found.unfit.values())
        told = f"; {left_out[0]} illegal and {left_out[1]} unfit configurations left out"
        if self._stopping.is_set():
            return
        self.sweep = sweep = flex_sweep(store, found.configs, buckets, on_row=self._arrived)
        sweep.start()
        while not sweep.join(REFRESH_S):
            if self._stopping.is_set():
                sweep.stop()
            self._show(sweep, told)
        sweep.close()
        self._show(sweep, told + (", stopped" if self._stopping.is_set() else ", done"))
        if sweep.error is not None:
            raise sweep.error

    def _arrived(self, row: Row) -> None:
        self._rows.append(row.to_dict())

    def _show(self, sweep: Sweep, told: str) -> None:
        at = sweep.progress
        self.bar.max, self.bar.value = max(1, at.total), at.done
        text = progress_text(at.done, at.total, at.per_second, at.remaining_s, at.failed)
        self._text.value = text + told
        self._table.value = measured_html(self._rows, FIELDS)

    @guarded
    def _stop(self, _button: Any) -> None:
        self._stopping.set()
        if self.sweep is not None:
            self.sweep.stop()
