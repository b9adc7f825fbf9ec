"""Whose turn it is to write: the processes of a machine wait in a queue, first come, first served.

SQLite's own lock decides who may write; its waiters poll, so one of eight can lose thirty times in
a row. A lock of the system (flock) keeps its waiters in order and wakes the next one. It only
orders the processes: where it is not available, polling decides as before.
"""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from workbench.access.files import FLAGS

if sys.platform != "win32":
    import fcntl


@contextmanager
def turn(path: Path, most_s: float) -> Iterator[None]:
    """Wait until no other process of this machine is before this one, at most so many seconds.

    path: the results file. The lock is on its write-ahead log: closing any other handle of the file
    itself would release SQLite's locks. It ends with the process.
    """
    handle = None if sys.platform == "win32" else _opened(path.with_name(f"{path.name}-wal"))
    if handle is None:
        yield
        return
    waiter = _Waiter(handle)
    try:
        waiter.wait(most_s)
        yield
    finally:
        waiter.end()


def _opened(path: Path) -> int | None:
    with suppress(OSError):  # without a write-ahead log: on a network, or not yet
        return os.open(path, FLAGS)  # never waits, whatever is there
    return None


class _Waiter:
    """A place in the queue; the handle is closed once nothing waits for it."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._guard = threading.Lock()
        self._has_ended = self._is_waiting = False

    def wait(self, most_s: float) -> None:
        """Return with the lock, or without it after so many seconds."""
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._is_waiting = True
            thread = threading.Thread(target=self._block, name="turn to write", daemon=True)
            thread.start()  # flock has no time limit, and nothing interrupts it
            thread.join(most_s)
        except OSError:  # a file system without such locks
            pass

    def _block(self) -> None:
        with suppress(OSError):
            fcntl.flock(self._handle, fcntl.LOCK_EX)
        with self._guard:
            self._is_waiting = False
            if self._has_ended:
                os.close(self._handle)

    def end(self) -> None:
        """Give the turn to the next one."""
        with self._guard:
            self._has_ended = True
            if not self._is_waiting:
                with suppress(OSError):
                    fcntl.flock(self._handle, fcntl.LOCK_UN)
                os.close(self._handle)
