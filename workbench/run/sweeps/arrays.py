"""Codes in arrays: which of them differ, and several put together to one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.int32]
DENSE = 1 << 22
"""Up to so many possible combinations are looked up in a table; more are sorted."""


def distinct(codes: npt.NDArray[np.int64], possible: int) -> tuple[npt.NDArray[np.int64], Codes]:
    """The different codes in ascending order, and for each point which of them it has."""
    if possible > max(DENSE, 4 * codes.size):
        found, which = np.unique(codes, return_inverse=True)
        return found, which.reshape(codes.shape).astype(np.int32)
    present = np.zeros(possible, dtype=bool)
    present[codes] = True
    found = np.flatnonzero(present)
    places = np.zeros(possible, dtype=np.int32)
    places[found] = np.arange(len(found), dtype=np.int32)
    return found, places[codes]


def joined(parts: Iterable[tuple[npt.NDArray[Any], int]], size: int) -> tuple[Codes, int]:
    """One code for all: (codes, how many are possible) of each part -> (code, how many there are).

    Codes are equal where those of all parts are. size: entries of every part.
    """
    which: Codes = np.zeros(size, dtype=np.int32)
    count = 1
    for codes, possible in parts:
        if possible == 1:
            continue
        found, which = distinct(which.astype(np.int64) * possible + codes, count * possible)
        count = len(found)
        if count == size:
            break
    return which, count


def first_of_each(which: npt.NDArray[Any], count: int) -> npt.NDArray[np.intp]:
    """The first place of every code; which: codes below `count`, each of them somewhere."""
    first = np.empty(count, dtype=np.intp)
    first[which[::-1]] = np.arange(which.size)[::-1]
    return first


def narrowed(codes: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same without the axes along which nothing changes."""
    for axis, length in enumerate(codes.shape):
        if length == 1:
            continue
        first = codes.take([0], axis)
        if np.array_equal(first, codes.take([-1], axis)) and bool((codes == first).all()):
            codes = first
    return codes
