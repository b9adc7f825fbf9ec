"""Columns over a grid: small codes that broadcast, and their distinct combinations.

A column has one axis for every axis of the grid, of length 1 where its value does not depend on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.int32]
DENSE = 1 << 22
"""Up to so many possible combinations are looked up in a table; more are sorted."""


@dataclass(frozen=True, slots=True)
class Column:
    """One value for each point: `values[codes[point]]`."""

    codes: Codes
    values: tuple[Any, ...]

    @property
    def is_constant(self) -> bool:
        """Whether every point has the same value."""
        return self.codes.size == 1

    def array(self, dtype: Any) -> npt.NDArray[Any]:
        """The values themselves, in the shape of the codes; None becomes NaN, or -1 of integers."""
        missing = np.nan if np.issubdtype(dtype, np.floating) else -1
        table = [missing if value is None else value for value in self.values]
        return np.array(table, dtype=dtype)[self.codes]


def along(axis: int, axes: int, values: Sequence[Any]) -> Column:
    """The column whose value is the place on one axis of a grid with so many axes."""
    shape = [1] * axes
    shape[axis] = len(values)
    return Column(np.arange(len(values), dtype=np.int32).reshape(shape), tuple(values))


def constant(axes: int, value: Any) -> Column:
    """The column with one value everywhere."""
    return Column(np.zeros([1] * axes, dtype=np.int32), (value,))


def from_choice(choice: Codes, values: Iterable[Any]) -> Column:
    """The column `values[choice]`, with equal values told once and no axis that does not matter.

    Values are equal if their types are too; what cannot be hashed is equal to itself alone.
    """
    codes: dict[Any, int] = {}
    kept: list[Any] = []
    table = []
    for value in values:
        key = _identity(value)
        if key not in codes:
            codes[key] = len(kept)
            kept.append(value)
        table.append(codes[key])
    if len(kept) == 1:
        return constant(choice.ndim, kept[0])
    return Column(narrowed(np.array(table, dtype=np.int32)[choice]), tuple(kept))


def _identity(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple, *map(_identity, value)
    try:
        hash(value)
    except TypeError:
        return id(value)
    return type(value), value


def narrowed(codes: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same without the axes along which nothing changes."""
    for axis, length in enumerate(codes.shape):
        if length == 1:
            continue
        first = codes.take([0], axis)
        if np.array_equal(first, codes.take([-1], axis)) and bool((codes == first).all()):
            codes = first
    return codes


@dataclass(frozen=True, slots=True)
class Combinations:
    """The distinct combinations of several columns.

    rows: [combination, column], the code in each column; which: the combination of each point.
    """

    rows: npt.NDArray[np.int32]
    which: Codes


def combinations(columns: Sequence[Column], axes: int) -> Combinations:
    """The combinations that occur on the grid; the small columns are put together first."""
    order = sorted(range(len(columns)), key=lambda index: columns[index].codes.size)
    which: Codes = np.zeros([1] * axes, dtype=np.int32)
    rows = np.zeros((1, len(columns)), dtype=np.int32)
    for index in order:
        column = columns[index]
        if column.is_constant:
            rows[:, index] = column.codes.flat[0]
            continue
        width = len(column.values)
        joined = which.astype(np.int64) * width + column.codes
        found, which = distinct(joined, len(rows) * width)
        rows = rows[found // width]
        rows[:, index] = found % width
    return Combinations(rows, which)


def distinct(codes: npt.NDArray[np.int64], possible: int) -> tuple[npt.NDArray[np.int64], Codes]:
    """The different codes in ascending order, and for each point which of them it has."""
    if possible > DENSE:
        found, which = np.unique(codes, return_inverse=True)
        return found, which.reshape(codes.shape).astype(np.int32)
    present = np.zeros(possible, dtype=bool)
    present[codes] = True
    found = np.flatnonzero(present)
    places = np.zeros(possible, dtype=np.int32)
    places[found] = np.arange(len(found), dtype=np.int32)
    return found, places[codes]
