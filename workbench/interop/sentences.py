"""What a sentence names: devices, models, ranks, versions; which of them are alternatives."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any, NamedTuple

from workbench.core.ranks import SHORT
from workbench.interop.description import read_words, shared_out
from workbench.interop.unknown_words import said_twice, unknown_device

NAME = re.compile(r"[a-z]\w*-[\w.-]*\d[\w.-]*", re.IGNORECASE)
"""A word that looks like the name of a model, such as whisper-large-v3."""
JOINING = {"and", "x"}
"""Words between two ranks of one engine."""
TOKENS = frozenset({"token", "tokens"})
MOST_SIDES = 8
"""Scenarios that a text compares."""
LONGEST_PHRASE = 5
"""Words of a device or a model."""


class Said(NamedTuple):
    """What the words of a sentence name."""

    phrases: list[dict[str, Any]]
    """Devices, models, ranks, versions, in turn."""
    unknown: str
    """A word that looks like a name, and is none."""
    rest: tuple[str, ...]
    """Words with a number that are in no phrase."""


def said_in(text: str) -> Said:
    """Return what the words of a sentence name."""
    words = re.findall(r"\b\d{1,3}(?:,\d{3})+\b|[\w./-]*[\w%]|:", text)
    found: dict[int, dict[str, Any]] = {}
    ends: dict[int, int] = {}
    for count in range(LONGEST_PHRASE, 0, -1):  # what a longer phrase says, no shorter one does
        for start in range(len(words) - count + 1):
            phrase, after = words[start : start + count], words[start + count : start + count + 1]
            if phrase[-1].isdigit() and any(one.casefold() in TOKENS for one in after):
                continue  # "a 5000 token prompt" names no A5000
            if all(phrase) and (fields := read_words(" ".join(phrase))):
                found[start], ends[start] = fields, start + count
                words[start : start + count] = [""] * count
    named = {name for fields in found.values() for name in fields}
    unknown = [] if "model" in named else [one for one in words if NAME.fullmatch(one)]
    if device := unknown_device(" ".join(filter(None, words))):
        unknown.append(device)
    said: list[dict[str, Any]] = []
    before = -1
    for start in sorted(found):
        between = {one for one in words[before:start] if one}
        if before >= 0 and between <= JOINING and _is_of_one(said[-1], found[start]):
            said[-1] |= found[start]
        else:
            said.append(dict(found[start]))
        before = ends[start]
    rest = tuple(one for one in words if re.search(r"\d", one))
    return Said(said, unknown[0] if unknown else "", rest)


def _is_of_one(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Return whether two phrases, one after the other, are ranks of one engine: TP 4 DP 2."""
    return {*before, *after} <= SHORT.keys() and before.keys().isdisjoint(after)


def alternatives(
    phrases: Sequence[Mapping[str, Any]],
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the fields that are said first, and those that are said instead of them.

    Devices that are counted are those of all ranks.

    Two models on two devices are four scenarios. Errors: ScenarioError for too many.
    """
    fields = _merged(reversed(phrases))
    others: list[Mapping[str, Any]] = []
    for one in phrases:
        if any(fields[name] != value for name, value in one.items()) and one not in others:
            others.append(one)
    rest = [one for one in phrases if one not in others]
    fields = _merged(reversed(rest))
    groups: list[list[Mapping[str, Any]]] = []
    for one in others:
        group = next((group for group in groups if one.keys() & group[-1].keys()), None)
        if group is None:
            group = [{}]
            groups.append(group)
        group.append(one)
    if prod(map(len, groups)) > MOST_SIDES:
        name = next(name for name, value in others[-1].items() if fields[name] != value)
        raise said_twice(name, fields[name], others[-1][name])
    _first, *sides = product(*groups)
    return shared_out(fields), [shared_out(_instead(rest, fields, side)) for side in sides]


def _merged(phrases: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what some phrases say; of two values of a field the last one counts."""
    return {name: value for one in phrases for name, value in one.items()}


def _instead(
    rest: Sequence[Mapping[str, Any]], fields: Mapping[str, Any], side: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the fields with others: their ranks are all ranks, as TP 4 is not TP 4 x PP 2."""
    other = _merged(side)
    replaced = (one for one in rest if one.keys() & other.keys() & SHORT.keys())
    gone = {name for one in replaced for name in one.keys() & SHORT.keys()}
    return {**fields, **dict.fromkeys(gone, 1), **other}
