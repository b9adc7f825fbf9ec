"""Lanes that measure points: here, or in a process of one GPU; `cluster` has other machines.

Every lane is a `concurrent.futures.Executor` that has one point at a time: two timings never share
a device.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import threading
from abc import abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")
VISIBLE = "CUDA_VISIBLE_DEVICES"


class WorkerDiedError(RuntimeError):
    """The process of a lane ended before it answered; the message says how."""


class LaneLostError(RuntimeError):
    """A lane takes no more points; the message says what is gone. The point was not measured."""


class Lane(Executor):
    """An executor that can end what it is doing: for Stop, and for a point that takes too long."""

    @abstractmethod
    def kill(self) -> None:
        """End what runs; the lane takes the next point."""


class InlineLane(Executor):
    """Runs a point in the calling thread, for what is quick: one that runs cannot be stopped."""

    def submit(
        self,
        fn: Callable[Parameters, Result],
        /,
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> Future[Result]:
        """Run now; the future is done."""
        future: Future[Result] = Future()
        _fill(future, lambda: fn(*args, **kwargs))
        return future


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
    and plain values. Errors of a future: WorkerDiedError, or what the function raised.
    """

    def __init__(self, device: str | None = None) -> None:
        self._device = device
        self._context = multiprocessing.get_context("spawn")
        self._lock = threading.Lock()
        self._process: BaseProcess | None = None
        self._pipe: Connection | None = None

    def submit(
        self,
        fn: Callable[Parameters, Result],
        /,
        *args: Parameters.args,
        **kwargs: Parameters.kwargs,
    ) -> Future[Result]:
        """Send the call to the process; one at a time."""
        process, pipe = self._running()
        future: Future[Result] = Future()
        try:
            pipe.send((fn.__module__, fn.__qualname__, args, kwargs))
        except OSError:  # it ended since its last answer
            process.join()
            future.set_exception(WorkerDiedError(_ending(process.exitcode)))
            return future
        threading.Thread(target=_answer, args=(process, pipe, future), daemon=True).start()
        return future

    def kill(self) -> None:
        """End the process now; what it was doing fails with WorkerDiedError."""
        with self._lock:  # another thread may be starting it
            if self._process is not None:
                self._process.kill()
                self._process.join()
                self._process = None

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the process."""
        self.kill()

    def _running(self) -> tuple[BaseProcess, Connection]:
        with self._lock:
            if self._process is None or self._pipe is None or not self._process.is_alive():
                here, there = self._context.Pipe()
                process = self._context.Process(
                    target=_serve, args=(there, self._device), daemon=True
                )
                process.start()
                there.close()
                self._process, self._pipe = process, here
            return self._process, self._pipe


def _serve(pipe: Connection, device: str | None) -> None:
    """Run calls in the process of a lane, one after the other, until the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for the notebook
    if device is not None:
        os.environ[VISIBLE] = device
    while True:
        try:
            module, name, args, kwargs = pipe.recv()
        except EOFError:
            return
        try:
            answer = getattr(importlib.import_module(module), name)(*args, **kwargs)
            pipe.send((True, answer))
        except Exception as error:  # noqa: BLE001 - reported to the other side
            pipe.send((False, f"{type(error).__name__}: {error}"))


def _answer(process: BaseProcess, pipe: Connection, future: Future[Any]) -> None:
    """Wait for the answer, or for the end of the process."""
    ready = wait([pipe, process.sentinel])
    try:
        if pipe in ready and pipe.poll():
            good, answer = pipe.recv()
            if good:
                future.set_result(answer)
            else:
                future.set_exception(RuntimeError(answer))
            return
    except (EOFError, OSError):
        pass
    process.join()
    future.set_exception(WorkerDiedError(_ending(process.exitcode)))


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


def process_lanes(devices: Sequence[str] | None = None) -> tuple[ProcessLane, ...]:
    """Return one lane per GPU, or one lane without a device.

    devices: as CUDA_VISIBLE_DEVICES names them; all that the driver knows if not given.
    """
    chosen = visible_devices() if devices is None else tuple(devices)
    return tuple(ProcessLane(device) for device in chosen) or (ProcessLane(),)


def visible_devices() -> tuple[str, ...]:
    """Return the GPUs that this process may use, as the environment or the driver names them."""
    if (named := os.environ.get(VISIBLE)) is not None:
        return tuple(name for name in named.split(",") if name.strip())
    try:
        import pynvml

        pynvml.nvmlInit()
        return tuple(str(number) for number in range(pynvml.nvmlDeviceGetCount()))
    except Exception:  # noqa: BLE001 - no driver, no GPU
        return ()
