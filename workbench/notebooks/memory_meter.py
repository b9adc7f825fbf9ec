"""Measure the kernel's memory from outside while each cell runs."""

from __future__ import annotations

import contextlib
import threading
import time

import psutil

_EVERY_S = 0.02
_LOOK_FOR_CHILDREN_S = 0.5


class MemoryMeter:
    """Samples resident bytes of a process and its children in a thread, 50 times a second.

    A peak that lasts less than 20 ms can be missed; touching a gigabyte takes ten times as long.
    """

    def __init__(self, pid: int) -> None:
        self._kernel = psutil.Process(pid)
        self._family = [self._kernel]
        self._looked = 0.0
        self._start_bytes = self._peak_bytes = self.highest_bytes = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def begin_cell(self) -> None:
        """Start a new peak."""
        self._start_bytes = self._peak_bytes = self._sample()

    def end_cell(self) -> dict[str, int]:
        """Return the peak since `begin_cell`, and how far it is above the start."""
        self._sample()
        added_bytes = max(0, self._peak_bytes - self._start_bytes)
        return {"peak_bytes": self._peak_bytes, "added_bytes": added_bytes}

    def close(self) -> None:
        """End the thread."""
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(_EVERY_S):
            self._sample()

    def _sample(self) -> int:
        now = time.monotonic()
        total = 0
        # A process may end between two lines, the kernel itself included.
        with contextlib.suppress(psutil.Error):
            if now - self._looked > _LOOK_FOR_CHILDREN_S:
                self._looked = now
                self._family = [self._kernel, *self._kernel.children(recursive=True)]
        for process in self._family:
            with contextlib.suppress(psutil.Error):
                total += process.memory_info().rss
        self._peak_bytes = max(self._peak_bytes, total)
        self.highest_bytes = max(self.highest_bytes, total)
        return total
