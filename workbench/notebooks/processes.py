"""The processes of a run: none of them stays."""

import contextlib
import ctypes
import sys
import time

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


def _alive_descendants(process: psutil.Process) -> list[psutil.Process]:
    found = []
    with contextlib.suppress(psutil.NoSuchProcess):
        for each in process.children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if each.status() != psutil.STATUS_ZOMBIE:
                    found.append(each)
    return found
