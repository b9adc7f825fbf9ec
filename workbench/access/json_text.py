"""JSON from outside: limited depth and size in memory, and a ValueError for every mistake."""

import json
from collections.abc import Callable
from typing import Any

MAX_DEPTH = 64
"""Deepest accepted nesting; scenarios, designs and their configurations have fewer than ten."""

MOST_ENTRIES = 4_000_000
"""An empty list takes 72 bytes of memory, and three in a file. A notebook of 64 MiB with figures
has two million numbers."""


class TooDeepError(ValueError):
    """A JSON text nests deeper than it may."""


Pairs = Callable[[list[tuple[str, Any]]], Any]


def parse_json(
    text: str | bytes,
    *,
    most_depth: int = MAX_DEPTH,
    most_entries: int = MOST_ENTRIES,
    pairs: Pairs | None = None,
) -> Any:
    """Return the value in `text`; `pairs` builds the objects, as in `json.loads`.

    Errors: ValueError; TooDeepError for nesting deeper than `most_depth`.
    """
    # Before they become objects: a comma precedes every entry but the first of its container.
    if (text.count(",") if isinstance(text, str) else text.count(b",")) > most_entries:
        raise ValueError(f"it has more than {most_entries:,} entries")
    try:
        value = json.loads(text, object_pairs_hook=pairs)
    except RecursionError:
        raise _too_deep(most_depth) from None
    level = [value]
    for _ in range(most_depth + 1):
        level = [child for item in level for child in _children(item)]
        if not level:
            return value
    raise _too_deep(most_depth)


def _children(item: Any) -> Any:
    if isinstance(item, dict):
        return item.values()
    return item if isinstance(item, list) else ()


def _too_deep(most_depth: int) -> TooDeepError:
    return TooDeepError(f"nested more than {most_depth} levels deep; reduce the nesting")


def json_or_word(text: str) -> Any:
    """Return parsed JSON where the text is JSON ("4", "true", "null"), else the bare word."""
    try:
        return parse_json(text)
    except ValueError:
        return text
