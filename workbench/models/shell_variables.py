"""Shell variables in a pasted command: their values, or what to do without one."""

import re
from collections.abc import Iterable, Mapping

REFERENCE = re.compile(r"\$(?:(\w+)|\{(\w+)(?::?-([^}]*))?\})")
"""`$NAME`, `${NAME}`, or `${NAME:-value where it is not set}`."""
ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*?);?", re.DOTALL)
"""A variable that is set before a command."""


def set_before(words: Iterable[str]) -> dict[str, str]:
    """Return the variables that words set (`NAME=value`), with earlier ones in their values."""
    values: dict[str, str] = {}
    for found in filter(None, map(ASSIGNMENT.fullmatch, words)):
        values[found[1]] = with_values(found[2], values)
    return values


def with_values(word: str, values: Mapping[str, str]) -> str:
    """Return a word with the values of its shell variables; those that are not set stay."""

    def value(found: re.Match[str]) -> str:
        default = found[0] if found[3] is None else found[3]
        return values.get(found[1] or found[2], default)

    return REFERENCE.sub(value, word)


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
