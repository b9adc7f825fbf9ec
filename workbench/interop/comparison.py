"""Read which scenarios a line compares: "TP 4 vs TP 2 x PP 2", "compare H100, H200 and B200"."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from workbench.core.errors import ScenarioError
from workbench.core.ranks import SHORT
from workbench.interop.description import Description, Load, read_description
from workbench.interop.said import MODEL_FIELD, said_words, with_model, with_said
from workbench.interop.sentences import MOST_SIDES
from workbench.interop.understood import Side, Understood
from workbench.interop.words_of_fields import DTYPES, KV, OF_LENGTH
from workbench.scenario import Scenario

NAMED = r"(?:please )?compare|(?:what is )?the difference between"
LEAD = (
    rf"(?:{NAMED}|(?:which|what) is better[:,]?|"
    r"(?:should|would|can) (?:i|we) (?:use|take|run|choose)|is)"
)
AGAINST = r"vs\.?|versus|against"
BETWEEN, FROM = rf"{AGAINST}|or", r"instead of|rather than|compared (?:to|with)"
PAIR = re.compile(rf"(?:{LEAD} )?(?P<a>.+?),? (?:{BETWEEN}) (?P<now>.+)", re.IGNORECASE)
REVERSED_PAIR = re.compile(rf"(?:{LEAD} )?(?P<now>.+?),? (?:{FROM}) (?P<a>.+)", re.IGNORECASE)
NAMED_PAIR = re.compile(rf"(?:{NAMED}) (?P<a>.+?) (?:and|with|to) (?P<now>.+)", re.IGNORECASE)
"""Pairs with words that have other meanings, too, where nothing is compared."""
WITH_PRESENT = re.compile(
    r"(?:compare (?:(?:it|this|that) )?(?:with|to|against)|compared (?:to|with)|"
    rf"{AGAINST}) (?P<now>.+)",
    re.IGNORECASE,
)
"""What the present scenario is compared with."""
CHANGED = re.compile(r".+ from (?=[a-z])(?P<a>.+?) to (?P<now>.+)", re.IGNORECASE)
"""What was changed; from a number it is of a release or a length: "from 0.23 to 0.33"."""
LIST_LEAD = re.compile(rf"(?:(?P<named>{NAMED})|{LEAD}) ", re.IGNORECASE)
SEPARATOR = re.compile(rf",? (?:{BETWEEN}) |, (?:and )?", re.IGNORECASE)
"""Between two of several sides."""
AND = rf"(?:,? (?:{BETWEEN}|and) |, )"
OF_THE_CACHE = re.compile(rf"\b({DTYPES})(?=(?:{AND}(?:{DTYPES}))+ {KV}(?: |$))", re.IGNORECASE)
"""A dtype of several, of which the last one says that they are the cache's: "bf16 vs fp8 KV"."""
NUMBER = r"\d[\d,.]*[km]?"
VALUE = re.compile(rf"(?:(?<=\s)|^){NUMBER}(?=\s|$)|(?<=\b[a-z]p){NUMBER}(?=\s|$)", re.IGNORECASE)
"""A number that is a word, or the one of TP4."""
NUMBER_FIRST = re.compile(rf"({NUMBER})((?:,? (?:on|for|with|in|at|under) .+)?)", re.IGNORECASE)
"""A number alone, and what may be said of both after it: "TP 4 vs 8 on H100"."""
NONE = re.compile(
    r"(?:none|nothing|off|without(?: it)?)((?: (?:on|for|with|in|at) .+)?)", re.IGNORECASE
)
"""What is compared with its absence: "MTP 3 vs none"."""
OF_LENGTHS = re.compile(rf"\d[km]\b|\b(?:{OF_LENGTH})\b", re.IGNORECASE)
WORD = re.compile(r"\w")
SLASH = re.compile(r"(?<=\w) / (?=\w)")
SHARED = ("model", "device", "rules", "platform")
"""Fields that are said once for both: "TP 4 vs TP 8 on H100"."""
RANKS = frozenset(SHORT)
MACHINE = RANKS | {"device", "platform"}


def with_or(text: str) -> str:
    """Return a line in which a slash between two things is an "or": "on L4 / RTX 4090"."""
    return text if "\n" in text or "--" in text else SLASH.sub(" or ", text)


def read_comparison(text: str) -> tuple[Description, ...]:
    """Return what a line compares, each with what is said of all; nothing for any other line."""
    text = OF_THE_CACHE.sub(r"\1 KV", _without_end(text.strip()))
    if "\n" in text:
        return ()
    if found := WITH_PRESENT.fullmatch(text):
        now = _descriptions([found["now"]])
        return (Description(), *now) if now and now[0].fields else ()
    has_lengths = bool(OF_LENGTHS.search(text))
    sides = (_of_loads(one, has_lengths=has_lengths) for one in (_several(text), *_pairs(text)))
    return next(filter(None, sides), ())


def compared(found: Sequence[Description], present: Scenario) -> Understood:
    """Return what a text with these sides is taken for: A is the first, the last one is shown."""
    # next to the present model, another one has the same settings; two others have only its machine
    is_of_present = any(
        one.fields.get(MODEL_FIELD, present.model) == present.model for one in found
    )
    scenarios = [(with_said if is_of_present else with_model)(present, one) for one in found]
    both = [*zip(scenarios, found, strict=True)]
    first, *between, now = (said_words(scenario, one.fields, one) for scenario, one in both)
    words = f"A is {first}; now is {now}"
    if between:
        words = f"{len(both)} scenarios; A is {first}"
    elif scenarios[0] == scenarios[1]:
        words = f"{first}; {now}"  # only their requests differ: nothing is pinned
    return Understood(
        kind="comparison",
        scenario=scenarios[-1],
        words=f"Compared: {words}.",
        said=found[-1].fields,
        load=found[-1].load,
        compared=tuple(Side(scenario, one.load) for scenario, one in both),
    )


