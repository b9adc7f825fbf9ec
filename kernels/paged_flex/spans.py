# ruff: noqa: ARG001 - every span has the same parameters
"""Where the visible keys of a tile are, on the host: numpy twins of the spans in `mask_kernel`.

A span `(first, last, length, row, aux, param)` bounds what the queries first .. last of request
`row`, of `length` tokens, see. first, last, length, row: int64 [tiles]; aux: the mask's table
[requests, columns]; param: its compile-time parameter. It returns near_end, low, high, int64
[tiles]: no key outside of [0, near_end) and [low, high) is visible. Programs are planned with it.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Span = tuple[Ints, Ints, Ints]
HostSpan = Callable[[Ints, Ints, Ints, Ints, NDArray[Any], int], Span]


def everything(
    first: Ints, last: Ints, length: Ints, row: Ints, aux: NDArray[Any], param: int
) -> Span:
    """Bound a mask of which nothing is known, and one that shows every key."""
    return first * 0, first * 0, length


def causal(first: Ints, last: Ints, length: Ints, row: Ints, aux: NDArray[Any], param: int) -> Span:
    """End after the last query."""
    return first * 0, first * 0, last + 1


def window(first: Ints, last: Ints, length: Ints, row: Ints, aux: NDArray[Any], param: int) -> Span:
    """Begin `param` - 1 keys before the first query."""
    return first * 0, first - param + 1, last + 1


def around(first: Ints, last: Ints, length: Ints, row: Ints, aux: NDArray[Any], param: int) -> Span:
    """Extend `param` - 1 keys to both sides of the queries."""
    return first * 0, first - param + 1, last + param


def sink_window(
    first: Ints, last: Ints, length: Ints, row: Ints, aux: NDArray[Any], param: int
) -> Span:
    """Add the request's first aux[row, 0] keys to a window."""
    return aux[row, 0].astype(np.int64), first - param + 1, last + 1


def chunked(
    first: Ints, last: Ints, length: Ints, row: Ints, aux: NDArray[Any], param: int
) -> Span:
    """Begin with the chunk of the first query."""
    return first * 0, first // param * param, last + 1


def document(
    first: Ints, last: Ints, length: Ints, row: Ints, aux: NDArray[Any], param: int
) -> Span:
    """Begin with the document of the first query: starts never fall."""
    return first * 0, aux[row, np.clip(first, 0, param - 1)].astype(np.int64), last + 1


def prefix_lm(
    first: Ints, last: Ints, length: Ints, row: Ints, aux: NDArray[Any], param: int
) -> Span:
    """Extend a causal span to the end of every range that holds one of the queries."""
    high = last + 1
    for i in range(param):
        start, end = (aux[row, 2 * i + part].astype(np.int64) for part in (0, 1))
        held = (start <= last) & (end >= first)
        high = np.where(held, np.maximum(high, end + 1), high)
    return first * 0, first * 0, high
