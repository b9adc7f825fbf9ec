"""The process that papermill runs in: `python -m workbench.run.notebooks.worker request.json`.

A process of its own, because papermill changes the working directory of the whole process and
the kernel inherits its environment: two runs in one process would mix both. Reads `Request`,
writes the executed notebook and `Outcome` next to it.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

INPUT, OUTPUT, OUTCOME = "input.ipynb", "output.ipynb", "outcome.json"
REMOVAL_S = 20.0


@dataclass(frozen=True, slots=True)
class Request:
    """What to run; INPUT is in the working directory.

    socket_folder: where the kernel's sockets are; None for TCP.
    """

    parameters: dict[str, Any]
    cwd: str
    kernel: str
    timeout_s: float
    start_timeout_s: float
    grace_s: float
    socket_folder: str | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How it ended: `cell_error` leaves its evidence in the executed notebook."""

    kind: Literal["ok", "cell_error", "timeout", "kernel_died", "not_run"]
    message: str = ""


def run(request: Request) -> Outcome:
    """Execute INPUT into OUTPUT, both in the working directory."""
    # jsonschema would build a grammar of IRIs for a second; no notebook has a format to check.
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
    import papermill
    from nbclient.exceptions import CellTimeoutError, DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    from workbench.run.notebooks.engine import ENGINE_NAME, Deadline

    deadline = Deadline(request.timeout_s, request.grace_s)
    try:
        papermill.execute_notebook(
            INPUT,
            OUTPUT,
            parameters=request.parameters,
            engine_name=ENGINE_NAME,
            kernel_name=request.kernel,
            language="python",
            progress_bar=False,
            start_timeout=request.start_timeout_s,
            cwd=request.cwd,
            deadline=deadline,
            socket_folder=request.socket_folder,
        )
    except PapermillExecutionError as error:
        if error.ename == "KeyboardInterrupt" and deadline.passed:
            return Outcome("timeout")
        return Outcome("cell_error", f"{error.ename}: {error.evalue}")
    except CellTimeoutError as error:
        return Outcome("timeout", str(error))
    except DeadKernelError as error:
        return Outcome("kernel_died", str(error))
    except Exception as error:  # noqa: BLE001 - whatever went wrong, the caller gets a result
        return Outcome("not_run", f"{type(error).__name__}: {error}")
    return Outcome("ok")


def _stop_when_orphaned(parent: int) -> None:
    """Stop like Ctrl-C, which also ends the kernel, once the parent process is gone."""
    while os.getppid() == parent:
        time.sleep(1)
    os.kill(os.getpid(), signal.SIGINT)


def _remove(folder: Path) -> None:
    """Remove a folder into which a kernel that is just ending may still put its sockets."""
    end = time.monotonic() + REMOVAL_S
    while folder.exists() and time.monotonic() < end:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(0.05)


def main() -> None:
    """Run the request named on the command line."""
    # A shell that starts its jobs in the background has them ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=_stop_when_orphaned, args=(os.getppid(),), daemon=True).start()
    request = Request(**json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    outcome_path = Path(OUTCOME).absolute()
    try:
        outcome = run(request)
    finally:
        # The process that made it may be gone.
        if request.socket_folder is not None:
            _remove(Path(request.socket_folder))
    outcome_path.write_text(json.dumps(dataclasses.asdict(outcome)), encoding="utf-8")


if __name__ == "__main__":
    main()
