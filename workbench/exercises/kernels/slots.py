"""Lesson 7: the slot mapping, its launches and its usual mistakes."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from random import Random

from workbench.exercises.exercise import SEED, exercise
from workbench.exercises.kernels.case import Array, KernelCase, KernelTask, Mistake, Place
from workbench.exercises.kernels.judge import judge_kernel

NOT_STORED = -1
"""The slot of a token whose block its row does not have."""
BITS_32 = 2**32


def _case(
    words: str,
    rows: Sequence[Sequence[int]],
    spans: Sequence[range],
    *,
    size: int,
    columns: int,
    ratio: int = 1,
    block: int = 8,
) -> KernelCase:
    """Return a launch: rows[i] lists kernel blocks, spans[i] the positions of its new tokens."""
    starts = [sum(map(len, spans[:i])) for i in range(len(spans) + 1)]
    slots = [_slot(row, at, size) for row, span in zip(rows, spans, strict=True) for at in span]
    blocks = -(-(max((b for row in rows for b in row), default=0) + 1) // ratio)
    return KernelCase(
        words=f"{words}: starts {starts}, counts {[len(row) for row in rows]}, KERNEL_BLOCK {size}",
        arrays={
            "p_starts": Array([starts], "the first token of each request, then the end"),
            "p_positions": Array(
                [[at for span in spans for at in span]],
                "the position of each new token in its request",
                bits=64,
            ),
            "p_counts": Array([[len(row) for row in rows]], "kernel blocks of each row"),
            "p_rows": Array(
                [[*row, *[None] * (columns - len(row))] for row in rows],
                "kernel blocks, a row per request",
                columns + 5,
            ),
            "p_slots": Array([[None] * len(slots)], "the slot of each new token", bits=64),
        },
        numbers={"row_stride": columns + 5, "KERNEL_BLOCK": size, "BLOCK": block},
        programs=len(rows),
        output="p_slots",
        expected=[slots],
        owner=lambda place: _owner(starts, place.column),
        pool=[range(b * ratio * size, (b + 1) * ratio * size) for b in range(min(blocks, 99))],
    )


def _owner(starts: Sequence[int], token: int) -> int:
    return bisect_right(starts, token) - 1


def _slot(row: Sequence[int], position: int, size: int) -> int:
    column, offset = divmod(position, size)
    return row[column] * size + offset if column < len(row) else NOT_STORED


def _random_case(random: Random, size: int) -> KernelCase:
    ids = iter(random.sample(range(1, 900), 24))
    rows = [[next(ids) for _ in range(random.randrange(1, 6))] for _ in range(4)]
    spans = []
    for row in rows:
        end = random.randrange(1, len(row) * size + 1)
        spans.append(range(max(0, end - random.randrange(20)), end))
    return _case("random", rows, spans, size=size, columns=6, block=16)


def _cases() -> list[KernelCase]:
    random = Random(SEED)  # noqa: S311
    # ids as in a pool of 2**31 tokens and more
    large = [150_000_000, 149_999_999]
    return [
        _case("one prompt", [[2, 5]], [range(7)], size=4, columns=2),
        _case("one token of a decode", [[2, 5, 1]], [range(9, 10)], size=4, columns=3),
        _case("two requests", [[2, 5], [7]], [range(6), range(3)], size=4, columns=2),
        _case("kernel blocks of 48 tokens", [[3, 1]], [range(40, 60)], size=48, columns=2),
        _case("a request without new tokens", [[4], [], [6]], [range(3), range(0), range(2)],
              size=16, columns=2),
        _case("drafts past the last block", [[8], [3]], [range(2), range(14, 19)],
              size=16, columns=1),
        _case("a large pool", [large], [range(14, 19)], size=16, columns=2),
        *(_random_case(random, size) for size in (16, 32, 48, 64, 528)),
    ]  # fmt: skip


EXAMPLE = _case(
    "an example", [[2, 3, 6], [4]], [range(6, 11), range(1, 3)],
    size=4, columns=4, ratio=2,
)  # fmt: skip


def _looked_up(case: KernelCase, place: Place, position: int) -> int | None:
    """Return the kernel block that a token's own row names for a position."""
    row = case.arrays["p_rows"].rows[case.owner(place)]
    column = position // case.numbers["KERNEL_BLOCK"]
    return row[column] if 0 <= column < len(row) else None


def _position(case: KernelCase, place: Place) -> int:
    return case.arrays["p_positions"].rows[0][place.column] or 0


