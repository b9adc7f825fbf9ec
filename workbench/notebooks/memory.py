"""The memory of a run, measured all the time; a kernel over the limit is ended."""

import contextlib
import threading
import time
from dataclasses import dataclass

import psutil

from workbench.notebooks.processes import end_descendants

_SAMPLE_EVERY_S = 0.02
_LOOK_FOR_CHILDREN_S = 0.2


@dataclass(frozen=True, slots=True)
class Limits:
    """What ends a run, in bytes: memory of all its processes, and what its cells show."""

    memory_bytes: int
    output_bytes: int


class MemoryLimitError(Exception):
    """The kernel was ended because it took more memory than it may."""


class MemoryMeter:
    """Samples resident bytes of all processes of a run in a thread, 50 times a second.

    They are what this process has started: the kernel, its children, and what has left them. A
    peak that lasts less than 20 ms can be missed; touching a gigabyte takes ten times as long.
    Over the limit, all of them are killed: no operating system limits a family of processes to
    the memory that it really holds, and a kernel in native code notices no interrupt.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._family: list[psutil.Process] = []
        self._looked = 0.0
        self._start_bytes = self._peak_bytes = self.highest_bytes = 0
        self.over_limit = False
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
        while not self._stop.wait(_SAMPLE_EVERY_S):
            if self._sample() > self._limit_bytes:
                self.over_limit = True
                end_descendants(psutil.Process())

    def _sample(self) -> int:
        now = time.monotonic()
        total = 0
        if now - self._looked > _LOOK_FOR_CHILDREN_S:
            # A process may end between two lines.
            with contextlib.suppress(psutil.Error):
                self._looked = now
                self._family = psutil.Process().children(recursive=True)
        for process in self._family:
            with contextlib.suppress(psutil.Error):
                total += process.memory_info().rss
        self._peak_bytes = max(self._peak_bytes, total)
        self.highest_bytes = max(self.highest_bytes, total)
        return total
