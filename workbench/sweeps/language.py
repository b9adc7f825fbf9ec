"""The language of a sweep's axes: `Tensor parallel 1 2 4 8, KV-cache dtype auto fp8`.

A field, by its label or its name, then its values. Commas, lines and `=` may separate them:
`tensor_parallel = 1, 2` is the same. A label begins a clause. A size keeps its unit (`20 GiB`), a
value with other spaces is quoted, `auto` leaves it to vLLM where a control offers that; `null` does
for every field.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from typing import Any, NamedTuple

from workbench.core.errors import ScenarioError, unknown_name_message
from workbench.core.model import Model
from workbench.core.sizes import UNITS
from workbench.scenario import FIELDS, Scenario
from workbench.scenario.scenario import unknown_field, value_of

EXAMPLE = "`tensor_parallel 1 2 4`"
NONE = {"none", "null", "None"}
AUTO = "auto"
SWITCHES = {"on": True, "off": False}
LABELS = {
    words: name
    for name, field in FIELDS.items()
    for label in (field.label.casefold(),)
    for words in (*(name.replace("_", one) for one in " -"), label, label.replace(",", ""))
}
WORD = re.compile(r"\"[^\"]*\"|'[^']*'|[^\s,;=\"']+|[,;\n=]")
SEPARATORS = (",", ";", "\n")
LABEL = re.compile(
    rf"((?:^|[,;\n])[^\S\n]*+)({'|'.join(map(re.escape, sorted(LABELS, key=len, reverse=True)))})"
    r"(?:(?=[\s=,;]|$)|\s*:)",
    re.IGNORECASE,
)
"""A label that begins a clause; some have a comma."""
NAME = re.compile(r"[a-z][a-z0-9_]*")
NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?")
MOST_OFFERED = 12
NEARLY = 0.75
"""Likeness from which a word is taken for a misspelled field."""
MOST_COMPARED = 100
"""Values of one field that are compared with the names of fields."""


class Word(NamedTuple):
    """One word of the text. begins: first of its clause; is_alone: the only one of it."""

    text: str
    begins: bool
    is_alone: bool


class Offer(NamedTuple):
    """A word that may come next, and what it means."""

    word: str
    meaning: str


class Completion(NamedTuple):
    """What may replace the text from `start` to the cursor."""

    start: int
    offers: tuple[Offer, ...]


def parse_axes(text: str, example: str = EXAMPLE) -> dict[str, tuple[Any, ...]]:
    """Return field -> values. Errors: ScenarioError names the word, and the nearest valid one.

    `example`: how an error shows a field with its values.
    """
    found: dict[str, list[Any]] = {}
    field = ""
    for word in _words(text):
        if _is_field(word, field):
            field = word.text
            if field in found:
                raise ScenarioError("duplicate_field", f"{field!r} is given twice.", field=field)
            found[field] = []
        elif not field or _is_unknown_field(word, field, len(found[field])):
            raise unknown_field(word.text)
        else:
            found[field].append(_value(field, word.text))
    for name, values in found.items():
        if not values:
            text = f"Invalid axis {name!r} without values. Expected a field and its values, such as"
            raise ScenarioError("wrong_type", f"{text} {example}.", field=name)
    return {name: tuple(values) for name, values in found.items()}


def axes_text(axes: Mapping[str, Iterable[Any]]) -> str:
    """Return the text that `parse_axes` reads back, one line per field."""
    lines = (
        (FIELDS[name].label, *(word_of(name, value) for value in values))
        for name, values in axes.items()
    )
    return "\n".join(map(" ".join, lines))


def word_of(name: str, value: Any) -> str:
    """Return a value of a field as a word of the language."""
    if value is None:
        return AUTO if _has_auto(name) else "null"
    if isinstance(value, bool):
        return next(word for word, one in SWITCHES.items() if one == value)
    text = str(value)
    number, _, unit = text.partition(" ")
    is_size = NUMBER.fullmatch(number) and unit.lower() in UNITS
    return f'"{text}"' if " " in text and not is_size else text


def completion(
    text: str, cursor: int, scenario: Scenario, model: Model | None = None
) -> Completion:
    """Return the fields or values that may stand at the cursor, those that begin so first."""
    before = text[:cursor]
    clause = re.split(r"[,;\n]", before)[-1].lstrip()
    found = [_of_label(before, len(before) - len(clause)), _of_word(before, scenario, model)]
    if LABEL.match(clause) or clause.partition(" ")[0] in FIELDS:
        found.reverse()
    return next((one for one in found if one.offers), found[0])


def _of_label(before: str, start: int) -> Completion:
    """Return the labels that a clause from `start` on, of several words, may become."""
    clause = before[start:].casefold()
    used = {word.text for word in _words(before[:start])}
    found = (one for one in _fields(used) if clause in one.word.casefold())
    return Completion(start, tuple(found)[:MOST_OFFERED] if " " in clause else ())


def _of_word(before: str, scenario: Scenario, model: Model | None) -> Completion:
    """Return the fields or values that the last word may become."""
    partial = re.search(r"[^\s,;=\"']*$", before)
    start = len(before) if partial is None else partial.start()
    words = [*_words(before[:start])]
    axes: dict[str, set[str]] = {}
    for word in words:
        if _is_field(word, next(reversed(axes), "")):
            axes.setdefault(word.text, set())
        elif axes:
            axes[next(reversed(axes))].add(word.text)
    begins = not before[:start].strip() or before[:start].rstrip(" \t")[-1] in SEPARATORS
    offers = [*_fields(axes)] if begins or not axes else []
    if axes:
        offers += _values(*next(reversed(axes.items())), scenario, model)
    return Completion(start, tuple(_matching(offers, before[start:]))[:MOST_OFFERED])


def _fields(used: Collection[str]) -> Iterator[Offer]:
    """Yield the fields that are not swept yet, those of the default sweep first."""
    for name, field in sorted(FIELDS.items(), key=lambda item: not item[1].sweep):
        if name not in used:
            yield Offer(field.label, name)


def _values(name: str, known: set[str], scenario: Scenario, model: Model | None) -> Iterator[Offer]:
    """Yield the values of a field that are not given yet."""
    field = FIELDS[name]
    values: Sequence[Any] = field.candidates(scenario, model)
    for value in dict.fromkeys((*field.sweep, *values, *field.tried)):
        word = word_of(name, value)
        if word not in known:
            yield Offer(word, field.none if value is None else field.label)


def _matching(offers: Iterable[Offer], partial: str) -> Iterator[Offer]:
    """Yield those that have the text in their word, or in the name of a field; beginnings first."""

    def places(one: Offer) -> list[int]:
        names = (one.word, one.meaning if one.meaning in FIELDS else "")
        return [name.casefold().find(partial.casefold()) for name in names]

    found = [one for one in offers if max(places(one)) >= 0]
    yield from (one for one in found if 0 in places(one))
    yield from (one for one in found if 0 not in places(one))


def _words(text: str) -> Iterator[Word]:
    """Yield the words, a size together with its unit."""
    for clause in _clauses(text):
        for number, word in enumerate(clause):
            yield Word(word, number == 0, len(clause) == 1)


def _clauses(text: str) -> Iterator[list[str]]:
    clause: list[str] = []
    named = LABEL.sub(lambda found: f"{found[1]}{LABELS[found[2].casefold()]} ", text)
    for part in WORD.findall(named):
        if part in SEPARATORS:
            if clause:
                yield clause
            clause = []
        elif part == "=":
            continue
        elif clause and part.lower() in UNITS and NUMBER.fullmatch(clause[-1]):
            clause[-1] = f"{clause[-1]} {part}"
        else:
            clause.append(part)
    if clause:
        yield clause


def _is_field(word: Word, field: str) -> bool:
    """Return whether a word names a field, where the last one was `field`, or none."""
    if word.text not in FIELDS or not field:
        return word.text in FIELDS
    is_value = word.text in _plain_words(field) and (word.is_alone or not word.begins)
    return not is_value


@cache
def _plain_words(field: str) -> frozenset[str]:
    candidates = FIELDS[field].kind.candidates(FIELDS["rules"].default)
    return frozenset(word_of(field, value) for value in candidates)


@cache
def _has_auto(field: str) -> bool:
    """Return whether "auto" leaves a field to vLLM; for others it is a value, or none at all."""
    declared = FIELDS[field]
    is_value = AUTO in declared.kind.candidates(FIELDS["rules"].default)
    return declared.default is None and declared.none.startswith(AUTO) and not is_value


def _is_unknown_field(word: Word, field: str, number: int) -> bool:
    """Return whether a word after `number` values of a field is meant as a field, and is none."""
    known = NONE | {AUTO, *SWITCHES} | _plain_words(field)
    if not NAME.fullmatch(word.text) or word.text in known:
        return False
    if word.begins and not word.is_alone:
        return True
    is_compared = number < MOST_COMPARED and "_" in word.text
    return is_compared and bool(get_close_matches(word.text, FIELDS, 1, NEARLY))


def _value(name: str, text: str) -> Any:
    """Return the value of a word; "none" is None where the field has no such word."""
    if (text in NONE and text not in _plain_words(name)) or (text == AUTO and _has_auto(name)):
        return None
    if FIELDS[name].kind.json["type"] == "boolean":
        return _switched(name, text)
    value = value_of(name, text)
    return value.strip("\"'") if isinstance(value, str) else value


def _switched(name: str, text: str) -> bool:
    """Return what a word makes of a switch. Errors: ScenarioError with the words for it."""
    word = text.casefold()
    found = SWITCHES.get(word, value_of(name, word))
    if not isinstance(found, bool):
        words = (*SWITCHES, *((AUTO,) if _has_auto(name) else ()))
        message = unknown_name_message(FIELDS[name].label, text, words)
        raise ScenarioError("unknown_name", message, field=name)
    return found
