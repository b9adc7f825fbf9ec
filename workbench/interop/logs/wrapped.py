"""Join messages that a terminal, a chat or a mail program has wrapped."""

from collections.abc import Iterator
from itertools import takewhile

from workbench.interop.logs.text import Line, bare, is_begun

JOINED_LINES = 4
"""Lines with heads of their own that may belong together: some formatters repeat the head."""
WRAPPED_LINES = 12
"""Lines without a head that a message is spread over at most, at 80 columns."""
DUMP_LINES = 400
"""The same for a printed configuration."""
LONGEST_WRAPPED = 8192
"""Characters in the further lines of a message that is not a configuration."""
NARROWEST = 60
"""Columns. A shorter line was not cut by a program."""


def width_of(lines: list[Line]) -> int | None:
    """Return the column at which this log was cut; None if no cut is visible.

    No line is longer than a cut one, and most cut ones go on in a line without a head.
    """
    width = max((len(line.text.rstrip()) for line in lines), default=0)
    longest = [at for at, line in enumerate(lines) if len(line.text.rstrip()) == width]
    going_on = sum(bool(continuation(lines, at, 1)) for at in longest)
    return width if width >= NARROWEST and 2 * going_on > len(longest) else None


def windows(lines: list[Line], at: int) -> Iterator[str]:
    """Yield the line at this place, then joined with the following lines as if it were wrapped."""
    yield lines[at].text
    wrapped = continuation(lines, at, WRAPPED_LINES)
    following = [line.text for line in lines[at + 1 : at + JOINED_LINES]]
    for count in range(1, max(len(wrapped), len(following)) + 1):
        parts = wrapped[:count] if count <= len(wrapped) else following[:count]
        if sum(map(len, parts)) > LONGEST_WRAPPED:
            return
        yield from dict.fromkeys(_joins([lines[at].text, *parts]))


def continuation(lines: list[Line], at: int, most: int) -> list[str]:
    """Return the lines after this one that do not begin a message themselves."""
    following = (line.text for line in lines[at + 1 : at + 1 + most])
    return list(takewhile(lambda text: text.strip() and not is_begun(text), following))


def dumps(lines: list[Line], at: int) -> Iterator[str]:
    """Yield a printed configuration, whose wrapped lines need no space between them."""
    parts = [lines[at].text.strip(), *map(bare, continuation(lines, at, DUMP_LINES))]
    for words in ("", " "):
        yield words.join(parts[:2]) + "".join(parts[2:])


def command_at(lines: list[Line], at: int) -> str:
    """Return a command line with the lines before and after it that backslashes join."""
    first, last = at, at
    while first and lines[first - 1].text.rstrip().endswith("\\"):
        first -= 1
    while last + 1 < len(lines) and lines[last].text.rstrip().endswith("\\"):
        last += 1
    return " ".join(line.text.rstrip().removesuffix("\\") for line in lines[first : last + 1])


def _joins(parts: list[str]) -> Iterator[str]:
    """Join as if cut at a column, as if broken at spaces, and as if cut with the spaces lost."""
    width = max(len(part.rstrip()) for part in parts[:-1])
    texts = [parts[0].rstrip(), *(bare(part) for part in parts[1:])]
    for in_words in (True, False):
        joined = texts[0]
        for before, part, text in zip(parts, parts[1:], texts[1:], strict=False):
            is_cut = in_words and not (before[-1:].isspace() or part[:1].isspace())
            joined += ("" if is_cut else " ") + text
        yield joined
    joined = texts[0]
    for before, text in zip(parts, texts[1:], strict=False):
        joined += ("" if len(before.rstrip()) == width else " ") + text
    yield joined
