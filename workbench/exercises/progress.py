"""A learner's progress: a small JSON file in the user's state folder only."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, overload

from workbench.access.files import FileError, FileUse, read_bytes
from workbench.access.json_text import parse_json
from workbench.core.errors import WorkbenchError
from workbench.exercises.exercise import EXERCISES

VARIABLE = "WORKBENCH_PROGRESS"
"""The environment variable that names another file."""
VERSION = 1
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


class Progress(Sequence[Entry]):
    """All exercises and their state; prints as a list, shows itself as a table."""

    def __init__(self, entries: Sequence[Entry], path: Path) -> None:
        self._entries = tuple(entries)
        self.path = path

    @overload
    def __getitem__(self, index: int) -> Entry: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Entry, ...]: ...
    def __getitem__(self, index: int | slice) -> Entry | tuple[Entry, ...]:
        return self._entries[index]

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries)

    @property
    def solved(self) -> tuple[str, ...]:
        """Return the names of the exercises that are solved."""
        return tuple(entry.name for entry in self if entry.solved)

    def __repr__(self) -> str:
        head = f"{len(self.solved)} of {len(self)} exercises solved"
        return "\n".join([head, *map(str, self)])

    def _repr_html_(self) -> str:
        from workbench.views.html import document

        cells = "".join(
            f"<tr><td>{entry.lesson}</td><td>{escape(entry.title)}</td>"
            f'<td class="wb-number">{entry.tries}</td>'
            f"<td>{'✓ solved' if entry.solved else '… open'}</td></tr>"
            for entry in self
        )
        return document(
            f"<p><b>{len(self.solved)} of {len(self)} exercises solved.</b> "
            "<code>wb.reset_progress()</code> starts again.</p>"
            '<table class="wb-table"><tr><th>Lesson</th><th>Exercise</th><th>Tries</th>'
            f"<th></th></tr>{cells}</table>"
        )


def progress_path() -> Path:
    """Return the progress file: WORKBENCH_PROGRESS, else in the user's state folder."""
    if named := os.environ.get(VARIABLE):
        return Path(named).expanduser()
    states = os.environ.get("XDG_STATE_HOME") or os.environ.get("LOCALAPPDATA")
    folder = Path(states) if states else Path.home() / ".local" / "state"
    return folder / "hybrid-kv-workbench" / "progress.json"


def progress() -> Progress:
    """Return what is solved so far. Errors: ProgressError for an unreadable file."""
    path = progress_path()
    kept = _read(path)
    entries = [
        Entry(name, exercise.lesson, exercise.title, *kept.get(name, (0, False)))
        for name, exercise in EXERCISES.items()
    ]
    return Progress(sorted(entries, key=lambda entry: entry.lesson), path)


def reset_progress() -> Progress:
    """Delete all progress, a damaged file included. Errors: ProgressError if this fails."""
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
    tries, before = kept.get(name, (0, False))
    kept[name] = (tries + 1, before or solved)
    exercises = {key: {"tries": n, "solved": done} for key, (n, done) in sorted(kept.items())}
    text = json.dumps({"version": VERSION, "exercises": exercises}, indent=1)
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        new.write_text(f"{text}\n", encoding="utf-8")
        new.replace(path)
    except OSError as error:
        with suppress(OSError):
            new.unlink(missing_ok=True)
        raise _unusable(path, f"cannot be written: {error.strerror}") from None


def _read(path: Path) -> dict[str, tuple[int, bool]]:
    """Return name -> (tries, solved); names of removed exercises are kept."""
    try:
        if not path.exists():
            return {}
        found = parse_json(read_bytes(path, PROGRESS))
        return {name: _entry(entry) for name, entry in _exercises(found).items()}
    except FileError as error:
        raise _unusable(path, f"cannot be used ({error.message})") from None
    except ValueError as error:
        raise _unusable(path, f"is damaged: {error}") from None


def _exercises(found: Any) -> dict[str, Any]:
    if not isinstance(found, dict) or not isinstance(found.get("exercises"), dict):
        raise ValueError("it is not an object with exercises")  # noqa: TRY004  (damage)
    if found.get("version") != VERSION:
        raise ValueError(f"version {found.get('version')!r}, but {VERSION} is known")
    return found["exercises"]


def _entry(entry: Any) -> tuple[int, bool]:
    tries = entry.get("tries") if isinstance(entry, dict) else None
    solved = entry.get("solved") if isinstance(entry, dict) else None
    if type(tries) is not int or tries < 0 or type(solved) is not bool:
        raise ValueError(f"{json.dumps(entry)[:60]} lacks tries and solved")
    return tries, solved


def _unusable(path: Path, what: str) -> ProgressError:
    return ProgressError(
        "progress_file",
        f"The progress file {path} {what}. wb.reset_progress() starts a new one; {VARIABLE} names "
        "another place.",
        field=VARIABLE,
    )
