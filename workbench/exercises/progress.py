"""A learner's progress: a small JSON file in the user's state folder only."""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, NonNegativeInt, ValidationError

from workbench.access.files import FileError, FileUse, read_bytes
from workbench.access.json_text import parse_json
from workbench.core.errors import WorkbenchError
from workbench.exercises.exercise import EXERCISES

VARIABLE = "WORKBENCH_PROGRESS"
"""The environment variable that names another file."""
PROGRESS = FileUse("progress file", 2**20, VARIABLE)


class ProgressError(WorkbenchError):
    """The progress file cannot be read or written."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One exercise: how often an answer was checked, and whether one was right."""

    name: str
    lesson: int
    title: str
    tries: int
    solved: bool

    def __str__(self) -> str:
        tried = f"{self.tries} {'try' if self.tries == 1 else 'tries'}" if self.tries else "not yet"
        return f"{'✓' if self.solved else '…'} lesson {self.lesson}, {self.title}: {tried}"


class Progress(tuple[Entry, ...]):
    """All exercises and their state; prints as a list, shows itself as a table."""

    __slots__ = ()

    @property
    def solved(self) -> tuple[str, ...]:
        """Return the names of the exercises that are solved."""
        return tuple(entry.name for entry in self if entry.solved)

    def __repr__(self) -> str:
        head = f"{len(self.solved)} of {len(self)} exercises solved"
        return "\n".join([head, *map(str, self)])

    def _repr_html_(self) -> str:
        from workbench.views.html import code, document, join, table, tag

        lead = tag("b", f"{len(self.solved)} of {len(self)} exercises solved.")
        rows = (
            (entry.lesson, entry.title, entry.tries, "✓ solved" if entry.solved else "… open")
            for entry in self
        )
        again = join(lead, " ", code("wb.reset_progress()"), " starts again.")
        return document(tag("p", again), table(("Lesson", "Exercise", "Tries", ""), rows))


def progress_path() -> Path:
    """Return the progress file: WORKBENCH_PROGRESS, else in the user's state folder."""
    if named := os.environ.get(VARIABLE):
        return Path(named).expanduser()
    states = os.environ.get("XDG_STATE_HOME") or os.environ.get("LOCALAPPDATA")
    folder = Path(states) if states else Path.home() / ".local" / "state"
    return folder / "hybrid-kv-workbench" / "progress.json"


def progress() -> Progress:
    """Return what is solved so far. Errors: ProgressError for an unreadable file.

    >>> print(wb.progress())
    0 of ... exercises solved...
    """
    kept = _read(progress_path())
    entries = (
        Entry(name, exercise.lesson, exercise.title, **dict(kept.get(name, _UNTRIED)))
        for name, exercise in EXERCISES.items()
    )
    return Progress(sorted(entries, key=lambda entry: entry.lesson))


def reset_progress() -> Progress:
    """Delete all progress, a damaged file included. Errors: ProgressError if this fails.

    >>> wb.reset_progress()
    0 of ... exercises solved...
    """
    path = progress_path()
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise _unusable(path, f"cannot be removed: {error.strerror}") from None
    return progress()


def record(name: str, *, solved: bool) -> None:
    """Record one checked answer; a solved exercise stays solved. Errors: ProgressError."""
    path = progress_path()
    kept = _read(path)
    before = kept.get(name, _UNTRIED)
    kept[name] = _Tried(tries=before.tries + 1, solved=before.solved or solved)
    text = _File(version=1, exercises=dict(sorted(kept.items()))).model_dump_json(indent=1)
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new.write_text(f"{text}\n", encoding="utf-8")
        new.replace(path)
    except OSError as error:
        with suppress(OSError):
            new.unlink(missing_ok=True)
        raise _unusable(path, f"cannot be written: {error.strerror}") from None


class _Tried(BaseModel, strict=True):
    """How often an exercise was checked, and whether an answer was right."""

    tries: NonNegativeInt
    solved: bool


_UNTRIED = _Tried(tries=0, solved=False)


class _File(BaseModel, strict=True):
    """The progress file; names of removed exercises are kept."""

    version: Literal[1]
    exercises: dict[str, _Tried]


def _read(path: Path) -> dict[str, _Tried]:
    try:
        if not path.exists():
            return {}
        return _File.model_validate(parse_json(read_bytes(path, PROGRESS))).exercises
    except FileError as error:
        raise _unusable(path, f"cannot be used ({error.message})") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise _unusable(path, f"is damaged: {where}: {first['msg']}") from None
    except ValueError as error:
        raise _unusable(path, f"is damaged: {error}") from None


def _unusable(path: Path, what: str) -> ProgressError:
    return ProgressError(
        "progress_file",
        f"The progress file {path} {what}. wb.reset_progress() starts a new one; {VARIABLE} names "
        "another place.",
        field=VARIABLE,
    )
