"""The processes of a run: none of them stays."""

import contextlib
import ctypes
import sys
import time
from collections.abc import Iterator

import psutil

REMOVAL_S = 20.0
_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends, also of one in a new session."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_descendants(process: psutil.Process) -> None:
    """Kill everything that a process has started, and what that starts meanwhile."""
    end = time.monotonic() + REMOVAL_S
    while (alive := _alive_descendants(process)) and time.monotonic() < end:
        for each in alive:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        time.sleep(0.01)


def end_marked(variable: str, value: str) -> None:
    """Kill every process with this variable: of one whose parent was killed, little else is known.

    It inherited the variable from that one.
    """
    end = time.monotonic() + REMOVAL_S
    while (alive := list(_marked(variable, value))) and time.monotonic() < end:
        for each in alive:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        time.sleep(0.01)


def _marked(variable: str, value: str) -> Iterator[psutil.Process]:
    for each in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):  # of another user, or ending
            if each.environ().get(variable) == value and each.status() != psutil.STATUS_ZOMBIE:
                yield each


def _alive_descendants(process: psutil.Process) -> list[psutil.Process]:
    found = []
    with contextlib.suppress(psutil.NoSuchProcess):
        for each in process.children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if each.status() != psutil.STATUS_ZOMBIE:
                    found.append(each)
    return found
