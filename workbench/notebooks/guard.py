"""Inside the kernel: record failures outside cells in a file that the runner reads.

A background thread prints its traceback, which is lost once its cell has ended; a failed task
that is never awaited reports this only when it is collected. Both are recorded here, and so are
tasks that never end and attempts to reach the network. Standard library only, as every notebook
kernel that the runner starts imports this.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import math
import os
import threading
import traceback
from pathlib import Path

from workbench.notebooks.offline import refuse_network

HIDDEN_ERRORS_VARIABLE = "WORKBENCH_HIDDEN_ERRORS"
_lock = threading.Lock()
_known_threads: set[int | None] = set()
_TURN_S = 0.02
_CELL_FILES = ("ipykernel_", "<ipython-input-")


def install() -> None:
    """Start recording; called once, before the first cell."""
    _known_threads.update(thread.ident for thread in threading.enumerate())
    previous = threading.excepthook

    def record_and_pass_on(args: threading.ExceptHookArgs) -> None:
        if args.exc_value is not None and not isinstance(args.exc_value, SystemExit):
            _record("background_thread", args.exc_value)
        previous(args)

    threading.excepthook = record_and_pass_on
    logging.getLogger("asyncio").addHandler(_NeverRetrieved(logging.ERROR))


def start() -> None:
    """Install the recorder, and refuse the network permanently: an audit hook cannot be removed."""
    install()
    refuse_network(_record)


class _NeverRetrieved(logging.Handler):
    """Records asyncio's "exception was never retrieved", from any event loop."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and "exception was never retrieved" in record.getMessage():
            _record("asyncio_task", error)
        # A handler of our own silences logging's last resort: the reader of a cell needs it.
        if not logging.getLogger().handlers and logging.lastResort is not None:
            logging.lastResort.handle(record)


async def settle(grace_s: float = 1.0) -> None:
    """Wait a moment after the last cell for running work, then look for failed tasks.

    The moment is counted in turns, each of which lets the threads run: on a busy machine, a
    deadline can pass while the whole process is waiting for a processor.
    """
    loop = asyncio.get_running_loop()
    await asyncio.sleep(0.05)
    for _turn in range(math.ceil(grace_s / _TURN_S)):
        if not _still_working():
            break
        await asyncio.sleep(_TURN_S)
    gc.collect()
    for task in _failed_and_unread():
        error = task.exception()
        if error is not None:
            _record("asyncio_task", error)
    for task in _never_awaited(loop):
        name = getattr(task.get_coro(), "__qualname__", task.get_name())
        _record("pending_task", RuntimeError(f"{name} was still running after the last cell"))


def _never_awaited(loop: asyncio.AbstractEventLoop) -> tuple[asyncio.Task[object], ...]:
    """Return running tasks of the notebook's own coroutines; others may keep running."""
    found = []
    for task in asyncio.all_tasks(loop):
        code = getattr(task.get_coro(), "cr_code", None)
        if code is not None and any(part in code.co_filename for part in _CELL_FILES):
            found.append(task)
    return tuple(found)


def _still_working() -> bool:
    return any(
        thread.ident not in _known_threads and not thread.daemon and thread.is_alive()
        for thread in threading.enumerate()
    )


def _failed_and_unread() -> tuple[asyncio.Future[object], ...]:
    """Return failed tasks that a variable keeps alive: asyncio reports collected ones only."""
    futures = [item for item in gc.get_objects() if issubclass(type(item), asyncio.Future)]
    return tuple(future for future in futures if getattr(future, "_log_traceback", False))


def _record(kind: str, error: BaseException) -> None:
    path = os.environ.get(HIDDEN_ERRORS_VARIABLE)
    if path is None:
        return
    line = json.dumps(
        {
            "kind": kind,
            "error": "".join(traceback.format_exception_only(error)).strip(),
            "traceback": "".join(traceback.format_exception(error)),
        }
    )
    with _lock, Path(path).open("a", encoding="utf-8") as file:
        file.write(line + "\n")
