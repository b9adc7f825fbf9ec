"""Read which two scenarios a line compares: "TP 4 vs TP 2 x PP 2"."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from workbench.core.errors import ScenarioError
from workbench.core.ranks import SHORT
from workbench.interop.description import Description, Load, read_description

LEAD = (
    r"(?:(?:please )?compare|(?:what is )?the difference between|which is better[:,]?|"
    r"what is better[:,]?|(?:should|would|can) (?:i|we) (?:use|take|run|choose)|is)"
)
BETWEEN = r"vs\.?|versus|against|or|instead of|compared (?:to|with)"
PAIR = re.compile(rf"(?:{LEAD} )?(.+?),? (?:{BETWEEN}) (.+)", re.IGNORECASE)
NAMED_PAIR = re.compile(
    r"(?:compare|(?:what is )?the difference between) (.+?) (?:and|with|to) (.+)", re.IGNORECASE
)
"""Pairs with words that have other meanings, too, where nothing is compared."""
CHANGED = re.compile(r".+ from (?=[a-z])(.+?) to (.+)", re.IGNORECASE)
"""What was changed; from a number it is of a release or a length: "from 0.23 to 0.33"."""
WORD = re.compile(r"\w")
SHARED = ("model", "device", "rules", "platform")
"""Fields that are said once for both: "TP 4 vs TP 8 on H100"."""
RANKS = frozenset(SHORT)
MACHINE = RANKS | {"device", "platform"}


class Compared(NamedTuple):
    """Two descriptions, each with what is said of both."""

    first: Description
    second: Description


def read_comparison(text: str) -> Compared | None:
    """Return what a line compares; None if it is not two descriptions with something between."""
    text = _without_end(text.strip())
    if "\n" in text:
        return None
    for pattern in (PAIR, NAMED_PAIR, CHANGED):
        if found := pattern.fullmatch(text):
            first, second = map(_description, found.groups())
            if first and second and not _are_releases(first, second):
                return _shared_out(first, second)
    return None


def _without_end(text: str) -> str:
    """Return a text without the marks after its last word."""
    # not in the pattern, where many marks inside of a text would take a time that grows as n * n
    last = next((at for at in range(len(text), 0, -1) if WORD.match(text[at - 1])), 0)
    return text[:last]


def _description(text: str) -> Description | None:
    try:
        return read_description(text)
    except ScenarioError:
        return None


def _are_releases(first: Description, second: Description) -> bool:
    """Return whether only releases are compared, which has a view of its own."""
    return first.fields.keys() | second.fields.keys() == {"rules"}


def _shared_out(first: Description, second: Description) -> Compared:
    load = Load(*(one or other for one, other in zip(first.load, second.load, strict=True)))
    of_both, kept = {*SHARED}, {*SHARED}
    if first.fields.keys().isdisjoint(MACHINE):  # 0.23 vs 0.33 on 8 H100: all 8 are of both
        of_both |= RANKS
    if second.fields.keys() <= first.fields.keys():  # other values of the same fields
        kept |= first.fields.keys()
    if not second.fields.keys().isdisjoint(RANKS):  # all ranks are said: TP 4 is not TP 4 x PP 2
        kept -= RANKS
    return Compared(
        Description(_only(second.fields, of_both) | first.fields, load),
        Description(_only(first.fields, kept) | second.fields, load),
    )


def _only(fields: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name in names}
