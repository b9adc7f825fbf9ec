"""Values of a grid as codes: small arrays that broadcast, and their distinct combinations.

A column has one axis for every axis of the grid, of length 1 where its value does not depend on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.run.sweeps.arrays import Codes, distinct, narrowed
from workbench.run.sweeps.many import LARGEST, is_many
from workbench.run.sweeps.trees import Family, Member, leaves

INT, FLOAT = 0, 1
OTHER = 2


@dataclass(frozen=True)
class Column:
    """One value for each point: `values[codes[point]]`."""

    codes: Codes
    values: tuple[Any, ...]

    @property
    def is_constant(self) -> bool:
        """Whether every point has the same value."""
        return self.codes.size == 1

    @cached_property
    def kinds(self) -> npt.NDArray[np.int64]:
        """Of each value: INT, FLOAT, or a number from OTHER on that tells it from all others.

        Values of one family share theirs.
        """
        families: dict[int, int] = {}
        found = np.empty(len(self.values), dtype=np.int64)
        for code, value in enumerate(self.values):
            if type(value) is int and -LARGEST < value < LARGEST:
                found[code] = INT
            elif type(value) is float:
                found[code] = FLOAT
            elif type(value) is Member:
                found[code] = families.setdefault(id(value.family), OTHER + code)
            else:
                found[code] = OTHER + code
        return found

    @cached_property
    def has_members(self) -> bool:
        """Whether some value is one of a family."""
        return any(type(value) is Member for value in self.values)

    @cached_property
    def ints(self) -> npt.NDArray[np.int64]:
        """The values that are INT, 0 for others."""
        is_int = (self.kinds == INT).tolist()
        table = [value if fits else 0 for value, fits in zip(self.values, is_int, strict=True)]
        return np.array(table, dtype=np.int64)

    @cached_property
    def floats(self) -> npt.NDArray[np.float64]:
        """The values that are FLOAT, 0 for others."""
        table = [value if type(value) is float else 0.0 for value in self.values]
        return np.array(table, dtype=np.float64)

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


class Collected:
    """Gathers the value of every combination; equal values are told once.

    Values are equal if their types are too; what cannot be hashed is equal to itself alone.
    keeps_families: what has numbers of many points inside stays together.
    """

    def __init__(self, combinations: int, *, keeps_families: bool = False) -> None:
        self._codes = np.zeros(combinations, dtype=np.int32)
        self._known: dict[Any, int] = {}
        self._kept: list[Any] = []
        self._numbers: list[tuple[Any, npt.NDArray[Any]]] = []
        self._keeps_families = keeps_families

    def add(self, points: Any, value: Any) -> None:
        """The value of these combinations."""
        if type(points) is int:
            self._codes[points] = self._code(value)
        elif is_many(value):
            self._numbers.append((points, value.array))
        elif not leaves(value):
            self._codes[points] = self._code(value)
        else:
            family = Family(value, len(points))
            if self._keeps_families:
                first = len(self._kept)
                self._kept += family.members()
                codes = list(range(first, len(self._kept)))
            else:
                codes = [self._code(value) for value in family.values()]
            self._codes[points] = np.array(codes, dtype=np.int32)[family.which]

    def _code(self, value: Any) -> int:
        key = identity(value)
        if key not in self._known:
            self._known[key] = len(self._kept)
            self._kept.append(value)
        return self._known[key]

    def _number(self, value: float) -> int:
        """The same of a plain number, which is its own identity but for its type."""
        key = (type(value), value)
        code = self._known.get(key)
        if code is None:
            code = self._known[key] = len(self._kept)
            self._kept.append(value)
        return code

    def column(self, choice: Codes) -> Column:
        """The column whose combinations are these."""
        for kind in ("i", "f"):
            some = [(points, array) for points, array in self._numbers if array.dtype.kind == kind]
            if not some:
                continue
            found, which = np.unique(
                np.concatenate([array for _, array in some]), return_inverse=True
            )
            if self._known:
                codes = np.array([self._number(value) for value in found.tolist()], dtype=np.int32)
            else:
                codes = np.arange(len(self._kept), len(self._kept) + len(found), dtype=np.int32)
                self._kept += found.tolist()
            self._codes[np.concatenate([points for points, _ in some])] = codes[which]
        if len(self._kept) == 1:
            return constant(choice.ndim, self._kept[0])
        return Column(narrowed(self._codes[choice]), tuple(self._kept))


def from_choice(choice: Codes, values: Iterable[Any]) -> Column:
    """The column `values[choice]`, with equal values told once and no axis that does not matter."""
    told = list(values)
    collected = Collected(len(told))
    for point, value in enumerate(told):
        collected.add(point, value)
    return collected.column(choice)


def identity(value: Any) -> Any:
    """What equal values share, their types included."""
    if isinstance(value, tuple):
        return tuple, *map(identity, value)
    try:
        hash(value)
    except TypeError:
        return id(value)
    return type(value), value


def _both(one: tuple[int, ...], two: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(map(max, one, two))


@dataclass(frozen=True, slots=True)
class Combinations:
    """The distinct combinations of several columns.

    rows: [combination, column], the code in each column; which: the combination of each point.
    """

    rows: npt.NDArray[np.int32]
    which: Codes


def combinations(
    columns: Sequence[Column], axes: int, checked: Callable[[], None] = lambda: None
) -> Combinations:
    """The combinations that occur on the grid, put together in as small arrays as can be.

    checked: called before every column, may raise.
    """
    which: Codes = np.zeros([1] * axes, dtype=np.int32)
    rows = np.zeros((1, len(columns)), dtype=np.int32)
    left = []
    for index, column in enumerate(columns):
        if column.is_constant:
            rows[:, index] = column.codes.flat[0]
        else:
            left.append(index)
    while left:
        checked()
        shapes = {index: _both(which.shape, columns[index].codes.shape) for index in left}
        index = min(left, key=lambda index: (prod(shapes[index]), columns[index].codes.size))
        left.remove(index)
        column, shape = columns[index], shapes[index]
        if len(rows) == which.size and shape == which.shape:
            # every point is a combination of its own already
            rows[which.reshape(-1), index] = np.broadcast_to(column.codes, shape).reshape(-1)
            continue
        width = len(column.values)
        code = which.astype(np.int64) * width + column.codes
        found, which = distinct(code, len(rows) * width)
        rows = rows[found // width]
        rows[:, index] = found % width
    return Combinations(rows, which)
