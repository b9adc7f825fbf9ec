"""papermill's engine with a guard around the cells and one time limit for all of them.

Imported only by the worker process: papermill and nbclient take a second to load.
"""

import asyncio
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jupyter_client import KernelClient, KernelManager
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from papermill.clientwrap import PapermillNotebookClient
from papermill.engines import NBClientEngine, NotebookExecutionManager, papermill_engines

from workbench.notebooks.memory import Limits, MemoryLimitError, MemoryMeter
from workbench.notebooks.worker import STARTS

ENGINE_NAME = "workbench-guarded"
_GUARD = "__import__('workbench.notebooks.guard', fromlist=['guard'])"
_SHORTEST_S = 0.05
_OUTPUT_WAIT_S = 30
_SLICE_S = 0.5
_PAUSE_S = 0.1
_BETWEEN_INTERRUPTS_S = 5.0
CONNECTION_FILE = "k{start}.json"
"""File name per kernel start; jupyter_client adds sockets next to it: k0-ipc-1 to k0-ipc-5."""


@dataclass
class Deadline:
    """A limit for all cells together, which starts with the first cell."""

    limit_s: float
    grace_s: float
    _end: float = math.inf

    def next_slice(self, _cell: NotebookNode) -> float:
        """Return seconds to wait for one reply; never 0, which nbclient takes for "no limit"."""
        self._end = min(self._end, time.monotonic() + self.limit_s)
        return min(_SLICE_S, max(_SHORTEST_S, self._end - time.monotonic()))

    def passed(self, more_s: float = 0.0) -> bool:
        """Return whether no time is left, and has not been for so many more seconds."""
        return time.monotonic() >= self._end + more_s


class GuardedClient(PapermillNotebookClient):
    """Runs the cells between the guard's start and its final check, and measures each.

    A cell over the limit is interrupted, so that its traceback shows where it was. A cell's
    memory goes into its papermill record, next to its duration.
    """

    km: Any  # only a local kernel, as all of these are, has a provisioner with a pid
    _meter: MemoryMeter | None = None

    def __init__(
        self,
        nb_man: NotebookExecutionManager,
        deadline: Deadline,
        limits: Limits,
        socket_folder: str | None = None,
        **traits: Any,
    ) -> None:
        super().__init__(nb_man, timeout_func=deadline.next_slice, **traits)
        self._deadline, self._limits = deadline, limits
        self._socket_folder = socket_folder
        self._failed_starts: list[str] = []
        self._last_interrupt = -math.inf

    def create_kernel_manager(self) -> KernelManager:
        """Return a manager whose kernel listens in the socket folder, or on TCP without one.

        A TCP port is chosen here and bound by the kernel a moment later. Another process can
        take it in between; a path in a private folder belongs to this run alone.
        """
        manager = super().create_kernel_manager()
        if self._socket_folder is not None:
            manager.transport = "ipc"
            name = CONNECTION_FILE.format(start=len(self._failed_starts))
            manager.connection_file = str(Path(self._socket_folder) / name)
        return manager

    def start_new_kernel_client(self) -> KernelClient:
        """Wait for a kernel before any cell is run. Errors: RuntimeError after STARTS kernels."""
        while True:
            try:
                return super().start_new_kernel_client()
            except RuntimeError as error:
                self._failed_starts.append(str(error))
            if len(self._failed_starts) == STARTS:
                reasons = "; ".join(self._failed_starts)
                raise RuntimeError(f"no kernel became ready in {STARTS} starts: {reasons}")
            self.nb.metadata.papermill["failed_starts"] = self._failed_starts
            self.km = self.create_kernel_manager()
            self.start_new_kernel()

    async def _async_handle_timeout(
        self,
        timeout: float,  # noqa: ASYNC109 - the parent class calls it so
        cell: NotebookNode | None = None,
    ) -> dict[str, Any] | None:
        """Interrupt the cell when no time is left, and give up when even that does not help.

        Until then, look again whether the reply is there. Sending to an Output widget can
        swallow the event that announces a reply on the same socket: a finished cell would then
        wait until its time is up.
        """
        if self._deadline.passed(self._deadline.grace_s):
            raise CellTimeoutError("the cell ignored the interrupt, and the kernel was ended")
        since = time.monotonic() - self._last_interrupt
        if self._deadline.passed() and since > _BETWEEN_INTERRUPTS_S:
            self._last_interrupt = time.monotonic()
            return await super()._async_handle_timeout(timeout, cell)
        await asyncio.sleep(_PAUSE_S)
        return None

    def papermill_execute_cells(self) -> None:
        """Run every cell up to the first that fails. Errors: MemoryLimitError."""
        self._quietly(f"{_GUARD}.start({self._limits.output_bytes})")
        meter = self._meter = MemoryMeter(self._limits.memory_bytes)
        try:
            super().papermill_execute_cells()
        except DeadKernelError as error:
            if meter.over_limit:
                raise MemoryLimitError from error
            raise
        finally:
            meter.close()
            self.nb.metadata.papermill["peak_bytes"] = meter.highest_bytes
        if not self.nb.metadata.papermill.get("exception"):
            self._quietly(f"await {_GUARD}.settle()")

    def execute_cell(self, cell: NotebookNode, cell_index: int, **others: Any) -> NotebookNode:
        """Run one cell and measure the memory that it took."""
        if self._meter is None or cell.cell_type != "code":
            return super().execute_cell(cell, cell_index, **others)
        self._meter.begin_cell()
        try:
            return super().execute_cell(cell, cell_index, **others)
        finally:
            self.nb.cells[cell_index].metadata.papermill |= self._meter.end_cell()

    def _quietly(self, code: str) -> None:
        reply = self.wait_for_reply(self.kc.execute(code, silent=True, store_history=False))
        content = reply["content"] if reply else {"ename": "TimeoutError", "evalue": "no reply"}
        if content.get("status") != "ok":
            error = f"{content.get('ename')}: {content.get('evalue')}"
            self.nb.metadata.papermill["guard_error"] = error


class GuardedEngine(NBClientEngine):
    """nbclient's engine, with the guarded client."""

    @classmethod
    def execute_managed_notebook(
        cls, nb_man: NotebookExecutionManager, kernel_name: str, **settings: Any
    ) -> NotebookNode:
        """Run the cells until the deadline, keeping widget state in the notebook's metadata."""
        client = GuardedClient(
            nb_man,
            settings["deadline"],
            settings["limits"],
            settings["socket_folder"],
            kernel_name=kernel_name,
            startup_timeout=settings["start_timeout"],
            iopub_timeout=_OUTPUT_WAIT_S,
            interrupt_on_timeout=True,
            store_widget_state=True,
        )
        return client.execute()


papermill_engines.register(ENGINE_NAME, GuardedEngine)
