"""One launch of a learner's kernel: its arguments, what it has to write, and known mistakes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

Values = Sequence[Sequence[int | None]]
GARBAGE = -1_000_000
"""Entries that nothing may depend on hold this or less; no id and no slot is as small."""
UNWRITTEN = -7_777_777
"""What the output holds before the launch."""


def is_garbage(value: int) -> bool:
    """Return whether a number was made from an entry that holds no data."""
    return value <= GARBAGE // 2


class Array(NamedTuple):
    """One pointer argument: rows of equal length, None for an entry without data."""

    rows: Values
    meaning: str
    """What its entries are."""
    stride: int | None = None
    """Entries from row to row, at least the row's length; None: a single row, which is 1-D."""
    bits: int = 32

    def name_of(self, name: str, row: int, column: int) -> str:
        """Return an entry as a learner writes it."""
        return f"{name}[{column}]" if self.stride is None else f"{name}[{row}, {column}]"


class Place(NamedTuple):
    """An entry of the output."""

    row: int
    column: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCase:
    """One launch. Sizes are not powers of two on purpose."""

    words: str
    """What is special about it, in words."""
    arrays: Mapping[str, Array]
    """Pointer parameter -> what it points to."""
    numbers: Mapping[str, int]
    """Every other parameter -> its value; names in capitals are known at compile time."""
    programs: int
    output: str
    """The pointer parameter that the kernel writes."""
    expected: Sequence[Sequence[int]]
    owner: Callable[[Place], int]
    """Which program has to write an entry."""
    pool: Sequence[Sequence[int]]
    """The numbers of the pool's kernel blocks or slots that the output names; a row is a manager
    block."""


class Mistake(NamedTuple):
    """A typical wrong value and its reason."""

    reason: str
    value: Callable[[KernelCase, Place], int | None]
    """What this mistake writes to an entry; None where it does not apply."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTask:
    """What a learner's kernel has to do."""

    name: str
    parameters: tuple[str, ...]
    example: KernelCase
    """The small launch that the memory view shows."""
    cases: Sequence[KernelCase]
    """The hidden launches, simplest first."""
    mistakes: tuple[Mistake, ...]
    """Known mistakes, the most specific first."""
    garbage: str
    """Why a value was made from an entry that holds no data."""
    out_of_bounds: Mapping[str, str]
    """Array -> what usually makes a program leave it."""

    def reason(self, case: KernelCase, place: Place, got: int) -> str | None:
        """Return why an entry has a wrong value, if a known mistake gives the same one."""
        if got == UNWRITTEN:
            return (
                "No program wrote this entry: does the loop end too early, or does the mask of "
                "the store switch it off?"
            )
        known = (one.reason for one in self.mistakes if one.value(case, place) == got)
        return next(known, self.garbage if is_garbage(got) else None)
