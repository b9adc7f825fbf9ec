"""Integer arithmetic that the rules share.

A sweep computes with numbers that represent many (workbench.run.sweeps): they compare and count as
numbers do and have a `gcd` and an `lcm` of their own, but no hash.
"""

from __future__ import annotations

import math
from functools import reduce
from typing import Any


def cdiv(dividend: int, divisor: int) -> int:
    """Return the ceiling division of non-negative integers."""
    return -(-dividend // divisor)


def next_power_of_2(value: int) -> int:
    """Return the smallest power of two that is >= `value` (1 for 0 and 1)."""
    return 1 << max(value - 1, 0).bit_length()


def is_power_of_2(value: int) -> bool:
    """Return true for 1, 2, 4, 8, ...; false for everything else, negatives included."""
    return value > 0 and value & (value - 1) == 0


def round_up(value: int, multiple: int) -> int:
    """Return the smallest multiple of `multiple` that is >= `value`."""
    return cdiv(value, multiple) * multiple


def divisors(value: int) -> tuple[int, ...]:
    """Return all positive divisors of `value`, ascending."""
    small = [d for d in range(1, int(value**0.5) + 1) if value % d == 0]
    return tuple(sorted({*small, *(value // d for d in small)}))


def choose(condition: Any, one: Any, other: Any) -> Any:
    """Return `one` if the condition holds, else `other`, for each number of a sweep."""
    if hasattr(condition, "choose"):
        return condition.choose(one, other)
    return one if condition else other


def smaller(one: int, two: int) -> int:
    """Return `min` of two; for numbers of a sweep, each by its own."""
    found: int = choose(one < two, one, two)
    return found


def gcd(*numbers: int) -> int:
    """Return the greatest common divisor; 0 of none."""
    try:
        return math.gcd(*numbers)
    except TypeError:
        return reduce(lambda one, two: _of_two("gcd", one, two), numbers)


def lcm(*numbers: int) -> int:
    """Return the least common multiple; 1 of none."""
    try:
        return math.lcm(*numbers)
    except TypeError:
        return reduce(lambda one, two: _of_two("lcm", one, two), numbers)


def _of_two(name: str, one: Any, two: Any) -> Any:
    """Return the result of the operand's own method, else of the standard library's."""
    for number, other in ((one, two), (two, one)):
        if hasattr(number, name):
            return getattr(number, name)(other)
    return getattr(math, name)(one, two)