def _pairs(text: str) -> Iterator[list[Description]]:
    for pattern in (REVERSED_PAIR, PAIR, NAMED_PAIR, CHANGED):
        if found := pattern.fullmatch(text):
            yield _descriptions([found["a"], found["now"]])


def _several(text: str) -> list[Description]:
    """Return three and more sides; lists with commas or "or" all say something of the same."""
    lead = LIST_LEAD.match(text)
    rest = text[lead.end() :] if lead else text
    texts = SEPARATOR.split(rest, MOST_SIDES)
    if lead and lead["named"]:
        texts[-1:] = re.split(r",? and ", texts[-1], maxsplit=1)
    if not 3 <= len(texts) <= MOST_SIDES:
        return []
    sides = _descriptions(texts)
    against = re.findall(rf" (?:{AGAINST}) ", rest, re.IGNORECASE)
    is_clear = len(against) == len(texts) - 1 or (
        sides and set[str].intersection(*map(_says, sides))
    )
    return sides if is_clear else []


def _says(side: Description) -> set[str]:
    """Return what a side says something of; all ranks are one thing."""
    load = (name for name, one in side.load._asdict().items() if one)
    return {"ranks" if name in RANKS else name for name in (*side.fields, *load)}


def _descriptions(texts: Sequence[str]) -> list[Description]:
    """Return what each side says; nothing where one of them cannot be read."""
    found: list[Description] = []
    for text in _whole(texts):
        try:
            side = read_description(text)
        except ScenarioError:
            side = None
        if side is None:
            return []
        found.append(side)
    return found


def _whole(sides: Sequence[str]) -> list[str]:
    """Return the sides; a number alone is the nearest other side with this number: "TP 4 vs 8"."""
    found = list(sides)
    for at, side in enumerate(sides):
        if absent := NONE.fullmatch(side):
            other = sides[at - 1] if at else sides[1]
            found[at] = f"no {VALUE.sub('', other).strip()}{absent[1]}"
            continue
        number = NUMBER_FIRST.fullmatch(side)
        before, after = reversed(sides[:at]), sides[at + 1 :]
        nearest = [*((one, -1) for one in before), *((one, 0) for one in after)]
        others = (one for one in nearest if not NUMBER_FIRST.fullmatch(one[0]))
        pattern, which = next(others, ("", 0))
        values = [*VALUE.finditer(pattern)]
        if number and values:
            value = values[which]
            whole = f"{pattern[: value.start()]}{number[1]}{pattern[value.end() :]}"
            found[at] = f"{whole} {number[2]}"
    return found


def _of_loads(sides: Sequence[Description], *, has_lengths: bool) -> tuple[Description, ...]:
    """Return a comparison; lengths that differ are those of the model: requests have no field.

    Nothing where only releases are compared, which has a view of its own, or a side says nothing.
    """
    if not sides or set[str]().union(*(one.fields for one in sides)) == {"rules"}:
        return ()
    requests, lengths = ({*values} for values in zip(*(one.load for one in sides), strict=True))
    if len(lengths - {None}) > 1 and has_lengths:
        sides = [_of_model(one) for one in sides]
    elif not all(one.fields for one in sides) and (len(requests) < 2 or None in requests):
        return ()
    return _shared_out(sides)


def _of_model(side: Description) -> Description:
    fields = {**side.fields, "max_model_len": side.load.length_tokens}
    return Description(fields, side.load._replace(length_tokens=None))


def _without_end(text: str) -> str:
    """Return a text without the marks after its last word."""
    # not in the pattern, where many marks inside of a text would take a time that grows as n * n
    last = next((at for at in range(len(text), 0, -1) if WORD.match(text[at - 1])), 0)
    return text[:last]


def _shared_out(sides: Sequence[Description]) -> tuple[Description, ...]:
    """Return the sides, each with what is said once for all of them."""
    first, *others = (one.fields for one in sides)
    of_all, kept = {*SHARED}, {*SHARED}
    last = others[-1]
    # 0.23 vs 0.33 on 8 H100: all 8 are of both; those of TP 2 in "fp8 vs TP 2" are not
    if first.keys().isdisjoint(MACHINE) and first.keys() & last.keys():
        of_all |= RANKS
    if "rules" in first and first.keys() <= {*SHARED}:  # 0.23 vs 0.33 with MTP: both draft
        of_all |= last.keys()
    if all(one.keys() <= first.keys() for one in others):  # other values of the same fields
        kept |= first.keys()
    if any(one.keys() & RANKS for one in others):  # all ranks are said: TP 4 is not TP 4 x PP 2
        kept -= RANKS
    said_last = _only(last, of_all)
    fields = [said_last | first, *(said_last | _only(first, kept) | one for one in others)]
    ranks = RANKS.intersection(chain.from_iterable(fields))
    # TP 2 or PP 2: of the ranks that another side names, this one has none
    fields = [dict.fromkeys(ranks, 1) | one if one.keys() & RANKS else one for one in fields]
    load = Load(*(_first(values) for values in zip(*(one.load for one in sides), strict=True)))
    return tuple(
        Description(of_side, Load(side.load.requests or load.requests, load.length_tokens))
        for of_side, side in zip(fields, sides, strict=True)
    )


def _first(values: Iterable[int | None]) -> int | None:
    return next(filter(None, values), None)


def _only(fields: Mapping[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name in names}
