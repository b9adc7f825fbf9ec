"""Inside the kernel: refuse the network, and record failures outside cells for the runner.

A background thread prints its traceback, which is lost once its cell has ended; a failed task
that is never awaited reports this only when it is collected; the error of a pool's future is seen
by the code that reads it. All are recorded here, and so are tasks that never end and attempts to
reach the network: a notebook that downloads something passes on the machine of its author and
fails, or changes its numbers, everywhere else. A shell command that fails raises an error, and
output past a limit does. Standard library only, as every notebook kernel that the runner starts
imports this.
"""

import asyncio
import gc
import inspect
import ipaddress
import json
import logging
import math
import os
import socket
import sys
import threading
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import CoroutineType
from typing import Any
from urllib.parse import urlsplit

from workbench.notebooks import unread_futures
from workbench.notebooks.output_limit import OutputLimit

HIDDEN_ERRORS_VARIABLE = "WORKBENCH_HIDDEN_ERRORS"
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "ftp_proxy", "no_proxy")
"""Variables that the runner removes: a proxy on this machine would hide where a request goes."""
_LOCAL = frozenset({"", "localhost", "localhost.localdomain", "ip6-localhost"})
_lock = threading.Lock()
_known_threads: set[int | None] = set()
_TURN_S = 0.02
_CELL_FILES = ("ipykernel_", "<ipython-input-")


class NetworkUseError(ConnectionError):
    """Raised when code tries to use the network; code that handles the error still works."""


def start(output_bytes: int) -> None:
    """Install the recorder and the limit; refuse the network permanently, as audit hooks stay.

    Errors: RuntimeError where IPython is too old to stop at a shell command that fails.
    """
    from IPython.core.getipython import get_ipython

    install()
    refuse_network(note_error)
    shell: Any = get_ipython()
    limit = OutputLimit(output_bytes, partial(note_error, "output_flood"))
    # After this cell: IPython sets the methods of both streams back to those before it.
    asyncio.get_running_loop().call_soon(limit.install, shell.kernel.session)
    if not hasattr(shell, "system_raise_on_error"):
        raise RuntimeError("this IPython passes over `!` commands that fail; install 9.14 or later")
    shell.system_raise_on_error = True


def install() -> None:
    """Start recording; called once, before the first cell."""
    unread_futures.watch()
    _known_threads.update(thread.ident for thread in threading.enumerate())
    previous = threading.excepthook

    def record_and_pass_on(args: threading.ExceptHookArgs) -> None:
        if args.exc_value is not None and not isinstance(args.exc_value, SystemExit):
            note_error("background_thread", args.exc_value)
        previous(args)

    threading.excepthook = record_and_pass_on
    logging.getLogger("asyncio").addHandler(_NeverRetrieved(logging.ERROR))


class _NeverRetrieved(logging.Handler):
    """Records asyncio's "exception was never retrieved", from any event loop."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and "exception was never retrieved" in record.getMessage():
            note_error("asyncio_task", error)
        # A handler of our own silences logging's last resort: the reader of a cell needs it.
        if not logging.getLogger().handlers and logging.lastResort is not None:
            logging.lastResort.handle(record)


async def settle(grace_s: float = 1.0) -> None:
    """Wait a moment after the last cell for running work, then look for failed tasks."""
    await asyncio.sleep(0.05)
    # Counted in turns, each of which lets the threads run: on a busy machine, a deadline can
    # pass while the whole process is waiting for a processor.
    for _turn in range(math.ceil(grace_s / _TURN_S)):
        if not any(map(_still_works, threading.enumerate())):
            break
        await asyncio.sleep(_TURN_S)
    gc.collect()
    # asyncio reports collected tasks only: a variable may keep a failed one alive.
    futures = [item for item in gc.get_objects() if issubclass(type(item), asyncio.Future)]
    for future in futures:
        if getattr(future, "_log_traceback", False) and (error := future.exception()):
            note_error("asyncio_task", error)
    for error in unread_futures.errors():
        note_error("unread_future", error)
    for task in filter(_is_the_notebooks_own, asyncio.all_tasks()):
        name = getattr(task.get_coro(), "__qualname__", task.get_name())
        note_error("pending_task", RuntimeError(f"{name} was still running after the last cell"))
    for name in _never_started():
        note_error("never_awaited", RuntimeError(f"coroutine {name!r} was never awaited"))


def _still_works(thread: threading.Thread) -> bool:
    return thread.ident not in _known_threads and not thread.daemon and thread.is_alive()


def _is_the_notebooks_own(task: asyncio.Task[object]) -> bool:
    """Return whether a cell has defined the coroutine; tasks of libraries may keep running."""
    return _is_of_a_cell(task.get_coro())


def _is_of_a_cell(coroutine: object) -> bool:
    code = getattr(coroutine, "cr_code", None)
    return code is not None and any(part in code.co_filename for part in _CELL_FILES)


def _never_started() -> list[str]:
    """Return the names of coroutines that a cell has called and that something keeps.

    Python warns of those that it collects; IPython keeps one that ends a cell, as its output.
    """
    shell = getattr(sys.modules.get("IPython.core.getipython"), "get_ipython", lambda: None)()
    kept = {id(value) for value in getattr(shell, "user_ns", {}).values()}  # also of libraries
    return [
        item.__qualname__
        for item in gc.get_objects()
        if type(item) is CoroutineType
        and inspect.getcoroutinestate(item) == inspect.CORO_CREATED
        and (id(item) in kept or _is_of_a_cell(item))
    ]


def note_error(kind: str, error: BaseException) -> None:
    """Note an error for the runner; without one, nothing is noted."""
    path = os.environ.get(HIDDEN_ERRORS_VARIABLE)
    if path is None:
        return
    found = {
        "kind": kind,
        "error": "".join(traceback.format_exception_only(error)).strip(),
        "traceback": "".join(traceback.format_exception(error)),
    }
    with _lock, Path(path).open("a", encoding="utf-8") as file:
        file.write(json.dumps(found) + "\n")


def refuse_network(record: Callable[[str, BaseException], None]) -> None:
    """Refuse every connection and look-up outside this machine, permanently."""

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        host = _host(event, arguments)
        if host is not None and not is_local(host):
            error = NetworkUseError(
                f"{event} to {host!r}: a notebook runs offline; commit the data that it needs"
            )
            try:
                raise error
            except NetworkUseError:
                record("network_use", error)  # code may swallow the error
                raise

    sys.addaudithook(watch)


def _host(event: str, arguments: tuple[Any, ...]) -> str | None:
    """Return the host that an audit event names; None if the event is not of the network."""
    if event in {"socket.connect", "socket.sendto"}:
        address = arguments[1]
        return str(address[0]) if isinstance(address, tuple) else None
    if event in {"socket.getaddrinfo", "socket.gethostbyname"}:
        host = arguments[0]
        return host.decode(errors="replace") if isinstance(host, bytes) else str(host or "")
    if event == "urllib.Request":
        address = urlsplit(str(arguments[0]))
        return address.hostname or "" if address.scheme not in {"file", "data"} else None
    return None


def is_local(host: str) -> bool:
    """Return whether the name or address means this machine."""
    name = host.rstrip(".").casefold()
    if name in _LOCAL or name == socket.gethostname().casefold():
        return True
    try:
        address = ipaddress.ip_address(name.split("%")[0])
    except ValueError:
        return False
    return address.is_loopback or address.is_unspecified
