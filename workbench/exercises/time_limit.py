"""A limit on what a learner's answer computes: an endless loop becomes an error with its line."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

MOST_SECONDS = 60.0
"""Of computing, not of waiting: a busy machine does not shorten it. Answers take a few at most."""
AGAIN_SECONDS = 1.0
"""Until it is raised again, for a loop that catches every error."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise TimeoutError in the answer after so many seconds of computing.

    Only the main thread can be interrupted, and not on Windows: without a limit otherwise.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(
        signal, "setitimer"
    ):
        yield
        return

    def stop(_number: int, _frame: object) -> None:
        raise TimeoutError(f"no end after {seconds:g} seconds of computing: an endless loop?")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, AGAIN_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
