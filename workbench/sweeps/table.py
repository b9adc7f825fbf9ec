"""What a sweep found: one entry per point in every column, and which points are worth a look."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from math import isnan, nan
from typing import Any

import numpy as np
import numpy.typing as npt

from workbench.core.problems import ERROR
from workbench.core.ranks import OF_ENGINE, ranks_of
from workbench.sweeps.row import PER_GPU, WARNINGS, Numbers, Verdict, named
from workbench.sweeps.space import Space

Bools = npt.NDArray[np.bool_]
MISSING = -1
FLOATS = frozenset({"max_concurrency", "waste_share"})
NUMBERS = (*Numbers._fields, PER_GPU, WARNINGS)
"""The columns of numbers."""


@dataclass(frozen=True)
class SweepTable:
    """The points of a space in order; every array has one entry per point.

    verdict: the place in `verdicts`, MISSING where the sweep was stopped before. numbers: column
    -> values, -1 or NaN where a point has none. identity: see `workbench.sweeps.row.Row`.
    """

    space: Space
    verdicts: tuple[Verdict, ...]
    verdict: npt.NDArray[np.int32]
    numbers: dict[str, npt.NDArray[Any]]
    identity: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return self.space.size

    @property
    def is_missing(self) -> Bools:
        """Return which points were not reached before the sweep was stopped."""
        return self.verdict == MISSING

    @cached_property
    def is_illegal(self) -> Bools:
        """Return which points vLLM refuses, or does not start with."""
        illegal = np.array([verdict.is_illegal for verdict in self.verdicts] + [False])
        return illegal[self.verdict]  # MISSING is the last entry

    @cached_property
    def warnings(self) -> npt.NDArray[np.int64]:
        """Return how many problems each point has with which it starts; -1 for a missing one."""
        return np.array([one.warnings for one in self.verdicts] + [MISSING])[self.verdict]

    @cached_property
    def is_copy(self) -> Bools:
        """Return which points decide everything as an earlier one does."""
        has_plan = np.array([verdict.refused is None for verdict in self.verdicts] + [False])
        resolved = np.flatnonzero(has_plan[self.verdict])
        _, first = np.unique(self.identity[resolved], return_index=True)
        copies = np.zeros(len(self), dtype=bool)
        copies[resolved] = True
        copies[resolved[first]] = False
        return copies

    @property
    def is_kept(self) -> Bools:
        """Return which points start and do not equal an earlier one."""
        return ~(self.is_illegal | self.is_copy | self.is_missing)

    @property
    def counts(self) -> dict[str, int]:
        """Return points in all, illegal ones, those that equal an earlier one, and those kept.

        missing: not reached before the sweep was stopped.
        """
        illegal, missing = self.is_illegal, self.is_missing
        return {
            "points": len(self),
            "illegal": int(illegal.sum()),
            "identical": int((self.is_copy & ~(illegal | missing)).sum()),
            "kept": int(self.is_kept.sum()),
            "missing": int(missing.sum()),
        }

    @property
    def reasons(self) -> dict[str, int]:
        """Return code -> how many points it makes illegal, most frequent first."""
        found: Counter[str] = Counter()
        points = np.bincount(self.verdict[~self.is_missing], minlength=len(self.verdicts))
        for verdict, count in zip(self.verdicts, points.tolist(), strict=True):
            errors = (code for code, severity in verdict.problems if severity == ERROR)
            for code in (verdict.refused,) if verdict.refused else errors:
                found[code] += count
        return dict(found.most_common())

    def gpus(self, points: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return how many GPUs each engine of these points takes: all engines have as many."""
        found = np.full(len(points), ranks_of(self.space.settings), dtype=np.int64)
        axes = tuple(self.space.axes)
        for name in set(OF_ENGINE) & set(axes):
            places = np.unravel_index(points, self.space.shape)[1 + axes.index(name)]
            values = np.array(self.space.axes[name], dtype=np.int64)
            found = found // getattr(self.space.settings, name) * values[places]
        return found

    def values(self, name: str, points: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        """Return a column of numbers at these points; -1 or NaN where there is none."""
        if name == PER_GPU:
            return np.asarray(self.numbers["max_concurrency"][points] / self.gpus(points))
        if name == WARNINGS:
            return self.warnings[points]
        return np.asarray(self.numbers[name][points])

    def has(self, name: str) -> Bools:
        """Return which points have a value in a column of numbers."""
        if name == WARNINGS:
            return ~self.is_missing
        values = self.numbers["max_concurrency" if name == PER_GPU else name]
        return (values != -1) & ~np.isnan(values)

    def copied(self) -> SweepTable:
        """Return the same with arrays of its own."""
        numbers = {name: values.copy() for name, values in self.numbers.items()}
        verdict, identity = self.verdict.copy(), self.identity.copy()
        return replace(self, verdict=verdict, numbers=numbers, identity=identity)

    def row(self, index: int) -> dict[str, Any]:
        """Return one point by name: what it `sets`, and what follows; None where it has none."""
        found = {name: column[index].item() for name, column in self.numbers.items()}
        numbers = Numbers(**{n: None if v == -1 or isnan(v) else v for n, v in found.items()})
        at = int(self.verdict[index])
        verdict = Verdict(None) if at == MISSING else self.verdicts[at]
        gpus = int(self.gpus(np.array([index]))[0])
        sets = self.space.changes(index)
        return {"point": index, "sets": sets, **named(verdict, numbers, gpus)}


def column(name: str, values: Iterable[float | None]) -> npt.NDArray[Any]:
    """Return the values of a column of numbers as an array; None becomes -1 or NaN."""
    is_float = name in FLOATS
    missing = nan if is_float else -1
    plain = [missing if value is None else value for value in values]
    return np.array(plain, dtype=np.float64 if is_float else np.int64)


def empty_table(space: Space) -> SweepTable:
    """Return the table of a sweep that has not begun."""
    nothing = {name: column(name, [None]) for name in Numbers._fields}
    return SweepTable(
        space,
        verdicts=(),
        verdict=np.full(space.size, MISSING, dtype=np.int32),
        numbers={name: np.repeat(value, space.size) for name, value in nothing.items()},
        identity=np.zeros(space.size, dtype=np.int64),
    )
