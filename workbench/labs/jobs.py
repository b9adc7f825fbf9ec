"""Jobs: one thread per lane; kernels run on the caller's device, without gradients."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import cache, partial
from queue import SimpleQueue
from typing import Any, TypeVar

Result = TypeVar("Result")
KERNELS, PROCESSES, SWEEPS = "kernels", "processes", "sweeps"
CHOICES, MEASUREMENTS = "choices", "measurements"
"""Lanes: kernels are launched, another program is waited for, many scenarios are resolved; legal
values of pickers are found, which takes milliseconds; other processes measure, which takes hours.
"""
FIRST_DEVICE = -1
"""No other device was made current: torch then leaves its first one as it is."""


class Stopped(Exception):  # noqa: N818 - nothing went wrong
    """The job was stopped on request."""


class Job:
    """One run of a lab: a request to stop, set from any thread, and a report of its progress.

    report: called in the thread of the job with a sentence that says how far it is.
    """

    def __init__(self, report: Callable[[str], None] | None = None) -> None:
        self._stop = threading.Event()
        self.report = report or (lambda _text: None)

    def stop(self) -> None:
        """Request the job to stop."""
        self._stop.set()

    @property
    def stopping(self) -> bool:
        """Return whether a stop was requested."""
        return self._stop.is_set()

    def check(self) -> None:
        """Raise Stopped if a stop was requested; a lab calls this between two launches."""
        if self.stopping:
            raise Stopped


class _DaemonThread(Executor):
    """One thread that runs one work after the other, and that no exit waits for."""

    def __init__(self, name: str) -> None:
        self._waiting: SimpleQueue[Callable[[], None]] = SimpleQueue()
        threading.Thread(target=self._serve, name=name, daemon=True).start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Run `fn` after all earlier work."""
        future: Future[Any] = Future()
        self._waiting.put(partial(_fulfil, future, partial(fn, *args, **kwargs)))
        return future

    def _serve(self) -> None:
        while True:
            self._waiting.get()()


def _fulfil(future: Future[Any], work: Callable[[], Any]) -> None:
    try:
        future.set_result(work())
    except BaseException as error:  # noqa: BLE001 - the future carries it
        future.set_exception(error)


@cache
def _worker(lane: str) -> Executor:
    """Return the thread of a lane. An exit waits for kernels: torch cannot be left in a call."""
    name = f"workbench-{lane}"
    if lane == KERNELS:
        return ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
    return _DaemonThread(name)


def launch(work: Callable[[], Result], lane: str = KERNELS) -> Future[Result]:
    """Run `work` in the thread of its lane, after all earlier work of that lane.

    The caller's current GPU is passed on: torch keeps one per thread.
    """
    if lane == KERNELS:
        return _worker(lane).submit(_on_device, _current_device(), work)
    return _worker(lane).submit(work)


def _current_device() -> int:
    """Return the GPU of this thread; importing torch here would make a click wait for it."""
    torch = sys.modules.get("torch")
    chosen = torch is not None and torch.cuda.is_initialized()
    return torch.cuda.current_device() if torch is not None and chosen else FIRST_DEVICE


def _on_device(device: int, work: Callable[[], Result]) -> Result:
    import torch

    with torch.cuda.device(device), torch.inference_mode():
        return work()
