"""Numbers that stand for many: one run of a rule, in numpy, for all points that decide alike.

A rule computes with a `Many` as with a number. Where it asks a question whose answer differs
between the points, `ForkError` says which points answer yes; who runs the rule runs it again for
both parts. So no rule is written a second time, and every point is decided as it is alone: whole
numbers stay exact, and what cannot be (past 64 bits, past the 53 of a float) is an error that
sends the points back to Python's own numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import numpy.typing as npt

EXACT_FLOAT = 2**53
LARGEST = 2**62
LONGEST_SHIFT = 61
Array = npt.NDArray[Any]


class ForkError(BaseException):
    """A question with two answers; no `except` of a rule must catch it. yes: one entry a point."""

    def __init__(self, yes: npt.NDArray[np.bool_]) -> None:
        super().__init__("points decide differently")
        self.yes = yes


class Truths:
    """Answers, one a point. As a condition they are one answer, or a fork."""

    __slots__ = ("array",)
    __hash__ = None  # type: ignore[assignment]  # equal ones could not be told by their hash

    def __init__(self, array: npt.NDArray[np.bool_]) -> None:
        self.array = array

    def __bool__(self) -> bool:
        count = np.count_nonzero(self.array)
        if 0 < count < len(self.array):
            raise ForkError(self.array)
        return bool(count)

    def choose(self, one: Any, other: Any) -> Many:
        """`one` where the answer is yes, `other` elsewhere."""
        bound = max(_bound_of(one), _bound_of(other))
        return Many(np.where(self.array, _array_of(one), _array_of(other)), bound)


class Many:
    """A number for each point of a run, whole (int64) or not (float64).

    bound: no absolute value of the whole numbers is above it. Errors: OverflowError for what 64
    bits do not hold; TypeError where Python wants one number, such as an index or a hash.
    """

    __slots__ = ("array", "bound")

    def __init__(self, array: Array, bound: int | None = None) -> None:
        self.array = array
        self.bound = _peak(array) if bound is None else bound
        if self.bound >= LARGEST:
            self.bound = _peak(array)
            if self.bound >= LARGEST:
                raise OverflowError("more than 62 bits")

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """What `isinstance` asks: a rule may tell numbers from other things."""
        return float if self.is_float else int

    @property
    def is_float(self) -> bool:
        """Whether these are no whole numbers."""
        return self.array.dtype.kind == "f"

    def __hash__(self) -> int:
        first = self.array[0]
        if (self.array == first).all():
            return hash(first.item())
        raise TypeError("numbers of many points have no hash")

    def __format__(self, _form: str) -> str:
        return "many"

    def __repr__(self) -> str:
        return f"Many({self.array!r})"

    def __bool__(self) -> bool:
        return bool(Truths(self.array != 0))

    def __eq__(self, other: object) -> Any:
        return self._compared(other, np.equal, same=True)

    def __ne__(self, other: object) -> Any:
        return self._compared(other, np.not_equal, same=False)

    def __lt__(self, other: object) -> Any:
        return self._compared(other, np.less, same=False)

    def __le__(self, other: object) -> Any:
        return self._compared(other, np.less_equal, same=True)

    def __gt__(self, other: object) -> Any:
        return self._compared(other, np.greater, same=False)

    def __ge__(self, other: object) -> Any:
        return self._compared(other, np.greater_equal, same=True)

    def _compared(self, other: object, how: Callable[..., Any], *, same: bool) -> Any:
        if other is self and not self.is_float:
            return same
        if not _is_number(other):
            return NotImplemented
        if self.is_float or _is_float(other):
            _exact(self, other)
        return Truths(how(self.array, _array_of(other)))

    def __add__(self, other: Any) -> Any:
        return self._with(other, np.add, lambda one, two: one + two)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._with(other, np.subtract, lambda one, two: one + two)

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __mul__(self, other: Any) -> Any:
        return self._with(other, np.multiply, lambda one, two: one * two)

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        return self._divided(self, other, np.floor_divide, lambda one, _two: one + 1)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._divided(other, self, np.floor_divide, lambda one, _two: one + 1)

    def __mod__(self, other: Any) -> Any:
        return self._divided(self, other, np.remainder, lambda _one, two: two)

    def __rmod__(self, other: Any) -> Any:
        return self._divided(other, self, np.remainder, lambda _one, two: two)

    def __truediv__(self, other: Any) -> Any:
        return self._quotient(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._quotient(other, self)

    def __neg__(self) -> Many:
        return Many(-self.array, self.bound)

    def __abs__(self) -> Many:
        return Many(np.abs(self.array), self.bound)

    def __int__(self) -> int:
        raise TypeError("these are many numbers")

    def __ceil__(self) -> Many:
        return self._rounded(np.ceil)

    def __floor__(self) -> Many:
        return self._rounded(np.floor)

    def __round__(self, digits: int | None = None) -> Any:
        """With digits a text, which nothing is computed from."""
        return self._rounded(np.rint) if digits is None else format(self)

    def __and__(self, other: Any) -> Any:
        if not _is_number(other) or self.is_float or _is_float(other):
            return NotImplemented
        both = self.bound | _bound_of(other)
        return Many(np.bitwise_and(self.array, _array_of(other)), 2 * both + 1)

    __rand__ = __and__

    def __rlshift__(self, other: int) -> Many:
        if self.is_float or bool(self < 0) or self.bound > LONGEST_SHIFT:
            raise OverflowError("a shift past 64 bits")
        return Many(np.left_shift(other, self.array), _bound_of(other) << self.bound)

    def bit_length(self) -> Many:
        """As of an int."""
        _exact(self)
        bits = np.frexp(np.abs(self.array).astype(np.float64))[1]
        return Many(bits.astype(np.int64), self.bound.bit_length())

    def lcm(self, other: Any) -> Many:
        """The least common multiple with another number or as many others."""
        divisor = np.maximum(np.gcd(self.array, _array_of(other)), 1)
        return abs(self * (Many(np.asarray(divisor), self.bound).__rfloordiv__(other)))

    def gcd(self, other: Any) -> Many:
        """The greatest common divisor with another number or as many others."""
        return Many(np.gcd(self.array, _array_of(other)), max(self.bound, _bound_of(other)))

    def _with(self, other: Any, how: Callable[..., Any], bound: Callable[[int, int], int]) -> Any:
        if not _is_number(other):
            return NotImplemented
        if self.is_float or _is_float(other):
            _exact(self, other)
            return Many(how(self.array, _array_of(other)), 0)
        largest = bound(self.bound, _bound_of(other))
        if largest >= LARGEST:
            largest = bound(_peak(self.array), _peak(_array_of(other)))
            if largest >= LARGEST:
                raise OverflowError("more than 62 bits")
        return Many(how(self.array, _array_of(other)), largest)

    @staticmethod
    def _divided(
        one: Any, two: Any, how: Callable[..., Any], bound: Callable[[int, int], int]
    ) -> Any:
        if not (_is_number(one) and _is_number(two)):
            return NotImplemented
        if _is_float(one) or _is_float(two):
            raise TypeError("whole division is for whole numbers")
        _no_zero(two)
        return Many(how(_array_of(one), _array_of(two)), bound(_bound_of(one), _bound_of(two)))

    @staticmethod
    def _quotient(one: Any, two: Any) -> Any:
        if not (_is_number(one) and _is_number(two)):
            return NotImplemented
        _exact(one, two)
        _no_zero(two)
        return Many(np.true_divide(_array_of(one), _array_of(two)), 0)

    def _rounded(self, how: Callable[..., Any]) -> Many:
        if not self.is_float:
            return self
        rounded = how(self.array)
        if not (np.abs(rounded) < LARGEST).all():
            raise OverflowError("more than 62 bits")
        return Many(rounded.astype(np.int64))

    def taken(self, points: npt.NDArray[np.intp]) -> Self | Any:
        """Of these points; a plain number where they share one."""
        array = self.array[points]
        first = array[0]
        return first.item() if (array == first).all() else type(self)(array, self.bound)


def is_many(value: object) -> bool:
    """Whether this is a `Many`, whatever it says it is."""
    return type(value) is Many


def _is_number(value: object) -> bool:
    return type(value) is Many or isinstance(value, int | float)


def _is_float(value: Any) -> bool:
    return bool(value.is_float) if type(value) is Many else isinstance(value, float)


def _array_of(value: Any) -> Any:
    return value.array if type(value) is Many else value


def _bound_of(value: Any) -> int:
    if type(value) is Many:
        return int(value.bound)
    return 0 if isinstance(value, float) else abs(value)


def _peak(array: Any) -> int:
    if isinstance(array, int | float):
        return 0 if isinstance(array, float) else abs(array)
    if array.dtype.kind == "f" or not array.size:
        return 0
    return max(-int(array.min()), int(array.max()))


def _exact(*values: Any) -> None:
    """Errors: OverflowError for a whole number that a float does not hold."""
    for value in values:
        if _is_float(value) or _bound_of(value) <= EXACT_FLOAT:
            continue
        if _peak(_array_of(value)) > EXACT_FLOAT:
            raise OverflowError("more than the 53 bits of a float")


def _no_zero(value: Any) -> None:
    """Errors: ZeroDivisionError where all are 0; a fork where some are."""
    if Truths(value.array == 0) if type(value) is Many else value == 0:
        raise ZeroDivisionError("division by zero")
