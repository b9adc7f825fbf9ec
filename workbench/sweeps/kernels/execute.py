"""Measure points: what is missing, one point at a time on every lane, stored as it arrives."""

from __future__ import annotations

import importlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from typing import Any

from workbench.sweeps.kernels.lanes import Lane, LaneLostError, WorkerDiedError
from workbench.sweeps.store import LEASE_S, Key, ResultStore, Row

POLL_S = 0.1
STATUS_OF = {
    "MemoryError": "oom",
    "OutOfMemoryError": "oom",
    "OutOfResources": "unfit",
    "CompilationError": "compile_error",
    "CompileTimeAssertionFailure": "compile_error",
    "PTXASError": "compile_error",
}
"""Name of an exception -> status of the row; others are "failed"."""
MEASURED = frozenset(field.name for field in fields(Row)) - {"key", "measured_at"}
"""What a measurement may tell: fields of a row."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a sweep is."""

    total: int
    resumed: int = 0
    """Rows that were there before."""
    measured: int = 0
    failed: int = 0
    elsewhere: int = 0
    """Points that another session has claimed."""
    seconds: float = 0.0
    """Since the start."""
    is_running: bool = False

    @property
    def done(self) -> int:
        """Return the number of points with a row."""
        return self.resumed + self.measured

    @property
    def per_second(self) -> float | None:
        """Return the points measured per second; None before the first."""
        return self.measured / self.seconds if self.measured and self.seconds else None

    @property
    def remaining_s(self) -> float | None:
        """Return the seconds that the rest takes at this rate; None while there is none."""
        left = self.total - self.done - self.elsewhere
        return None if self.per_second is None else left / self.per_second


