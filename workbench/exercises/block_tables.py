"""Lesson 3 (#38831): kernel blocks of a manager block, slots, and ids that can be read once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from random import Random
from typing import Any

from workbench.exercises.exercise import Exercise, add


class SingleUseRows(Iterator[Sequence[int]]):
    """Rows of ids as a generator: a second loop finds nothing."""

    def __init__(self, rows: Sequence[Sequence[int]]) -> None:
        self._rows = rows
        self._next = 0

    def __next__(self) -> Sequence[int]:
        if self._next == len(self._rows):
            raise StopIteration
        self._next += 1
        return self._rows[self._next - 1]

    def __repr__(self) -> str:
        return f"a generator of {list(self._rows)}"


def expand_blocks(blocks: Sequence[int], ratio: int) -> list[int]:
    """Return kernel blocks of manager blocks, in order; ratio is manager size // kernel size."""
    from workbench.kernels.block_table.reference import expand_ids

    return list(expand_ids(blocks, ratio))


def slot_of(row: Sequence[int], position: int, kernel_block_size: int) -> int:
    """Return the slot of a token: row lists the request's kernel blocks, position counts from 0."""
    from workbench.kernels.block_table.groups import ContextParallel
    from workbench.kernels.block_table.reference import slot_of as reference

    return reference(row, position, kernel_block_size, ContextParallel())


def counts_and_ids(rows: Iterable[Sequence[int]]) -> list[list[int]]:
    """Return the number of ids of each row, and all ids in order; rows may be a generator."""
    read = [list(row) for row in rows]
    return [[len(row) for row in read], [block for row in read for block in row]]


def _expansions(random: Random) -> Iterator[dict[str, Any]]:
    yield {"blocks": [4, 2], "ratio": 2}
    yield {"blocks": [0, 1, 2], "ratio": 2}
    yield {"blocks": [7], "ratio": 1}
    yield {"blocks": [], "ratio": 33}
    for _ in range(20):
        blocks = random.sample(range(200), random.randrange(1, 5))
        yield {"blocks": blocks, "ratio": random.choice((1, 2, 3, 8, 33))}


def _slots(random: Random) -> Iterator[dict[str, Any]]:
    row = [8, 9, 4, 5]
    for position in (0, 15, 16, 31, 32, 63):
        yield {"row": row, "position": position, "kernel_block_size": 16}
    for _ in range(30):
        size, row = random.choice((16, 32, 64, 528)), random.sample(range(300), 4)
        yield {"row": row, "position": random.randrange(4 * size), "kernel_block_size": size}


def _handed_over(random: Random) -> Iterator[dict[str, Any]]:
    yield {"rows": [[4, 2], [7]]}
    yield {"rows": [[], [3]]}
    for _ in range(8):
        rows = [random.sample(range(90), random.randrange(4)) for _ in range(3)]
        yield {"rows": rows}
        yield {"rows": SingleUseRows(rows)}


add(
    Exercise(
        "expand_blocks",
        lesson=3,
        title="the kernel blocks of manager blocks",
        oracle=expand_blocks,
        inputs=_expansions,
    ),
    Exercise(
        "slot_of",
        lesson=3,
        title="the slot of a token",
        oracle=slot_of,
        inputs=_slots,
    ),
    Exercise(
        "counts_and_ids",
        lesson=3,
        title="counts and ids, also from a generator",
        oracle=counts_and_ids,
        inputs=_handed_over,
    ),
)
