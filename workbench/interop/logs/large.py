"""Keep the lines of a large log that a start can have: a server prints for days after it."""

from collections import deque
from collections.abc import Callable, Collection, Iterator
from itertools import chain, islice

Progress = Callable[[int, int], None]
"""(megabytes that were searched, megabytes in all)."""

LARGE_CHARACTERS = 2**21
"""A longer text is a file of a server, not a paste that a terminal has wrapped."""
BEFORE, AFTER = 12, 16
"""Lines that are kept around every one that may matter."""
MOST_OF_A_WORD = 2000
WINDOW = 10**6
"""Characters that are searched for every word before the next ones: they stay in the cache."""
ERRORS = ("Error", "Exception")


def kept_lines(
    text: str, words: Collection[str], last_words: Collection[str], progress: Progress | None = None
) -> list[tuple[int, str]]:
    """Return (number, line) for the lines around every word, with an empty line between spans.

    last_words: of these only the last places count, as of errors.
    """
    places = _places(text, words, (*last_words, *ERRORS), progress)
    kept: list[tuple[int, str]] = []
    number, counted = 1, 0
    for at in places:
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


def _places(
    text: str, words: Collection[str], last_words: Collection[str], progress: Progress | None
) -> list[int]:
    """Return where the first places of the words and the last ones of the others are, in order."""
    first: dict[str, list[int]] = {word: [] for word in words}
    last: dict[str, deque[int]] = {word: deque(maxlen=MOST_OF_A_WORD) for word in last_words}
    total = -(-len(text) // WINDOW)
    for number in range(total):
        start = number * WINDOW
        window = text[start : start + WINDOW + max(map(len, (*first, *last)))]
        for word, found in first.items():
            if len(found) < MOST_OF_A_WORD:
                found.extend(islice(_inside(window, word, start), MOST_OF_A_WORD - len(found)))
        for word, ends in last.items():
            ends.extend(_inside(window, word, start))
        if progress is not None:
            progress(number + 1, total)
    return sorted({*chain(*first.values(), *last.values())})


def _inside(window: str, word: str, start: int) -> Iterator[int]:
    """Yield the places of a word that begins in a window, which itself begins at `start`."""
    end = WINDOW + len(word) - 1
    at = window.find(word, 0, end)
    while at >= 0:
        yield start + at
        at = window.find(word, at + 1, end)


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