class Sweep:
    """Points that are measured and stored. `run` here, or `start` in a thread and `stop`.

    measure: "module:function", a function of one configuration (a mapping) that returns fields of a
    row; it is imported where the lane is. lanes: one point at a time each. on_row: called with
    every row as soon as it is on the disk, on the thread that runs. timeout_s: a process that
    takes longer is ended, and the row says so. Errors of `run`: LaneLostError when no lane is left.
    """

    def __init__(
        self,
        store: ResultStore,
        keys: Iterable[Key],
        measure: str,
        lanes: Sequence[Lane] | None = None,
        *,
        on_row: Callable[[Row], None] | None = None,
        timeout_s: float = 600.0,
    ) -> None:
        self.store = store
        self.keys = tuple(dict.fromkeys(keys))
        self._measure = measure
        self._lanes = tuple(lanes) if lanes is not None else (Lane(),)
        self._on_row = on_row or (lambda _row: None)
        self._timeout_s = timeout_s
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._beginning: Key | None = None
        self._tried: set[Key] = set()
        self._lost: LaneLostError | None = None
        self._progress = Progress(len(self.keys))
        self._began = 0.0
        self.error: BaseException | None = None

    @property
    def progress(self) -> Progress:
        """Return how many points are done."""
        present = self._progress
        if not present.is_running:
            return present
        return replace(present, seconds=time.monotonic() - self._began)

    def start(self) -> None:
        """Run in a thread of its own."""
        self._thread = threading.Thread(target=self._run_in_thread, daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float = 5.0) -> bool:
        """Begin nothing more, and end the processes that measure; whether everything has ended."""
        self._stopping.set()
        for lane in self._lanes:
            lane.kill()
        return self.join(timeout_s)

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait for the end; False: not yet."""
        if self._thread is None:
            return True
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def run(self) -> Progress:
        """Measure what is missing; returns when all is done, or after `stop`."""
        self._pending = deque(self.store.missing(self.keys))
        self._free = list(self._lanes)
        self._running: dict[Future[Any], _Running] = {}
        resumed = len(self.keys) - len(self._pending)
        self._began = time.monotonic()
        self._progress = replace(self._progress, resumed=resumed, is_running=True)
        running, stopping = self._running, self._stopping
        try:
            while (self._pending or running) and not stopping.is_set():
                while self._free and self._pending and not stopping.is_set():
                    self._begin(self._pending.popleft())
                done, _ = wait(running, POLL_S, FIRST_COMPLETED) if running else (set(), None)
                for future in done:
                    if not stopping.is_set():
                        self._keep(running.pop(future), future)
                if self._lost and not (self._free or running):
                    raise self._lost
                self._look_after()
        finally:
            for future, left in running.items():
                future.add_done_callback(_expect)
                left.lane.kill()
                self.store.release(left.key)
            if self._beginning is not None:
                self.store.release(self._beginning)
            self._progress = replace(self.progress, is_running=False)
        return self._progress

    def _run_in_thread(self) -> None:
        try:
            self.run()
        except BaseException as error:  # noqa: BLE001 - reported by the view of the sweep
            self.error = error

    def _begin(self, key: Key) -> None:
        # An interrupt can come between any two lines; the end of the run releases this claim, too.
        self._beginning = key
        if self.store.claim(key, LEASE_S):
            lane, now = self._free.pop(), time.monotonic()
            future = lane.submit(measured, self._measure, key.config_values)
            self._running[future] = _Running(key, lane, now, now)
        else:
            self._progress = replace(self._progress, elsewhere=self._progress.elsewhere + 1)
        self._beginning = None

    def _keep(self, one: _Running, future: Future[Any]) -> None:
        error = future.exception()
        if isinstance(error, LaneLostError):
            self._lost = error
            self.store.release(one.key)
            self._pending.appendleft(one.key)
            return
        self._free.append(one.lane)
        if error is None:
            self._store(_row(one.key, future.result()))
        elif isinstance(error, WorkerDiedError) and one.key not in self._tried:
            # It may have been killed from outside; a fault of the point itself comes again.
            self._tried.add(one.key)
            self._pending.append(one.key)
        elif isinstance(error, WorkerDiedError):
            self._store(_failed(one.key, "crashed", f"twice: {error}"))
        else:
            self._store(_failed(one.key, "failed", f"{type(error).__name__}: {error}"))

    def _store(self, row: Row) -> None:
        if self.store.put(row):
            present = self._progress
            failed = present.failed + (row.status != "ok")
            self._progress = replace(present, measured=present.measured + 1, failed=failed)
            self._on_row(row)

    def _look_after(self) -> None:
        """Prolong the claims of what still runs, and end what runs too long."""
        now = time.monotonic()
        for future, one in list(self._running.items()):
            if now - one.claimed > LEASE_S / 3:
                self.store.claim(one.key, LEASE_S)
                self._running[future] = replace(one, claimed=now)
            if now - one.began > self._timeout_s and not future.done():
                del self._running[future]
                future.add_done_callback(_expect)
                one.lane.kill()
                self._free.append(one.lane)
                message = f"no answer within {self._timeout_s:g} s"
                self._store(_failed(one.key, "timeout", message))


def _expect(ended: Future[Any]) -> None:
    """Read the error of a point whose lane is ended on purpose: no error goes unread."""
    with suppress(CancelledError):
        ended.exception()


@dataclass(frozen=True, slots=True)
class _Running:
    key: Key
    lane: Lane
    began: float
    claimed: float


def measured(measure: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """Call "module:function" with a configuration; what it raises becomes a status."""
    module, _, name = measure.partition(":")
    function = getattr(importlib.import_module(module), name)
    try:
        found = dict(function(config))
    except Exception as error:  # noqa: BLE001 - a configuration that fails is a result
        kind = type(error).__name__
        return {"status": STATUS_OF.get(kind, "failed"), "message": f"{kind}: {error}"[:500]}
    if unknown := found.keys() - MEASURED:
        return {"status": "failed", "message": f"{measure} returns unknown fields: {unknown}"}
    return found


def _row(key: Key, found: Mapping[str, Any]) -> Row:
    try:
        return Row.from_dict(Row(key, **found, measured_at=time.time()).to_dict())
    except (TypeError, ValueError) as error:
        return _failed(key, "failed", f"not a row: {error}")


def _failed(key: Key, status: str, message: str) -> Row:
    text = message.encode(errors="replace").decode()  # a path of another encoding
    return Row(key=key, status=status, message=text[:500], measured_at=time.time())