def _slot_at(case: KernelCase, place: Place, position: int) -> int | None:
    size, block = case.numbers["KERNEL_BLOCK"], _looked_up(case, place, position)
    return None if block is None else block * size + position % size


def _by_token(case: KernelCase, place: Place) -> int | None:
    return _slot_at(case, place, place.column)


def _by_new_token(case: KernelCase, place: Place) -> int | None:
    first = case.arrays["p_starts"].rows[0][case.owner(place)] or 0
    return _slot_at(case, place, place.column - first)


def _wrapped(case: KernelCase, place: Place) -> int | None:
    right = case.expected[0][place.column]
    return None if right < BITS_32 // 2 else (right + BITS_32 // 2) % BITS_32 - BITS_32 // 2


def _block_alone(case: KernelCase, place: Place) -> int | None:
    return _looked_up(case, place, _position(case, place))


def _without_offset(case: KernelCase, place: Place) -> int | None:
    block = _block_alone(case, place)
    return None if block is None else block * case.numbers["KERNEL_BLOCK"]


def _in_null_block(case: KernelCase, place: Place) -> int | None:
    if case.expected[0][place.column] != NOT_STORED:
        return None
    return _position(case, place) % case.numbers["KERNEL_BLOCK"]


def _first_row(case: KernelCase, place: Place) -> int | None:
    row = [block for block in case.arrays["p_rows"].rows[0] if block is not None]
    return _slot(row, _position(case, place), case.numbers["KERNEL_BLOCK"])


COUNTED = (
    "This is the slot of a position that was counted from 0 in this step. A request that decodes "
    "is further on: p_positions[token] is the position in its request."
)
MISTAKES = (
    Mistake(COUNTED, _by_token),
    Mistake(COUNTED, _by_new_token),
    Mistake(
        "The product has wrapped at 32 bits: blocks are int32, and a large pool has more than "
        "2**31 slots. Convert the block with .to(tl.int64) before you multiply.",
        _wrapped,
    ),
    Mistake(
        "This is the kernel block. A slot counts tokens: multiply by KERNEL_BLOCK and add the "
        "remainder.",
        _block_alone,
    ),
    Mistake(
        "This is the first slot of the right kernel block: add position % KERNEL_BLOCK.",
        _without_offset,
    ),
    Mistake(
        "This is a slot of the null block, which other requests read. The row has no block for "
        "this position, so the slot is -1: choose it with tl.where after the arithmetic.",
        _in_null_block,
    ),
    Mistake(
        "This was looked up in the first row. Row i of the batch begins at p_rows + i * "
        "row_stride.",
        _first_row,
    ),
)


@exercise(
    7,
    "the slots of new tokens",
    judge=lambda answer, _case: judge_kernel(TASK, answer),
    solutions="kernels.solutions",
)
def map_slots(
    p_starts: object,
    p_positions: object,
    p_counts: object,
    p_rows: object,
    p_slots: object,
    row_stride: int,
    KERNEL_BLOCK: int,
    BLOCK: int,
) -> None:
    """Write the slot of every new token of request i; -1 where its row has no block for it.

    p_starts: [requests + 1] the first token of each request in the batch; p_positions: [tokens],
    int64; p_counts: [requests] kernel blocks of each row; p_rows: [requests, row_stride] kernel
    blocks; p_slots: [tokens], int64. Grid: (requests,).
    """


TASK: KernelTask = KernelTask(
    name="map_slots",
    parameters=tuple(map_slots.__annotations__)[:-1],
    example=EXAMPLE,
    cases=_cases(),
    mistakes=MISTAKES,
    garbage="The row has no block for this position: what is after its live blocks belongs to "
    "an earlier request. Compare position // KERNEL_BLOCK with p_counts[i], and write -1.",
    out_of_bounds={
        "p_rows": "The row has no entry for this position: a step with draft tokens may go past "
        "the last block of a request. Read the table only where position // KERNEL_BLOCK is below "
        "the row's count, and write -1 elsewhere.",
        "p_positions": "tl.arange makes BLOCK lanes, and a request rarely has as many new tokens. "
        "Mask the load with token < end.",
        "p_slots": "The lanes past the request's last token are not its own: mask the store with "
        "token < end.",
        "p_starts": "p_starts has one more entry than there are requests: request i has the tokens "
        "p_starts[i] up to, not including, p_starts[i + 1].",
        "p_counts": "There is one count per request: p_counts[i], for i = tl.program_id(0).",
    },
)
