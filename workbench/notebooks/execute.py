"""Start the worker process, wait for it, and always end its kernel."""

import contextlib
import dataclasses
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

import psutil

from workbench.notebooks import worker
from workbench.notebooks.document import Notebook, notebook_text, plain, without_widget_state
from workbench.notebooks.guard import HIDDEN_ERRORS_VARIABLE, PROXIES
from workbench.notebooks.memory import Limits
from workbench.notebooks.processes import end_descendants, end_marked
from workbench.notebooks.results import RESULTS_VARIABLE
from workbench.notebooks.worker import STARTS, Outcome

START_TIMEOUT_S = 120.0
"""Seconds until a kernel is ready, on a busy machine too."""
GRACE_S = 30.0
_CLOSING_S = 60.0
_LOG_BYTES = 2**16
HIDDEN = {*PROXIES, "pytest_current_test"}
"""Variables that a run does not see: a kernel under pytest would not capture its programs."""
_RESULTS, _HIDDEN, _LOG = "results.json", "hidden_errors.jsonl", "worker.log"
_SHORT_BASE = "/tmp"  # noqa: S108 - the folder made in it is private
STOP: ContextVar[Event | None] = ContextVar("STOP", default=None)
"""Ends the runs that this thread starts: Ctrl-C reaches the main thread alone."""
POLL_S = 0.2


class RunStoppedError(Exception):
    """The run was ended from outside, and has no result."""


@dataclass(frozen=True)
class Execution:
    """The output of the worker; `executed` is empty if it wrote no notebook."""

    outcome: Outcome
    duration_s: float
    executed: dict[str, Any]
    results_path: Path
    hidden_errors: tuple[dict[str, str], ...]
    log: str
    parameters: dict[str, Any] = field(default_factory=dict)


def execute(
    notebook: Notebook,
    parameters: dict[str, Any],
    *,
    cwd: Path,
    work: Path,
    kernel: str,
    timeout_s: float,
    limits: Limits,
    hash_seed: int,
) -> Execution:
    """Run the notebook with `cwd` as its folder and `work`, an empty folder, for everything else.

    `timeout_s`: for all cells together. A cell that ignores an interrupt for GRACE_S loses its
    kernel; a worker that still does not return is ended with it.
    """
    # Widget state of an earlier run must not pass for that of this one.
    source = notebook_text(without_widget_state(notebook))
    (work / worker.INPUT).write_text(source, encoding="utf-8")
    start = time.monotonic()
    with socket_folder() as sockets:
        request = {
            "parameters": parameters,
            "cwd": str(cwd),
            "kernel_name": kernel,
            "timeout_s": timeout_s,
            "limits": dataclasses.asdict(limits),
            "start_timeout": START_TIMEOUT_S,
            "grace_s": GRACE_S,
            "socket_folder": sockets,
        }
        (work / worker.REQUEST).write_text(json.dumps(request), encoding="utf-8")
        limit_s = STARTS * START_TIMEOUT_S + timeout_s + GRACE_S + _CLOSING_S
        in_time = _run_worker(work, limit_s, hash_seed)
    return Execution(
        outcome=_outcome(work, in_time=in_time),
        duration_s=time.monotonic() - start,
        executed=_json(work / worker.OUTPUT),
        results_path=work / _RESULTS,
        hidden_errors=tuple(_hidden_errors(work / _HIDDEN)),
        log=_log(work / _LOG),
        parameters=parameters,
    )


@contextlib.contextmanager
def socket_folder() -> Iterator[str | None]:
    """Make a private folder and remove it at the end; None if no folder supports sockets.

    Windows has none that jupyter_client can use; a folder can be on a file system without them.
    """
    # The path of a Unix socket has at most 107 bytes on Linux and 103 on macOS, so the output
    # folder of a run is not used: it can be as deep as its owner likes.
    for base in dict.fromkeys((tempfile.gettempdir(), _SHORT_BASE)):
        if not Path(base).is_dir():
            continue
        with tempfile.TemporaryDirectory(
            prefix="wb-kernel-", dir=base, ignore_cleanup_errors=True
        ) as folder:
            if _takes_sockets(Path(folder)):
                yield folder
                return
    yield None


def _takes_sockets(folder: Path) -> bool:
    """Return whether a socket with a path as long as a kernel's can be bound there."""
    if not hasattr(socket, "AF_UNIX"):
        return False
    path = folder / "k0-ipc-0"
    with socket.socket(socket.AF_UNIX) as probe, contextlib.suppress(OSError):
        probe.bind(str(path))
        path.unlink()
        return True
    return False


def _run_worker(work: Path, limit_s: float, hash_seed: int) -> bool:
    """Return whether the worker ended by itself within the limit."""
    environment = {
        **{name: text for name, text in os.environ.items() if name.casefold() not in HIDDEN},
        "PYTHONHASHSEED": str(hash_seed),
        RESULTS_VARIABLE: str(work / _RESULTS),
        HIDDEN_ERRORS_VARIABLE: str(work / _HIDDEN),
        "WORKBENCH_STRICT": "1",
        "HF_HUB_OFFLINE": "1",
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    }
    with (work / _LOG).open("wb") as log:
        process = psutil.Popen(
            [sys.executable, "-m", worker.__name__],
            cwd=work,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            # Ctrl-C reaches this process alone, which then ends worker and kernel in order.
            start_new_session=True,
        )
        try:
            return _has_ended(process, limit_s)
        finally:
            if process.poll() is None:
                # its kernel runs in a session of its own, and it adopts what leaves that
                end_descendants(process)
                process.kill()
                process.wait()
            elif process.returncode:  # killed, as when memory runs out: it has ended nothing
                end_marked(RESULTS_VARIABLE, environment[RESULTS_VARIABLE])


def _has_ended(process: psutil.Popen, limit_s: float) -> bool:
    """Return whether a process ends within the limit. Raises RunStoppedError."""
    stop, end = STOP.get(), time.monotonic() + limit_s
    while (left := end - time.monotonic()) > 0:
        with contextlib.suppress(psutil.TimeoutExpired):
            process.wait(min(left, POLL_S))
            return True
        if stop is not None and stop.is_set():
            raise RunStoppedError
    return False


def _outcome(work: Path, *, in_time: bool) -> Outcome:
    if not in_time:
        return Outcome("timeout", "the worker process did not return, and was ended")
    found = _json(work / worker.OUTCOME)
    return Outcome(**found) if found else Outcome("not_run", "the worker process ended early")


def _json(path: Path) -> dict[str, Any]:
    """Return the object that the worker wrote; empty if it did not, or was ended meanwhile."""
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}


def _log(path: Path) -> str:
    """Return the end of what worker and kernel printed, without what every kernel prints."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _LOG_BYTES))
        lines = plain(file.read().decode(errors="replace")).splitlines()
    return "\n".join(line for line in lines if not line.startswith("[IPKernelApp] WARNING"))


def _hidden_errors(path: Path) -> Iterator[dict[str, str]]:
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    for line in text.splitlines():
        # A kernel that was killed may leave half a line.
        with contextlib.suppress(ValueError):
            yield json.loads(line)
