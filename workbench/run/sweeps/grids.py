"""A space in parts that are evaluated by themselves: one model, one rule set, a million points."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from workbench.core.model import Model
from workbench.core.settings import Settings

Index = slice | list[int]


@dataclass(frozen=True)
class Grid:
    """Some values of every axis, for one model and one rule set.

    place: where it lies in the array of a space, an index for every axis of that.
    axes: field -> values, in the order of the space; fields with one value are in `settings`.
    """

    place: tuple[Index, ...]
    model: Model
    settings: Settings
    axes: Mapping[str, Sequence[Any]]

    @property
    def size(self) -> int:
        """How many points there are."""
        return prod(map(len, self.axes.values()))


def grids(
    models: Mapping[str, Model], settings: Settings, axes: Mapping[str, Sequence[Any]], largest: int
) -> Iterator[tuple[Grid, ...]]:
    """Grids whose points may be alike; the points of a space in order, if they are joined.

    Apart are models, rule sets, and fitted lengths (max_model_len = -1) from typed ones. Then
    outer axes are split until no grid has more than `largest` points.
    """
    for number, model in enumerate(models.values()):
        whole = Grid((slice(number, number + 1),), model, settings, {})
        for part in _apart(whole, list(axes.items())):
            yield tuple(_split(part, list(axes), largest))


def _apart(grid: Grid, left: list[tuple[str, Sequence[Any]]]) -> Iterator[Grid]:
    if not left:
        yield grid
        return
    (field, values), *rest = left
    if field == "rules":
        for at, value in enumerate(values):
            changed = replace(grid.settings, rules=value)
            place = (*grid.place, slice(at, at + 1))
            yield from _apart(replace(grid, place=place, settings=changed), rest)
        return
    if field == "max_model_len" and -1 in values and len(values) > 1:
        for wanted in (True, False):
            those = [index for index, value in enumerate(values) if (value == -1) == wanted]
            some = {**grid.axes, field: [values[index] for index in those]}
            yield from _apart(replace(grid, place=(*grid.place, those), axes=some), rest)
        return
    place = (*grid.place, slice(0, len(values)))
    yield from _apart(replace(grid, place=place, axes={**grid.axes, field: values}), rest)


def _split(grid: Grid, fields: list[str], largest: int) -> Iterator[Grid]:
    """The same in order: its first axis with several values is cut, as often as it takes."""
    if grid.size <= largest:
        yield grid
        return
    field, values = next((name, some) for name, some in grid.axes.items() if len(some) > 1)
    count = max(1, largest * len(values) // grid.size)
    at = 1 + fields.index(field)
    for start in range(0, len(values), count):
        some = {**grid.axes, field: values[start : start + count]}
        place = (*grid.place[:at], _cut(grid.place[at], start, count), *grid.place[at + 1 :])
        yield from _split(replace(grid, place=place, axes=some), fields, largest)


def _cut(index: Index, start: int, count: int) -> Index:
    if isinstance(index, list):
        return index[start : start + count]
    return slice(index.start + start, min(index.start + start + count, index.stop))
