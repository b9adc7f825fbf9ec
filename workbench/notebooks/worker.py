"""The process that papermill runs in: `python -m workbench.notebooks.worker`.

A process of its own, because papermill changes the working directory of the whole process and
the kernel inherits its environment: two runs in one process would mix both. Reads the arguments
of `run`, writes the executed notebook and `Outcome` next to it.
"""

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

import psutil

from workbench.notebooks.guard import NetworkUseError, note_error
from workbench.notebooks.memory import Limits, MemoryLimitError
from workbench.notebooks.offline import refuse_network
from workbench.notebooks.processes import REMOVAL_S, adopt_orphans, end_descendants

INPUT, OUTPUT = "input.ipynb", "output.ipynb"
REQUEST, OUTCOME = "request.json", "outcome.json"
STARTS = 2
"""Most kernel starts: a second one after one that never became ready."""


OutcomeKind = Literal["ok", "cell_error", "timeout", "over_memory", "kernel_died", "not_run"]
ENDED: dict[str, OutcomeKind] = {
    "CellTimeoutError": "timeout",
    "MemoryLimitError": "over_memory",
    "DeadKernelError": "kernel_died",
}
"""Error of the engine -> what became of the run."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How it ended: `cell_error` leaves its evidence in the executed notebook."""

    kind: OutcomeKind
    message: str = ""
    unwatched: str = ""
    """Why the network use of child processes was not watched; empty where it was."""


def run(*, timeout_s: float, grace_s: float, limits: Limits, **settings: Any) -> Outcome:
    """Execute INPUT into OUTPUT, both in the working directory.

    `settings`: of papermill, and `socket_folder`: where the kernel's sockets are; None for TCP.
    """
    # jsonschema would build a grammar of IRIs for a second; no notebook has a format to check.
    sys.modules.setdefault("rfc3987_syntax", None)  # type: ignore[arg-type]
    import papermill
    from nbclient.exceptions import CellTimeoutError, DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    from workbench.notebooks.engine import ENGINE_NAME, Deadline

    deadline = Deadline(timeout_s, grace_s)
    try:
        papermill.execute_notebook(
            INPUT,
            OUTPUT,
            engine_name=ENGINE_NAME,
            language="python",
            progress_bar=False,
            deadline=deadline,
            limits=limits,
            **settings,
        )
    except PapermillExecutionError as error:
        if error.ename == "KeyboardInterrupt" and deadline.passed():
            return Outcome("timeout")
        return Outcome("cell_error", f"{error.ename}: {error.evalue}")
    except (CellTimeoutError, MemoryLimitError, DeadKernelError) as error:
        return Outcome(ENDED[type(error).__name__], str(error))
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
    """Run the request in the working directory."""
    # A shell that starts its jobs in the background has them ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=_stop_when_orphaned, args=(os.getppid(),), daemon=True).start()
    adopt_orphans()
    unwatched = refuse_network(lambda tried: note_error("network_use", NetworkUseError(tried)))
    request = json.loads(Path(REQUEST).read_text(encoding="utf-8"))
    limits = Limits(**request.pop("limits"))
    outcome_path = Path(OUTCOME).absolute()
    try:
        outcome = dataclasses.replace(run(limits=limits, **request), unwatched=unwatched)
    finally:
        # An interrupted start leaves a kernel that its manager does not know, and a kernel leaves
        # what its cells have started.
        end_descendants(psutil.Process())
        # The process that made it may be gone.
        if request["socket_folder"] is not None:
            _remove(Path(request["socket_folder"]))
    outcome_path.write_text(json.dumps(dataclasses.asdict(outcome)), encoding="utf-8")


if __name__ == "__main__":
    main()
