"""Keep the lines of a large log that a start can have: a server prints for days after it."""

from collections.abc import Iterable, Iterator

LARGE_CHARACTERS = 2**21
"""A longer text is a file of a server, not a paste that a terminal has wrapped."""
BEFORE, AFTER = 12, 16
"""Lines that are kept around every one that may matter."""
MOST_OF_A_WORD = 2000
ERRORS = ("Error", "Exception")


def kept_lines(text: str, words: Iterable[str], last_words: Iterable[str]) -> list[tuple[int, str]]:
    """Return (number, line) for the lines around every word, with an empty line between spans.

    last_words: of these only the last places count, as of errors.
    """
    places = {at for word in words for at in _places(text, word)}
    for word in (*last_words, *ERRORS):
        places |= set(_last_places(text, word))
    kept: list[tuple[int, str]] = []
    number, counted = 1, 0
    for at in sorted(places):
        if kept and at < counted:
            continue  # inside the span before
        start = _back(text, at, BEFORE, counted)
        number += text.count("\n", counted, start)
        if kept and start > counted:
            kept.append((number, ""))
        end = _forward(text, at, AFTER)
        lines = text[start:end].splitlines()
        kept += [(number + index, line) for index, line in enumerate(lines)]
        number, counted = number + text.count("\n", start, end), end
    return kept


def _places(text: str, word: str) -> Iterator[int]:
    at = text.find(word)
    for _ in range(MOST_OF_A_WORD):
        if at < 0:
            return
        yield at
        at = text.find(word, at + 1)


def _last_places(text: str, word: str) -> Iterator[int]:
    at = text.rfind(word)
    for _ in range(MOST_OF_A_WORD):
        if at < 0:
            return
        yield at
        at = text.rfind(word, 0, at)


def _back(text: str, at: int, lines: int, least: int) -> int:
    """Return where the line begins that is so many lines before this place."""
    for _ in range(lines + 1):
        at = text.rfind("\n", least, at)
        if at < 0:
            return least
    return at + 1


def _forward(text: str, at: int, lines: int) -> int:
    """Return where the line ends that is so many lines after this place."""
    for _ in range(lines + 1):
        at = text.find("\n", at)
        if at < 0:
            return len(text)
        at += 1
    return at
