"""Lesson 3 (#38831): kernel blocks of a manager block, slots, and ids that can be read once."""

from collections.abc import Iterable, Iterator, Sequence
from random import Random

from workbench.exercises.exercise import Inputs, exercise


class SingleUseRows(Iterator[Sequence[int]]):
    """Rows of ids as a generator: a second loop finds nothing."""

    def __init__(self, rows: Sequence[Sequence[int]]) -> None:
        self._rows = rows
        self._left = list(rows)

    def __next__(self) -> Sequence[int]:
        if not self._left:
            raise StopIteration
        return self._left.pop(0)

    def __repr__(self) -> str:
        return f"a generator of {list(self._rows)}"


def _expansions(random: Random) -> Inputs:
    yield from (([4, 2], 2), ([0, 1, 2], 2), ([7], 1), ([], 33))
    for _ in range(20):
        blocks = random.sample(range(200), random.randrange(1, 5))
        yield blocks, random.choice((1, 2, 3, 8, 33))


@exercise(3, "the kernel blocks of manager blocks", _expansions)
def expand_blocks(blocks: Sequence[int], ratio: int) -> list[int]:
    """Return kernel blocks of manager blocks, in order; ratio is manager size // kernel size."""
    from workbench.kernels.block_table.reference import expand_ids

    return list(expand_ids(blocks, ratio))


def _slots(random: Random) -> Inputs:
    for position in (0, 15, 16, 31, 32, 63):
        yield [8, 9, 4, 5], position, 16
    for _ in range(30):
        size, row = random.choice((16, 32, 64, 528)), random.sample(range(300), 4)
        yield row, random.randrange(4 * size), size


@exercise(3, "the slot of a token", _slots)
def slot_of(row: Sequence[int], position: int, kernel_block_size: int) -> int:
    """Return the slot of a token: row lists the request's kernel blocks, position counts from 0."""
    from workbench.kernels.block_table.groups import ContextParallel
    from workbench.kernels.block_table.reference import slot_of as reference

    return reference(row, position, kernel_block_size, ContextParallel())


def _handed_over(random: Random) -> Inputs:
    yield ([[4, 2], [7]],)
    yield ([[], [3]],)
    for _ in range(8):
        rows = [random.sample(range(90), random.randrange(4)) for _ in range(3)]
        yield (rows,)
        yield (SingleUseRows(rows),)


@exercise(3, "counts and ids, also from a generator", _handed_over)
def counts_and_ids(rows: Iterable[Sequence[int]]) -> list[list[int]]:
    """Return the number of ids of each row, and all ids in order; rows may be a generator."""
    read = [list(row) for row in rows]
    return [[len(row) for row in read], [block for row in read for block in row]]
