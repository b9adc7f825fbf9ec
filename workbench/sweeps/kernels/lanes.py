"""Lanes that measure points: here, or in a process of one GPU; `cluster` has other machines.

A lane has one point at a time: two timings never share a device.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from typing import Any, TypeVar

Result = TypeVar("Result")
VISIBLE = "CUDA_VISIBLE_DEVICES"


class WorkerDiedError(RuntimeError):
    """The process of a lane ended before it answered; the message says how."""


class LaneLostError(RuntimeError):
    """A lane takes no more points; the message says what is gone. The point was not measured."""


class Lane:
    """Runs a point in the calling thread, for what is quick: one that runs cannot be stopped."""

    def submit(self, fn: Callable[..., Result], *args: Any) -> Future[Result]:
        """Begin a point. The future has its answer, or why there is none."""
        future: Future[Result] = Future()
        _fill(future, lambda: fn(*args))
        return future

    def kill(self) -> None:
        """End what runs, for Stop and for a point that takes too long; the next point can come."""

    def shutdown(self) -> None:
        """End the lane."""


def in_thread(work: Callable[[], Result]) -> Future[Result]:
    """Begin work that may be given up: a daemon thread, unlike a pool's, holds up no exit."""
    future: Future[Result] = Future()
    threading.Thread(target=_fill, args=(future, work), daemon=True).start()
    return future


def _fill(future: Future[Result], work: Callable[[], Result]) -> None:
    try:
        future.set_result(work())
    except Exception as error:  # noqa: BLE001 - the future carries it
        future.set_exception(error)


class ProcessLane(Lane):
    """One process of its own, started fresh (spawn); a crash ends it, and the next point a new one.

    device: what CUDA_VISIBLE_DEVICES is in it; None leaves it as it is. Takes importable functions
    and plain values. Errors of a future: WorkerDiedError, or RuntimeError with what was raised.
    """

    def __init__(self, device: str | None = None) -> None:
        self._device = device
        self._lock = threading.Lock()
        self._process: BaseProcess | None = None
        self._pipe: Connection | None = None

    def submit(self, fn: Callable[..., Result], *args: Any) -> Future[Result]:
        """Send the call to the process; one at a time."""
        process, pipe = self._running()
        return in_thread(lambda: _answer(process, pipe, (fn, args)))

    def kill(self) -> None:
        """End the process now; what it was doing fails with WorkerDiedError."""
        with self._lock:  # another thread may be starting it
            if self._process is not None:
                self._process.kill()
                self._process.join()
                self._process = None

    shutdown = kill

    def _running(self) -> tuple[BaseProcess, Connection]:
        with self._lock:
            if self._process is None or self._pipe is None or not self._process.is_alive():
                context = multiprocessing.get_context("spawn")
                self._pipe, there = context.Pipe()
                # assigned once it runs: `kill` is for a process that has started
                process = context.Process(target=_serve, args=(there, self._device), daemon=True)
                process.start()
                there.close()
                self._process = process
            return self._process, self._pipe


def _serve(pipe: Connection, device: str | None) -> None:
    """Run calls in the process of a lane, one after the other, until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for the notebook
    if device is not None:
        os.environ[VISIBLE] = device
    while True:
        try:
            fn, args = pipe.recv()
            answer = ForkingPickler.dumps((True, fn(*args)))
        except EOFError:
            return
        except Exception as error:  # noqa: BLE001 - reported to the other side
            answer = ForkingPickler.dumps((False, f"{type(error).__name__}: {error}"))
        try:
            pipe.send_bytes(answer)
        except OSError:  # the other side was killed
            return


def _answer(process: BaseProcess, pipe: Connection, call: tuple[Any, ...]) -> Any:
    """Send a call, and wait for its answer or for the end of the process."""
    with suppress(EOFError, OSError):  # the process has ended
        pipe.send(call)
        if pipe in wait([pipe, process.sentinel]):
            good, answer = pipe.recv()
            if good:
                return answer
            raise RuntimeError(answer)
    process.join()
    raise WorkerDiedError(_ending(process.exitcode))


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        why = {
            "SIGKILL": "killed, as the system does when memory runs out",
            "SIGSEGV": "an illegal memory access",
            "SIGABRT": "aborted",
        }
        return f"the worker ended with {name}: {why.get(name, 'a signal')}"
    return f"the worker ended with exit code {code}"


def process_lanes() -> tuple[ProcessLane, ...]:
    """Return one lane per GPU that the environment or the driver names, or one without a GPU."""
    devices: list[str] = []
    if (named := os.environ.get(VISIBLE)) is not None:
        devices = [name for name in named.split(",") if name.strip()]
    else:
        with suppress(Exception):  # no driver, no GPU
            import pynvml

            pynvml.nvmlInit()
            devices = [str(number) for number in range(pynvml.nvmlDeviceGetCount())]
    return tuple(map(ProcessLane, devices)) or (ProcessLane(),)
