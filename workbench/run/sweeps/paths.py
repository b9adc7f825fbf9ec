"""A stage over many combinations of inputs: one run for all that decide alike.

Combinations that agree in everything but numbers are run together, with a `Many` for each number.
Where they decide differently they are parted and run again. What cannot be run together, or would
be parted too often, is run one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from workbench.core.errors import WorkbenchError
from workbench.run.sweeps.arrays import joined
from workbench.run.sweeps.columns import Column
from workbench.run.sweeps.many import LARGEST, ForkError, Many
from workbench.run.sweeps.recorder import Recorder
from workbench.run.sweeps.trees import Member, Points, cut

FEW = 12
"""So many combinations are as fast one by one."""
LONGEST = 1 << 14
"""Combinations of one run: numbers of that length stay in a cache."""
POINTS_A_RUN = 8
"""With fewer combinations for every run, parting costs more than it saves."""


class Begin(Protocol):
    """Inputs -> a run before its stage. together: some inputs are a `Many`."""

    def __call__(self, given: Mapping[str, Any], *, together: bool) -> Recorder:
        """A fresh run."""


@dataclass(frozen=True, slots=True)
class Path:
    """A run of a stage, and the combinations that it stands for; one of them: an int."""

    points: Points | int
    run: Recorder
    error: Exception | None


class Paths:
    """Runs a stage. begin: inputs -> a fresh run; checked: called between runs, may raise."""

    def __init__(
        self,
        work: Callable[[Recorder], None],
        names: Sequence[str],
        columns: Sequence[Column],
        begin: Begin,
        checked: Callable[[], None],
    ) -> None:
        self.work, self.names, self.columns = work, names, columns
        self.begin, self.checked = begin, checked

    def over(self, rows: npt.NDArray[np.int32]) -> Iterator[Path]:
        """Every combination once. rows: [combination, column], the code in each column."""
        groups, alone = self._alike(rows)
        left = [alone]
        for points in groups:
            for start in range(0, len(points), LONGEST):
                some = points[start : start + LONGEST]
                left.append((yield from self._together(rows, some)))
        yield from self._one_by_one(rows, np.concatenate(left))

    def _together(
        self, rows: npt.NDArray[np.int32], points: Points
    ) -> Generator[Path, None, Points]:
        """Yields paths; returns the combinations that are left for `_one_by_one`."""
        left: list[Points] = [np.arange(0)]
        waiting = [points]
        runs = len(points) // POINTS_A_RUN
        while waiting:
            some = waiting.pop()
            if len(some) <= FEW or runs <= 0:
                left.append(some)
                continue
            runs -= 1
            self.checked()
            run = self.begin(self._given(rows[some]), together=True)
            error = None
            try:
                self.work(run)
            except ForkError as fork:
                waiting += [some[~fork.yes], some[fork.yes]]
                continue
            except WorkbenchError as raised:
                error = raised
            except Exception:  # noqa: BLE001 - one by one it is raised again, if it is one of theirs
                left.append(some)
                continue
            finally:
                run.close()
            yield Path(some, run, error)
        return np.concatenate(left)

    def _given(self, rows: npt.NDArray[np.int32]) -> dict[str, Any]:
        """The inputs of combinations that agree in everything but numbers."""
        given: dict[str, Any] = {}
        everyone = np.arange(len(rows))
        for index, (name, column) in enumerate(zip(self.names, self.columns, strict=True)):
            codes = rows[:, index]
            value = column.values[codes[0]]
            if type(value) is int and -LARGEST < value < LARGEST:
                value = Many(column.ints[codes]).taken(everyone)
            elif type(value) is float:
                value = Many(column.floats[codes]).taken(everyone)
            elif type(value) is Member:
                members = [column.values[code].point for code in codes]
                value = cut(value.family.tree, np.array(members))
            given[name] = value
        return given

    def _one_by_one(self, rows: npt.NDArray[np.int32], points: Points) -> Iterator[Path]:
        tables = [column.values for column in self.columns]
        members = [column.has_members for column in self.columns]
        self.checked()
        for point, row in zip(points.tolist(), rows[points].tolist(), strict=True):
            given = {}
            for name, table, code, is_member in zip(self.names, tables, row, members, strict=True):
                value = table[code]
                given[name] = value.alone() if is_member and type(value) is Member else value
            run = self.begin(given, together=False)
            self.checked()
            error = None
            try:
                self.work(run)
            except Exception as raised:  # noqa: BLE001 - judged where it is known who got here
                error = raised
            run.close()
            yield Path(point, run, error)

    def _alike(self, rows: npt.NDArray[np.int32]) -> tuple[list[Points], Points]:
        """Groups of combinations that agree in all but numbers, and those of small groups."""
        everyone = np.arange(len(rows))
        if len(rows) <= FEW:
            return [], everyone
        which, kinds = joined(self._kinds(rows), len(rows))
        is_large = (np.bincount(which, minlength=kinds) > FEW)[which]
        large = everyone[is_large]
        order = large[np.argsort(which[large], kind="stable")]
        groups = np.split(order, np.flatnonzero(np.diff(which[order])) + 1) if len(order) else []
        return groups, everyone[~is_large]

    def _kinds(self, rows: npt.NDArray[np.int32]) -> Iterator[tuple[npt.NDArray[np.int64], int]]:
        for index, column in enumerate(self.columns):
            self.checked()
            if not column.is_constant:
                kinds = column.kinds
                self.checked()
                yield kinds[rows[:, index]], int(kinds.max()) + 1
