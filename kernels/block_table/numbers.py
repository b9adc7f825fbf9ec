"""Lists of whole numbers at the boundary, and the multipliers that replace a division."""

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workbench.kernels.block_table.errors import BlockTableError

Ids = Sequence[int] | NDArray[np.integer[Any]]
"""Whole numbers as callers have them: a list, a tuple or a one-dimensional array."""

DIVIDEND_BITS = 31
LARGEST_INT64 = 2**63 - 1


def readable_twice(values: object, field: str) -> None:
    """Refuse what can be read only once, such as a generator, and what is no list at all."""
    if not isinstance(values, (Sequence, np.ndarray)) or isinstance(values, (str, bytes)):
        raise BlockTableError(
            f"{field} must be a list, a tuple or an array; got {type(values).__name__}, which "
            "cannot be read more than once or is no list of numbers. Wrap it in list(...).",
            field=field,
            given=type(values).__name__,
        )


def whole_numbers(values: Ids, field: str) -> NDArray[np.int64]:
    """A one-dimensional array of whole numbers; anything else is refused, never rounded."""
    if type(values) in {list, tuple} and values and (fine := packed_numbers(values)) is not None:
        return fine
    readable_twice(values, field)
    if not isinstance(values, np.ndarray) and bool in set(map(type, values)):
        raise _no_whole_numbers(field, "bool")
    try:
        array = np.asarray(values)
    except ValueError:  # lists within the list
        raise _no_whole_numbers(field, "list") from None
    if array.size == 0:
        return np.zeros(0, dtype=np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise _no_whole_numbers(field, f"{array.ndim}-dimensional {array.dtype}")
    if array.dtype == np.uint64 and array.max() > LARGEST_INT64:
        raise _no_whole_numbers(field, "numbers beyond 64 bits")
    return array.astype(np.int64, copy=False)


def packed_numbers(values: Ids) -> NDArray[np.int64] | None:
    """The array, several times as quick as numpy makes it; None for what needs a closer look."""
    array = np.empty(len(values), dtype=np.int64)
    try:
        struct.pack_into(f"={len(values)}q", array.data, 0, *values)
    except (struct.error, TypeError):
        return None
    if array.min() < 2:  # True and False pass as 1 and 0
        doubtful = [values[i] for i in np.flatnonzero(array < 2).tolist()]
        return array if are_whole(doubtful) else None
    return array


def are_whole(values: Sequence[object]) -> bool:
    """Whether all are int itself, which bool and numpy's numbers are not."""
    return set(map(type, values)) <= {int}


def _no_whole_numbers(field: str, found: str) -> BlockTableError:
    return BlockTableError(
        f"{field} must be a flat list of whole numbers; got {found}", field=field, given=found
    )


def first_outside(values: NDArray[np.int64], low: int, limit: int) -> int | None:
    """Index of the first value outside low..limit-1, or None."""
    if values.size == 0 or (values.min() >= low and values.max() < limit):
        return None
    return int(np.argmax((values < low) | (values >= limit)))


def round_up(number: int, multiple: int) -> int:
    """The smallest multiple that is not below `number`."""
    return -(-number // multiple) * multiple


def is_power_of_two(number: int) -> bool:
    """Whether `number` is 1, 2, 4, 8, ..."""
    return number > 0 and number & (number - 1) == 0


def multiplier_and_shift(divisor: int) -> tuple[int, int]:
    """(m, s) with x // divisor == (2*x*m >> 32) >> s for every x in 0 .. 2**31 - 1.

    s = ceil(log2(divisor)) and m = floor(2**(31+s) / divisor) + 1 fits in 32 bits: the error
    x * (m*divisor - 2**(31+s)) stays below 2**(31+s), since both factors do below 2**31 and 2**s.
    For a power of two, x >> s is the same.
    """
    if not 1 <= divisor < 2**DIVIDEND_BITS:
        raise ValueError(f"a divisor must lie in 1..2**31 - 1; got {divisor}")
    shift = (divisor - 1).bit_length()
    return (1 << (DIVIDEND_BITS + shift)) // divisor + 1, shift
