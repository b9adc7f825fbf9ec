"""Which messages a log holds, and where."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from workbench.interop.log_message import Message
from workbench.interop.log_messages import MESSAGES
from workbench.interop.log_text import MAX_TOLD, Line, bare, short, windows


@dataclass(frozen=True, slots=True)
class Found:
    """One message with its values, where it first stands, and how often it is said.

    values: None where the line is cut off before all of them are there.
    """

    message: Message
    line: Line
    values: dict[str, Any] | None
    times: int = 1

    @property
    def text(self) -> str:
        """The message as it was pasted, shortened."""
        return short(self.line.text)


SHORTEST_BEGINNING = 16
"""So many characters of a message at the very end of a paste are a message that was cut off."""


def find_messages(lines: list[Line]) -> tuple[Found, ...]:
    """Every known message, in the order of the log; what several ranks say alike counts once."""
    entries = tuple(MESSAGES.values())
    begins = tuple({entry.begins for entry in entries})
    found: dict[tuple[Any, ...], Found] = {}
    told: dict[str, int] = {}
    for at, line in enumerate(lines):
        text = line.text
        if not any(begin in text for begin in begins):
            continue
        for entry in entries:
            if entry.begins not in text:
                continue
            values = _values(entry, lines, at)
            if values is None and not entry.is_distinct:
                continue
            key = (entry.name, None if values is None else tuple(sorted(values.items())))
            if key in found:
                found[key] = replace(found[key], times=found[key].times + 1)
            elif told.get(entry.name, 0) < MAX_TOLD:
                told[entry.name] = told.get(entry.name, 0) + 1
                found[key] = Found(entry, line, values)
    read = {seen.line.number for seen in found.values() if seen.values is not None}
    whole = []
    for seen in found.values():
        # Several messages begin alike: a line that is read as one of them is no other one cut off.
        if seen.values is None and seen.line.number in read:
            continue
        read.add(seen.line.number)
        whole.append(seen)
    return (*whole, *_begun(lines, entries))


def _values(entry: Message, lines: list[Line], at: int) -> dict[str, Any] | None:
    for text in windows(lines, at):
        if (values := entry.read(text)) is not None:
            return values
    return None


def _begun(lines: list[Line], entries: tuple[Message, ...]) -> tuple[Found, ...]:
    """The message that the last line begins and does not get far with."""
    last = next((line for line in reversed(lines) if line.text.strip()), None)
    text = bare(last.text) if last else ""
    if last is None or len(text) < SHORTEST_BEGINNING:
        return ()
    for entry in entries:
        if entry.begins.startswith(text) and entry.begins != text:
            return (Found(entry, last, None),)
    return ()
