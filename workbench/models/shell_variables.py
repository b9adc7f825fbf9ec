"""Shell variables in a pasted command: their values, or what to do without one."""

import re
from collections.abc import Callable, Iterable, Mapping

from workbench.core.errors import ScenarioError

MOST_CHARACTERS = 100_000
"""That values may add: one that holds another twice doubles it, and dozens of them fill memory."""
REFERENCE = re.compile(r"\$(?:(\w+)|\{(\w+)(?::?-([^}]{0,1000}))?\})")
"""`$NAME`, `${NAME}`, or `${NAME:-value where it is not set}`."""
ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*?);?", re.DOTALL)
"""A variable that is set before a command."""


def set_before(words: Iterable[str]) -> dict[str, str]:
    """Return the variables that words set (`NAME=value`), with earlier ones in their values.

    Errors: ScenarioError for values that are too long together.
    """
    values: dict[str, str] = {}
    written = _written_out(values)
    for found in filter(None, map(ASSIGNMENT.fullmatch, words)):
        values[found[1]] = written(found[2])
    return values


def with_values(words: Iterable[str], values: Mapping[str, str]) -> list[str]:
    """Return words with the values of their shell variables; those that are not set stay.

    Errors: as of `set_before`.
    """
    return list(map(_written_out(values), words))


def _written_out(values: Mapping[str, str]) -> Callable[[str], str]:
    """Return what replaces the variables of a word, and counts what all of its words get."""
    left = MOST_CHARACTERS

    def value(found: re.Match[str]) -> str:
        nonlocal left
        default = found[0] if found[3] is None else found[3]
        text = values.get(found[1] or found[2], default)
        left -= len(text)
        if left < 0:
            raise ScenarioError(
                "out_of_range",
                f"The shell variables of this command add more than {MOST_CHARACTERS:,} "
                "characters. Write the values in their place.",
                field="command",
            )
        return text

    return lambda word: REFERENCE.sub(value, word)


def not_set(text: str) -> str | None:
    """Return what to do about a shell variable in a text; None where there is none."""
    found = REFERENCE.search(text)
    if found is None:
        return None
    return (
        f"{found[0]} is a shell variable, and its value is not known here. Write the value in its "
        "place, or set the variable before the command: "
        f"{found[1] or found[2]}=VALUE vllm serve ..."
    )
