"""App mode: what a browser may make an app's kernels do, declared once at the start.

`workbench app` sets one environment variable for its kernels; this module alone reads it. What is
not declared there is refused at the point of use, whatever a message from a browser requests.
"""

import json
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from workbench.core.errors import ScenarioError, shown

VARIABLE = "WORKBENCH_APP"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""Allowed file names of an app, without the ending: no folder, no dot, no device."""
RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)", re.IGNORECASE)
"""Device names reserved by Windows."""


class AppRefusal(ScenarioError):  # noqa: N818  (a decision, not a mistake of ours)
    """An action that this app does not allow; the message says how to start one that does."""


@dataclass(frozen=True, slots=True)
class AppMode:
    """The limits of one app.

    output: the only folder that is written to. pythons, schedulers, models: exact names allowed in
    addition to this Python, this machine and the catalog.
    """

    output: str
    pythons: tuple[str, ...] = ()
    schedulers: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    show_tracebacks: bool = False

    def to_text(self) -> str:
        """Return the value of the environment variable."""
        return json.dumps(asdict(self))


def app_mode() -> AppMode | None:
    """Return the limits of the app that runs this kernel; None outside an app."""
    text = os.environ.get(VARIABLE)
    if text is None:
        return None
    found = json.loads(text)  # damaged: an exception, so nothing is allowed
    return AppMode(
        output=str(found["output"]),
        pythons=tuple(found["pythons"]),
        schedulers=tuple(found["schedulers"]),
        models=tuple(found["models"]),
        show_tracebacks=found["show_tracebacks"] is True,
    )


def check_python(python: str) -> None:
    """Refuse to start a Python that the app was not started with. Errors: AppRefusal."""
    _check(python, "pythons", "Python", "an empty box for this one", "--python")


def check_scheduler(address: str) -> None:
    """Refuse a Dask scheduler that the app was not started with. Errors: AppRefusal."""
    _check(address, "schedulers", "address", "an empty box for this machine", "--dask")


def check_model(reference: str) -> None:
    """Refuse a path or hub id that the app was not started with. Errors: AppRefusal."""
    _check(reference, "models", "model", "a model of the catalog", "--model")


def _check(given: str, listed: str, what: str, usual: str, option: str) -> None:
    mode = app_mode()
    if mode is None or given in getattr(mode, listed):
        return
    names = ", ".join(map(shown, getattr(mode, listed)))
    raise AppRefusal(
        "not_in_app",
        f"Invalid {what} {shown(given)}: this is an app, which uses only what it was started with. "
        f"Expected {usual}{f', or one of {names}' if names else ''}. To allow another, start it "
        f"with `workbench app {option} ...`, or use `workbench lab`.",
        field=what.lower(),
    )


def output_path(name: str, ending: str) -> Path:
    """Return where a user-named file is written: in an app, inside its only folder.

    ending: such as ".db", which in an app is added where it is missing; outside, the name is a path
    and stays as it is. Errors: AppRefusal.
    """
    mode = app_mode()
    if mode is None:
        return Path(name)
    bare = name.removesuffix(ending)
    if not NAME.fullmatch(bare) or RESERVED.fullmatch(bare):
        raise AppRefusal(
            "invalid_file_name",
            f"Invalid name {shown(name)}. Expected a name without a folder: up to 64 letters "
            "(a to z), digits, '-' and '_', beginning with a letter or a digit.",
            field="name",
        )
    folder = Path(mode.output)
    folder.mkdir(parents=True, exist_ok=True)
    return folder / (bare + ending)


def shows_tracebacks() -> bool:
    """Return whether a panel shows where in the code an exception came from."""
    mode = app_mode()
    return mode is None or mode.show_tracebacks
