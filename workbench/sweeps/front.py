"""The Pareto front of a sweep: points that no other point beats in every goal."""

from bisect import bisect_right
from collections.abc import Collection, Mapping

import numpy as np
import numpy.typing as npt

from workbench.sweeps.row import PER_GPU, WARNINGS
from workbench.sweeps.table import SweepTable

GOALS: Mapping[str, int] = {
    PER_GPU: 1,
    "smallest_prefix_tokens": -1,
    "waste_share": -1,
    WARNINGS: -1,
}
"""Column -> 1 where more is better, -1 where less is.

Concurrency grows with the number of GPUs, so it is compared per GPU. The smallest cacheable prefix
is a length, waste a share, and warnings are of the start: none of them grows with the GPUs.
"""
USUAL_GOALS = (PER_GPU, "smallest_prefix_tokens", "waste_share")
STAIRS = 3
"""Goals that the fast front compares."""
SAMPLE = 256
"""Rows whose front is taken first: it beats nearly all of the others."""


def pareto(table: SweepTable, goals: Collection[str] = USUAL_GOALS) -> npt.NDArray[np.int64]:
    """Return the kept points that no kept point beats, best in the first goal first.

    A point beats another if it is nowhere worse and somewhere better; of equal ones the first
    represents all. What a point does not have (no memory size, no prefix that is found again) is
    the worst. Errors: ValueError for an unknown goal, or without any.
    """
    if not goals or set(goals) - GOALS.keys():
        raise ValueError(f"goals are some of {', '.join(GOALS)}; got {', '.join(goals) or 'none'}.")
    kept = np.flatnonzero(table.is_kept)
    if not len(kept):
        return kept
    costs = np.empty((len(kept), len(goals)))
    for at, name in enumerate(goals):
        found, sign = table.values(name, kept).astype(np.float64), GOALS[name]
        # less is better, and nothing is the worst
        costs[:, at] = np.where(np.isnan(found) | (found == -1), np.inf, -sign * found)
    return kept[undominated(costs)]


def undominated(costs: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
    """Return the rows that no row beats, in ascending order of costs; of equal ones the first.

    costs: [point, goal]; less is better.
    """
    points, goals = costs.shape
    padded = np.zeros((points, max(STAIRS, goals)))
    padded[:, :goals] = costs
    left = np.arange(points)
    some = padded[np.linspace(0, points - 1, min(points, SAMPLE)).astype(np.intp)]
    for row in some[_front(some)]:
        found = padded[left]
        beaten = (found >= row).all(axis=1) & (found > row).any(axis=1)
        left = left[~beaten]
    return left[_front(padded[left])]


def _front(costs: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
    """Return the same row by row: only an earlier one in sorted order can beat a row."""
    order = np.lexsort(costs.T[::-1])
    return _by_stairs(costs, order) if costs.shape[1] == STAIRS else _by_rows(costs, order)


def _by_rows(costs: npt.NDArray[np.float64], order: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """Return the front for any number of goals: every row is compared with the rows so far."""
    best, count = np.empty_like(costs), 0
    found = []
    for index in order.tolist():
        if count and (best[:count] <= costs[index]).all(axis=1).any():
            continue
        best[count] = costs[index]
        count += 1
        found.append(index)
    return np.array(found, dtype=np.intp)


def _by_stairs(costs: npt.NDArray[np.float64], order: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """Return the front for three goals.

    The second and third costs of the rows so far are kept as stairs: the one ascends, the
    other descends.
    """
    second: list[float] = []
    third: list[float] = []
    found = []
    for index, (_first, two, three) in zip(order.tolist(), costs[order].tolist(), strict=True):
        at = bisect_right(second, two)
        if at and third[at - 1] <= three:
            continue
        found.append(index)
        end = at
        while end < len(third) and third[end] >= three:
            end += 1
        if at and second[at - 1] == two:
            at -= 1
        second[at:end], third[at:end] = [two], [three]
    return np.array(found, dtype=np.intp)
