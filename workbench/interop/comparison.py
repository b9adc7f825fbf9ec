"""Read which two scenarios a line compares: "TP 4 vs TP 2 x PP 2"."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from workbench.core.errors import ScenarioError
from workbench.core.ranks import SHORT
from workbench.interop.description import Description, Load, read_description
from workbench.interop.words_of_fields import OF_LENGTH

LEAD = (
    r"(?:(?:please )?compare|(?:what is )?the difference between|which is better[:,]?|"
    r"what is better[:,]?|(?:should|would|can) (?:i|we) (?:use|take|run|choose)|is)"
)
BETWEEN, FROM = r"vs\.?|versus|against|or", r"instead of|rather than|compared (?:to|with)"
PAIR = re.compile(rf"(?:{LEAD} )?(?P<a>.+?),? (?:{BETWEEN}) (?P<now>.+)", re.IGNORECASE)
REVERSED_PAIR = re.compile(rf"(?:{LEAD} )?(?P<now>.+?),? (?:{FROM}) (?P<a>.+)", re.IGNORECASE)
NAMED_PAIR = re.compile(
    r"(?:compare|(?:what is )?the difference between) (?P<a>.+?) (?:and|with|to) (?P<now>.+)",
    re.IGNORECASE,
)
"""Pairs with words that have other meanings, too, where nothing is compared."""
CHANGED = re.compile(r".+ from (?=[a-z])(?P<a>.+?) to (?P<now>.+)", re.IGNORECASE)
"""What was changed; from a number it is of a release or a length: "from 0.23 to 0.33"."""
NUMBER = r"\d[\d,.]*[km]?"
VALUE = re.compile(rf"(?:(?<=\s)|^){NUMBER}(?=\s|$)|(?<=\b[a-z]p){NUMBER}(?=\s|$)", re.IGNORECASE)
"""A number that is a word, or the one of TP4."""
NUMBER_FIRST = re.compile(rf"({NUMBER})((?:,? (?:on|for|with|in|at|under) .+)?)", re.IGNORECASE)
"""A number alone, and what may be said of both after it: "TP 4 vs 8 on H100"."""
BLOCK_SIZE = re.compile(r"\bblock[ -]size (?=\d)", re.IGNORECASE)
"""Elsewhere mostly a number to explain."""
OF_LENGTHS = re.compile(rf"\d[km]\b|\b(?:{OF_LENGTH})\b", re.IGNORECASE)
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
    text = BLOCK_SIZE.sub("block_size ", text)
    for pattern in (REVERSED_PAIR, PAIR, NAMED_PAIR, CHANGED):
        if found := pattern.fullmatch(text):
            first, second = map(_description, _both_whole(found["a"], found["now"]))
            if first and second and not _are_releases(first, second):
                return _of_loads(first, second, text)
    return None


def _both_whole(first: str, second: str) -> tuple[str, str]:
    """Return two sides; one that is a number alone is the other with this number: "TP 4 vs 8"."""
    return _whole(first, second, 0), _whole(second, first, -1)


def _whole(side: str, other: str, which: int) -> str:
    values, found = [*VALUE.finditer(other)], NUMBER_FIRST.fullmatch(side)
    if not found or not values or VALUE.fullmatch(other):
        return side
    return f"{other[: values[which].start()]}{found[1]}{other[values[which].end() :]} {found[2]}"


def _of_loads(first: Description, second: Description, text: str) -> Compared | None:
    """Return a comparison; lengths that differ are those of the model: requests have no field.

    None where the numbers of requests differ, or a side says nothing but a number.
    """
    requests, lengths = ({*values} - {None} for values in zip(first.load, second.load, strict=True))
    differ = len(lengths) > 1 and bool(OF_LENGTHS.search(text))
    says = differ or (first.fields and second.fields)
    if len(requests) > 1 or not says:
        return None
    return _shared_out(*map(_of_model, (first, second)) if differ else (first, second))


def _of_model(side: Description) -> Description:
    fields = {**side.fields, "max_model_len": side.load.length_tokens}
    return Description(fields, side.load._replace(length_tokens=None))


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
