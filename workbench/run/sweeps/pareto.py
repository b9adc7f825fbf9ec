"""Points that no other point beats in everything that is asked for."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from workbench.run.sweeps.table import SweepTable

GOALS: Mapping[str, int] = {
    "max_concurrency": 1,
    "smallest_prefix_tokens": -1,
    "waste_share": -1,
}
"""Column -> 1 where more is better, -1 where less is."""


def pareto(table: SweepTable, goals: Mapping[str, int] = GOALS) -> npt.NDArray[np.int64]:
    """The kept points that no kept point beats, best in the first goal first.

    A point beats another if it is nowhere worse and somewhere better; of equal ones the first
    stands for all. What a point does not have (no memory size, no prefix that is found again) is
    the worst. Errors: ValueError for a goal that is no column, or without any.
    """
    if not goals or goals.keys() - GOALS.keys():
        raise ValueError(f"goals are some of {', '.join(GOALS)}; got {', '.join(goals) or 'none'}.")
    kept = np.flatnonzero(table.is_kept)
    if not len(kept):
        return kept
    costs = np.stack([_cost(table, kept, name, sign) for name, sign in goals.items()], axis=1)
    values, first = np.unique(costs, axis=0, return_index=True)
    return kept[first[_undominated(values)]]


def _cost(
    table: SweepTable, kept: npt.NDArray[np.int64], name: str, sign: int
) -> npt.NDArray[np.float64]:
    """Less is better; infinity where there is nothing."""
    found = getattr(table, name)[kept].astype(np.float64)
    missing = np.isnan(found) | (found == -1)
    return np.where(missing, np.inf, -sign * found)


def _undominated(values: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Rows that no row beats; they are different and sorted, so only earlier ones can."""
    front: list[int] = []
    rest = np.empty((0, values.shape[1]))
    for index, row in enumerate(values):
        if not (rest <= row).all(axis=1).any():
            front.append(index)
            rest = values[front]
    return np.array(front, dtype=np.int64)
