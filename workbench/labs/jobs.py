"""Jobs: one thread per lane; kernels run on the caller's device, without gradients."""

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from queue import SimpleQueue
from typing import Any, TypeVar

from workbench.kernels.mode import triton_mode

Result = TypeVar("Result")
KERNELS, PROCESSES, SWEEPS = "kernels", "processes", "sweeps"
MEASUREMENTS, HUB = "measurements", "hub"
"""Lanes: kernels are launched, another program is waited for, many scenarios are resolved; other
processes measure, which takes hours; the hub answers.
"""
FIRST_DEVICE = -1
"""No other device was made current: torch then leaves its first one as it is."""


class Stopped(BaseException):
    """The job was stopped on request. Not an Exception: no code that handles errors takes it."""


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

    @contextmanager
    def stops_launches(self) -> Iterator[None]:
        """Stop between two programs as well, where Triton interprets: a launch takes minutes there.

        For one thread at a time: the interpreter is one object of the process.
        """
        if triton_mode().mode != "interpreter":
            yield
            return
        from triton.runtime.interpreter import interpreter_builder

        def checked(*program: int) -> None:
            self.check()
            type(interpreter_builder).set_grid_idx(interpreter_builder, *program)

        # an instance attribute: it hides the builder's own method until it is deleted
        interpreter_builder.set_grid_idx = checked
        try:
            yield
        finally:
            del interpreter_builder.set_grid_idx


@cache
def _kernel_thread() -> ThreadPoolExecutor:
    """Return the thread that launches. An exit waits for it: torch cannot be left in a call."""
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"workbench-{KERNELS}")


@cache
def _waiting(lane: str) -> SimpleQueue[tuple[Future[Any], Callable[[], Any]]]:
    """Return the work of a lane's thread, which no exit waits for."""
    waiting: SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = SimpleQueue()
    name = f"workbench-{lane}"
    threading.Thread(target=_serve, args=(waiting,), name=name, daemon=True).start()
    return waiting


def _serve(waiting: SimpleQueue[tuple[Future[Any], Callable[[], Any]]]) -> None:
    while True:
        future, work = waiting.get()
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 - the future carries it
            future.set_exception(error)


def launch(work: Callable[[], Result], lane: str = KERNELS) -> Future[Result]:
    """Run `work` in the thread of its lane, after all earlier work of that lane.

    The caller's current GPU is passed on: torch keeps one per thread.
    """
    if lane == KERNELS:
        return _kernel_thread().submit(_on_device, _current_device(), work)
    future: Future[Result] = Future()
    _waiting(lane).put((future, work))
    return future


def _current_device() -> int:
    """Return the GPU of this thread; importing torch here would make a click wait for it."""
    torch = sys.modules.get("torch")
    chosen = torch is not None and torch.cuda.is_initialized()
    return torch.cuda.current_device() if torch is not None and chosen else FIRST_DEVICE


def _on_device(device: int, work: Callable[[], Result]) -> Result:
    import torch

    with torch.cuda.device(device), torch.inference_mode():
        return work()
