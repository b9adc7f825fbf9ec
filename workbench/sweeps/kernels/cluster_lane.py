"""A lane that measures on a worker of a Dask cluster, can end it, and knows when it has gone."""

from __future__ import annotations

import os
import signal
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future, wait
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from workbench.sweeps.kernels.lanes import Lane, LaneLostError, Result, WorkerDiedError, in_thread

if TYPE_CHECKING:
    from distributed import Client

RESTART_S = 120.0
POLL_S = 0.1
PLACED, WAITING, STRANDED = "placed", "waiting", "stranded"
DIED = (
    "the worker {} ended while it measured: an illegal memory access, or killed as the system does "
    "when memory runs out; its log says which"
)


class ClusterLane(Lane):
    """One point at a time on the worker of one nanny, which outlives its workers.

    Errors of a future: WorkerDiedError, LaneLostError, or what the function raised.
    """

    def __init__(self, client: Client, executor: Any, nanny: str) -> None:
        self._client, self._executor, self._nanny = client, executor, nanny
        self._lock = threading.Lock()
        self._newest: object = None
        self._sent: tuple[str, str, Future[Any]] | None = None
        self._ending: threading.Thread | None = None

    def submit(self, fn: Callable[..., Result], *args: Any) -> Future[Result]:
        """Send the call to the worker, as soon as there is one again."""
        ticket = object()
        with self._lock:
            self._newest = ticket
        return in_thread(lambda: self._measured(ticket, fn, *args))

    def kill(self) -> None:
        """End the worker that has the point, unless others use it; does not wait for the end."""
        with self._lock:
            sent, self._sent, self._newest = self._sent, None, None
        if sent is not None and not sent[2].done():
            self._ending = threading.Thread(target=self._end, args=sent)
            self._ending.start()

    def shutdown(self) -> None:
        """Wait for a worker that was ended; the cluster itself is not ours."""
        if self._ending is not None:
            self._ending.join()

    def _measured(self, ticket: object, *call: Any) -> Any:
        """Return a point's answer from whichever worker the nanny has by then."""
        self.shutdown()
        try:
            while (point := self._sent_to_worker(ticket, *call)) and self._is_stranded(ticket):
                point.cancel()
        except Exception as error:  # whatever it is, nothing can be sent there
            lost = f"The worker of {self._nanny}, or its scheduler, has gone ({error})."
            raise LaneLostError(lost) from error
        try:
            if point is not None:
                return point.result()
        except CancelledError:
            raise LaneLostError("The Dask scheduler has gone.") from None
        except Exception as error:
            if type(error).__name__ != "KilledWorker":
                raise
            worker = getattr(getattr(error, "last_worker", None), "address", "unknown")
            raise WorkerDiedError(DIED.format(worker)) from error
        raise LaneLostError("The point was given up before it was sent.")

    def _sent_to_worker(self, ticket: object, *call: Any) -> Future[Any] | None:
        """Send a point to the present worker; None when it is not wanted any more."""
        worker = self._worker()
        task = f"{self._client.id}-{uuid.uuid4().hex}"
        with self._lock:
            if self._newest is not ticket:
                return None
            sent: Future[Any] = self._executor.submit(*call, key=task, workers=[worker])
            self._sent = worker, task, sent
        return sent

    def _is_stranded(self, ticket: object) -> bool:
        """Return whether the worker ended before the scheduler gave it the point.

        The scheduler would keep the point for that worker for ever: the next worker of the nanny
        has another address. A worker that ends with the point is an error of the point instead.
        """
        while True:
            with self._lock:
                if self._newest is not ticket or self._sent is None:
                    return False
                worker, task, sent = self._sent
            if sent.done():
                return False
            state = self._client.run_on_scheduler(_state_of, task, worker)
            if state not in {WAITING, STRANDED}:
                return False
            if state == STRANDED:
                return True
            wait([sent], POLL_S)

    def _end(self, worker: str, task: str, point: Future[Any]) -> None:
        """End the process of a point: Dask forgets a cancelled one, and it runs on."""
        with suppress(Exception):  # a cluster that has gone measures nothing
            processing: Mapping[str, tuple[str, ...]] = self._client.processing([worker])
            point.cancel()
            if tuple(processing.get(worker, ())) == (task,):
                self._client.run(_end_worker, worker, workers=[worker], nanny=True)
                self._worker(other_than=worker)

    def _worker(self, other_than: str = "") -> str:
        """Return the present worker; a nanny starts another one for one that ended."""
        until = time.monotonic() + RESTART_S
        while time.monotonic() < until:
            for address, worker in workers_of(self._client).items():
                if worker["nanny"] == self._nanny and address != other_than:
                    found = self._client.run(_ready_worker, workers=[address], nanny=True)
                    if address in found.values():
                        return address
            time.sleep(POLL_S)
        raise TimeoutError(f"no new one within {RESTART_S:g} s")


def _state_of(task: str, worker: str, dask_scheduler: Any) -> str:
    """Return whether a task has a worker, waits for it, or can never run; runs in the scheduler."""
    found = dask_scheduler.tasks.get(task)
    if found is not None and found.state != "no-worker":
        return PLACED
    is_lost = found is not None and worker not in dask_scheduler.workers
    return STRANDED if is_lost else WAITING


def _ready_worker(dask_worker: Any) -> str | None:
    """Return the worker's address once it runs, else None; runs in a nanny.

    A nanny whose worker dies while it starts gives up for good.
    """
    process = dask_worker.process
    is_ready = process is not None and process.status.name == "running"
    return str(dask_worker.worker_address) if is_ready else None


def _end_worker(worker: str, dask_worker: Any) -> None:
    """End a worker from its nanny, since a worker that measures may not listen."""
    if _ready_worker(dask_worker) == worker:
        os.kill(dask_worker.pid, signal.SIGKILL)


def workers_of(client: Client) -> Mapping[str, Mapping[str, Any]]:
    """Return address -> what the scheduler knows of the worker."""
    found: Mapping[str, Mapping[str, Any]] = client.scheduler_info(n_workers=-1).get("workers", {})
    return found
