"""Find the known messages of a log, and where they are."""

from dataclasses import dataclass, replace
from typing import Any

from workbench.interop.logs.message import Message
from workbench.interop.logs.messages import MESSAGES
from workbench.interop.logs.text import MAX_REPEATS, Line, bare, is_begun, short
from workbench.interop.logs.wrapped import command_at, continuation, dumps, width_of, windows


@dataclass(frozen=True, slots=True)
class LoggedMessage:
    """One message with its values, its first line, and how often it occurs."""

    message: Message
    line: Line
    """Extended until it holds all values, also if it is wrapped."""
    values: dict[str, Any]
    is_cut: bool = False
    """The line is cut off before all values, and has none."""
    times: int = 1
    last: int = 0
    """The number of the last line with the same message."""

    @property
    def text(self) -> str:
        """Return the message without its head, shortened."""
        return short(self.line.text)


SHORTEST_BEGINNING = 16
"""Fewest characters at the end of a paste that count as a message that was cut off."""


def find_messages(
    lines: list[Line], entries: tuple[Message, ...] | None = None
) -> tuple[LoggedMessage, ...]:
    """Return every known message in the order of the log; identical ones of ranks count once.

    entries: the messages that are looked for; those of a start by default.
    """
    entries = tuple(MESSAGES.values()) if entries is None else entries
    begins = tuple({entry.begins for entry in entries})
    width = width_of(lines)
    found: dict[tuple[Any, ...], LoggedMessage] = {}
    counts: dict[str, int] = {}
    for at, line in enumerate(lines):
        here = {begin for begin in begins if begin in line.text}
        here |= _wrapped_begins(lines, at, begins)
        if not here:
            continue
        for entry in (one for one in entries if one.begins in here):
            values, text = _read(entry, lines, at, width)
            if values is None and not entry.is_distinct:
                continue
            key = (entry.name, repr(values and sorted(values.items())))
            if key in found:
                found[key] = replace(found[key], times=found[key].times + 1, last=line.number)
            elif counts.get(entry.name, 0) < MAX_REPEATS:
                counts[entry.name] = counts.get(entry.name, 0) + 1
                found[key] = LoggedMessage(
                    message=entry,
                    line=Line(line.number, text),
                    values=values or {},
                    is_cut=values is None,
                    last=line.number,
                )
    read = {seen.line.number for seen in found.values() if not seen.is_cut}
    whole = []
    for seen in found.values():
        # Several messages begin identically: a line that matches one is not a cut-off other one.
        if seen.is_cut and seen.line.number in read:
            continue
        read.add(seen.line.number)
        whole.append(seen)
    return (*whole, *_begun(lines, entries))


def _wrapped_begins(lines: list[Line], at: int, begins: tuple[str, ...]) -> set[str]:
    """Return words of messages that begin in this line and are wrapped themselves."""
    after = continuation(lines, at, 1)
    if not after:
        return set()
    line, following = lines[at].text.rstrip(), bare(after[0])
    reach = max(map(len, begins))
    end, start = line[-reach:], following[:reach]
    return {
        begin
        for begin in begins
        if (begin in end + start or begin in f"{end} {start}")
        and begin not in line
        and begin not in following
    }


def _read(
    entry: Message, lines: list[Line], at: int, width: int | None
) -> tuple[dict[str, Any] | None, str]:
    """Return values of the message whose `begins` is here, at least partly, and their text."""
    text = lines[at].text
    if entry.is_command:  # one line, or several that backslashes join
        text = command_at(lines, at)
        return entry.read(text), text
    after = "".join(continuation(lines, at, 1))
    is_cut = bool(after) and (
        (width is not None and len(text.rstrip()) >= width - 1)
        or (text[-1:].isdigit() and after[0].isdigit())
    )
    before = lines[at - 1].text if at and not is_begun(text) else ""
    for window in dumps(lines, at) if entry.is_dump else windows(lines, at):
        values = entry.read(window)
        if values is None or (is_cut and window is text and entry.reads_to_the_end(text)):
            continue
        if window is not text and entry.read(window[len(text.rstrip()) :]) is not None:
            continue  # it begins in a line after this one
        # The text before it can make it the end of another message.
        return entry.read(f"{before.rstrip()} {bare(window)}") if before else values, window
    if before and entry.read(before) is None:
        for window in windows(lines, at - 1):  # it began a line before the words that find it
            if (values := entry.read(window)) is not None:
                return values, window
    return entry.read(text), text


def _begun(lines: list[Line], entries: tuple[Message, ...]) -> tuple[LoggedMessage, ...]:
    """Return the message whose first characters end the log."""
    last = next((line for line in reversed(lines) if line.text.strip()), None)
    text = bare(last.text) if last else ""
    cut = [one for one in entries if one.begins.startswith(text) and one.begins != text]
    if last is None or len(text) < SHORTEST_BEGINNING or not cut:
        return ()
    begun = LoggedMessage(message=cut[0], line=last, values={}, is_cut=True, last=last.number)
    return (begun,)
