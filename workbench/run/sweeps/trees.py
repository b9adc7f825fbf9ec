"""Values with `Many` inside: tuples, lists, dictionaries and dataclasses, cut to some points."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from operator import is_not
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.core.backends import Backend
from workbench.core.model import Model
from workbench.core.rule_set import RuleSet
from workbench.run.sweeps.arrays import first_of_each, joined
from workbench.run.sweeps.many import Many

Points = npt.NDArray[np.intp]
WHOLE = (str, Backend, Model, RuleSet)
"""What never has a `Many` inside."""


def leaves(value: Any) -> list[Many]:
    """Every `Many` in a value, each once."""
    found: dict[int, Many] = {}
    _collect(value, found, set())
    return list(found.values())


def _collect(value: Any, found: dict[int, Many], seen: set[int]) -> None:
    if type(value) is Many:
        found[id(value)] = value
        return
    kind: type = type(value)
    names = _names(kind)
    if names is None or id(value) in seen:
        return
    seen.add(id(value))
    for part in _parts(value, names):
        _collect(part, found, seen)


@cache
def _names(kind: type) -> tuple[str, ...] | None:
    """The fields of a dataclass, none of another container, None of what has no parts."""
    if issubclass(kind, WHOLE):
        return None
    if is_dataclass(kind):
        return tuple(field.name for field in fields(kind))
    return () if issubclass(kind, tuple | list | dict) else None


def _parts(value: Any, names: tuple[str, ...]) -> Sequence[Any]:
    if names:
        return [getattr(value, name) for name in names]
    return list(value.values()) if isinstance(value, dict) else value


def cut(value: Any, points: Points) -> Any:
    """The same value for these points alone; a number that they share is a plain one."""
    return _cut(value, lambda many: many.taken(points), {})


def _cut(value: Any, taken: Callable[[Many], Any], done: dict[int, Any]) -> Any:
    if type(value) is Many:
        if id(value) not in done:
            done[id(value)] = taken(value)
        return done[id(value)]
    kind: type = type(value)
    names = _names(kind)
    if names is None:
        return value
    if id(value) in done:
        return done[id(value)]
    found = value
    parts = _parts(value, names)
    changed = [_cut(part, taken, done) for part in parts]
    if any(map(is_not, changed, parts)):
        found = _rebuilt(value, names, changed)
    done[id(value)] = found
    return found


def _rebuilt(value: Any, names: tuple[str, ...], parts: list[Any]) -> Any:
    if isinstance(value, dict):
        return dict(zip(value, parts, strict=True))
    if isinstance(value, tuple):
        return tuple.__new__(type(value), parts)  # named ones as well
    if not names:
        return parts
    new = object.__new__(type(value))
    for name, part in zip(names, parts, strict=True):
        object.__setattr__(new, name, part)
    return new


class Family:
    """One value for all points of a run, with `Many` inside. which: of the different ones."""

    __slots__ = ("_numbers", "_points", "tree", "which")

    def __init__(self, tree: Any, points: int) -> None:
        self.tree = tree
        self._numbers = leaves(tree)
        self._points, self.which = _alike([leaf.array for leaf in self._numbers], points)

    def members(self) -> list[Member]:
        """Every different value, as one of this family."""
        return [Member(self, point) for point in self._points.tolist()]

    def values(self) -> Iterator[Any]:
        """Every different value by itself."""
        taker = _Taker(self._numbers, self._points)
        for taker.at in range(len(self._points)):
            yield _cut(self.tree, taker, {})


class Member:
    """The value of one point of a family."""

    __slots__ = ("family", "point")

    def __init__(self, family: Family, point: int) -> None:
        self.family, self.point = family, point

    def alone(self) -> Any:
        """The value, with plain numbers."""
        point = self.point
        return _cut(self.family.tree, lambda many: many.array[point].item(), {})


class _Taker:
    """Takes the number of one point after another. lists: id of a `Many` -> its numbers."""

    def __init__(self, numbers: Sequence[Many], points: Points) -> None:
        self.lists = {id(many): many.array[points].tolist() for many in numbers}
        self.at = 0

    def __call__(self, many: Many) -> Any:
        return self.lists[id(many)][self.at]


def _alike(arrays: Sequence[npt.NDArray[Any]], points: int) -> tuple[Points, Points]:
    """One point of each kind, and the kind of every point: alike ones have equal numbers."""
    which, kinds = joined(map(_coded, arrays), points)
    return first_of_each(which, kinds), which.astype(np.intp)


def _coded(array: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], int]:
    values, codes = np.unique(array, return_inverse=True)
    return codes, len(values)
