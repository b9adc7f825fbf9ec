"""Comparison of two answers: the value counts, not its type."""

import math
from collections.abc import Iterable, Mapping
from itertools import islice
from numbers import Number
from typing import Any

from workbench.core.errors import a_kind
from workbench.core.trace import show

MOST_ENTRIES = 100_000
"""Most entries of a learner's answer that are read: it may be endless."""
LONGEST_TEXT = 300
KINDS = (
    *((bool, "yes or no"), (int, "an integer"), (Number, "a number"), (str, "text")),
    (frozenset, "a set, which has no order"),
)


def plain(value: Any) -> Any:
    """Return `value` in Python's own types: arrays as tuples, iterators read, sets frozen."""
    if hasattr(value, "tolist") and not isinstance(value, type):
        return plain(value.tolist())
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        return value
    entries = (plain(entry) for entry in islice(value, MOST_ENTRIES + 1))
    return frozenset(entries) if isinstance(value, set | frozenset) else tuple(entries)


def same(found: Any, wanted: Any, *, unordered: bool = False) -> bool:
    """Return whether `found` is the answer `wanted`; both as `plain` leaves them.

    Numbers are compared by value (1056, 1056.0, Fraction), yes and no also as 1 and 0, but a truth
    value is not a number. A single entry counts as its value. unordered: entries in any order.
    """
    if isinstance(wanted, tuple):
        return _same_entries(found, wanted, unordered=unordered)
    if isinstance(found, tuple) and len(found) == 1:
        found = found[0]
    if isinstance(wanted, bool):
        return isinstance(found, int) and found == wanted
    if isinstance(wanted, int | float):
        return _same_number(found, wanted)
    if isinstance(wanted, str):
        return isinstance(found, str) and found.strip() == wanted
    return type(found) is type(wanted) and bool(found == wanted)


def _same_entries(found: Any, wanted: tuple[Any, ...], *, unordered: bool) -> bool:
    kinds = (tuple, frozenset) if unordered else tuple
    if not isinstance(found, kinds) or len(found) != len(wanted):
        return False
    if not unordered:
        return all(same(one, other) for one, other in zip(found, wanted, strict=True))
    left = list(found)
    for entry in wanted:
        match = next((i for i, one in enumerate(left) if same(one, entry)), None)
        if match is None:
            return False
        del left[match]
    return True


def _same_number(found: Any, wanted: float) -> bool:
    if isinstance(found, bool | complex) or not isinstance(found, Number):
        return False
    if isinstance(wanted, float):
        return math.isclose(float(found), wanted, rel_tol=1e-9)  # type: ignore[arg-type]
    return bool(found == wanted)


def described(value: Any) -> str:
    """Return a value as a verdict prints it: as Python has it, shortened."""
    if isinstance(value, list | tuple):
        text = "[" + ", ".join(described(entry) for entry in value[:40])
        text += ", ...]" if len(value) > 40 else "]"
    elif isinstance(value, frozenset):
        text = "{" + ", ".join(sorted(described(entry) for entry in value)) + "}"
    elif value is None or isinstance(value, bool | int | float | str):
        text = repr(value)  # no comma inside a number
    else:
        text = show(value)
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]} ..."


def entries(count: int) -> str:
    """Return how many entries there are, in words."""
    return f"{count} {'entry' if count == 1 else 'entries'}"


def kind_of(value: Any) -> str:
    """Return what a value is, in a few words."""
    if isinstance(value, tuple):
        return f"a list of {entries(len(value))}" if value else "an empty list"
    return next((words for kind, words in KINDS if isinstance(value, kind)), a_kind(value))


def difference(found: Any, wanted: Any, *, unordered: bool = False) -> str:
    """Return how a wrong answer differs, without its kind if both are numbers or equally long."""
    if unordered and isinstance(found, frozenset):
        found = tuple(found)
    if isinstance(found, bool) != isinstance(wanted, bool) or isinstance(wanted, str):
        return _other_kind(found, wanted)
    if isinstance(found, int | float) and isinstance(wanted, int | float):
        if isinstance(wanted, bool) or math.isnan(found):
            return ""
        return "too small" if found < wanted else "too large"
    if isinstance(found, tuple) and isinstance(wanted, tuple) and len(found) == len(wanted):
        if unordered:
            return _stray(found, wanted)
        pairs = enumerate(zip(found, wanted, strict=True))
        at = next((i for i, (one, other) in pairs if not same(one, other)), None)
        return "" if at is None else f"the first difference is entry {at}, counted from 0"
    return _other_kind(found, wanted)


def _stray(found: tuple[Any, ...], wanted: tuple[Any, ...]) -> str:
    """Return an entry that is not expected in any place; none if only their numbers differ."""
    stray = (one for one in found if not any(same(one, other) for other in wanted))
    return next((f"{described(one)} is not expected" for one in stray), "")


def _other_kind(found: Any, wanted: Any) -> str:
    ours, theirs = kind_of(wanted), kind_of(found)
    return "" if ours == theirs else f"expected {ours}; got {theirs}"
