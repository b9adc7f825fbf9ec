"""Lists of integers at the boundary, and the multipliers that replace a division."""

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workbench.kernels.errors import BlockTableError

Ids = Sequence[int] | NDArray[np.integer[Any]]
"""Integers as callers pass them: a list, a tuple or a one-dimensional array."""

DIVIDEND_BITS = 31
LARGEST_INT64 = 2**63 - 1


def readable_twice(values: object, field: str) -> None:
    """Refuse what can be read only once, such as a generator, tensors, and what is not a list."""
    if hasattr(values, "cpu") and hasattr(values, "numpy"):
        raise BlockTableError(
            f"{field} is a tensor, which would have to be copied from its device for every check. "
            f"Expected a list, a tuple or a numpy array. Give {field}.cpu().numpy().",
            field=field,
            given=type(values).__name__,
        )
    if not isinstance(values, (Sequence, np.ndarray)) or isinstance(values, (str, bytes)):
        raise BlockTableError(
            f"{field} must be a list, a tuple or an array; got {type(values).__name__}, which "
            "cannot be read more than once or is not a list of numbers. Wrap it in list(...).",
            field=field,
            given=type(values).__name__,
        )


def integer_array(values: Ids, field: str) -> NDArray[np.int64]:
    """Return a one-dimensional array of integers; anything else is refused, not rounded."""
    if type(values) in {list, tuple} and values and (fine := packed_numbers(values)) is not None:
        return fine
    readable_twice(values, field)
    if not isinstance(values, np.ndarray) and bool in set(map(type, values)):
        raise _not_integers(field, "bool")
    try:
        # numpy would take True for 1 and round 1.5 away with dtype=int64: let it choose
        array = np.asarray(values)
    except ValueError:  # lists within the list
        raise _not_integers(field, "list") from None
    if array.shape == (0,):
        return np.zeros(0, dtype=np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise _not_integers(field, f"{array.ndim}-dimensional {array.dtype}")
    if array.dtype == np.uint64 and array.max() > LARGEST_INT64:
        raise _not_integers(field, "numbers beyond 64 bits")
    return array.astype(np.int64, copy=False)


def packed_numbers(values: Ids) -> NDArray[np.int64] | None:
    """Return the array, several times faster than numpy; None if it needs a full check."""
    array = np.empty(len(values), dtype=np.int64)
    try:
        struct.pack_into(f"={len(values)}q", array.data, 0, *values)
    except (struct.error, TypeError):
        return None
    if array.min() < 2:  # True and False pass as 1 and 0
        doubtful = [values[i] for i in np.flatnonzero(array < 2).tolist()]
        return array if are_integers(doubtful) else None
    return array


def are_integers(values: Sequence[object]) -> bool:
    """Return whether all are of type int itself, not bool or a numpy number."""
    return set(map(type, values)) <= {int}


def _not_integers(field: str, found: str) -> BlockTableError:
    return BlockTableError(
        f"{field} must be a flat list of integers; got {found}", field=field, given=found
    )


def first_outside(values: NDArray[np.int64], low: int, limit: int) -> int | None:
    """Return the index of the first value outside low..limit-1, or None."""
    if values.size == 0 or (values.min() >= low and values.max() < limit):
        return None
    return int(np.argmax((values < low) | (values >= limit)))


def round_up(number: int, multiple: int) -> int:
    """Return the smallest multiple that is not below `number`."""
    return -(-number // multiple) * multiple


def is_power_of_two(number: int) -> bool:
    """Return whether `number` is 1, 2, 4, 8, ..."""
    return number > 0 and number & (number - 1) == 0


def multiplier_and_shift(divisor: int) -> tuple[int, int]:
    """Return (m, s) with x // divisor == (2*x*m >> 32) >> s for x in 0 .. 2**31 - 1.

    s = ceil(log2(divisor)) and m = floor(2**(31+s) / divisor) + 1 fits in 32 bits: the error
    x * (m*divisor - 2**(31+s)) stays below 2**(31+s), since both factors do below 2**31 and 2**s.
    For a power of two, x >> s is the same.
    """
    if not 1 <= divisor < 2**DIVIDEND_BITS:
        raise ValueError(f"a divisor must be in 1..2**31 - 1; got {divisor}")
    shift = (divisor - 1).bit_length()
    # rounded up: rounded down, the quotient of a multiple of the divisor would be one too small
    return (1 << (DIVIDEND_BITS + shift)) // divisor + 1, shift
