"""What a sentence names: devices, models, ranks, versions; which of them are alternatives."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from workbench.core.ranks import SHORT
from workbench.interop.description import read_words
from workbench.interop.unknown_words import said_twice, unknown_device

NAME = re.compile(r"[a-z]\w*-[\w.-]*\d[\w.-]*", re.IGNORECASE)
"""A word that looks like the name of a model, such as whisper-large-v3."""
JOINING = {"and", "x"}
"""Words between two ranks of one engine."""
LONGEST_PHRASE = 5
"""Words of a device or a model."""


def said_in(text: str) -> tuple[list[dict[str, Any]], str]:
    """Return what the words name in turn, devices, models, ranks, versions, and an unknown name."""
    words = re.findall(r"[\w./-]*\w|:", text)
    found: dict[int, dict[str, Any]] = {}
    ends: dict[int, int] = {}
    for count in range(LONGEST_PHRASE, 0, -1):  # what a longer phrase says, no shorter one does
        for start in range(len(words) - count + 1):
            phrase = words[start : start + count]
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
    return said, unknown[0] if unknown else ""


def _is_of_one(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Return whether two phrases, one after the other, are ranks of one engine: TP 4 DP 2."""
    return {*before, *after} <= SHORT.keys() and before.keys().isdisjoint(after)


def alternatives(
    phrases: Sequence[dict[str, Any]], listed: Collection[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields that are said first, and those that are said instead; none of one only.

    listed: fields of which more values may be said. Errors: ScenarioError for others.
    """
    fields = {name: value for one in reversed(phrases) for name, value in one.items()}
    others: list[dict[str, Any]] = []
    for one in phrases:
        if any(fields[name] != value for name, value in one.items()) and one not in others:
            others.append(one)
    if not others:
        return fields, {}
    if len(others) == 1:
        return _of_both(phrases, others[0])
    for name, value in ((name, value) for one in others for name, value in one.items()):
        if value != fields[name] and name not in listed:
            raise said_twice(name, fields[name], value)
    return fields, {}


def _of_both(
    phrases: Sequence[dict[str, Any]], other: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields with what is said first, and with the other: its ranks are all of its."""
    rest = [one for one in phrases if one != other]
    fields = {name: value for one in reversed(rest) for name, value in one.items()}
    replaced = (one for one in rest if one.keys() & other.keys() & SHORT.keys())
    gone = {name for one in replaced for name in one.keys() & SHORT.keys()}
    return fields, fields | dict.fromkeys(gone, 1) | other
