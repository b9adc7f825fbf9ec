"""Lesson 7: the gather kernel of a block table, its launches and its usual mistakes."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from workbench.exercises.exercise import SEED, exercise
from workbench.exercises.kernels.case import Array, KernelCase, KernelTask, Mistake, Place
from workbench.exercises.kernels.judge import judge_kernel

PADDING = -1
"""A batch row without a request: CUDA graphs run with a fixed number of rows."""


def _case(
    words: str,
    requests: Sequence[int],
    tables: Sequence[Sequence[int]],
    *,
    columns: int,
    ratio: int,
    block: int = 8,
) -> KernelCase:
    """Return a launch: tables[request] lists manager blocks, of at most `columns`."""
    width = columns * ratio
    table = [[*row, *[None] * (columns - len(row))] for row in tables]
    rows = [[b * ratio + part for b in row for part in range(ratio)] for row in tables]
    expected = [[] if request == PADDING else rows[request] for request in requests]
    expected = [[*row, *[0] * (width - len(row))] for row in expected]
    blocks = max((block for row in tables for block in row), default=0) + 1
    return KernelCase(
        words=f"{words}: requests {list(requests)}, counts {[len(row) for row in tables]}, "
        f"RATIO {ratio}, width {width}",
        arrays={
            "p_requests": Array([requests], "the request of each row of the batch"),
            "p_counts": Array([[len(row) for row in tables]], "manager blocks of each request"),
            "p_table": Array(table, "manager blocks, a row per request", columns + 3),
            "p_rows": Array(
                [[None] * width for _ in requests], "kernel blocks, a row per program", width + 5
            ),
        },
        numbers={
            "table_stride": columns + 3,
            "row_stride": width + 5,
            "width": width,
            "RATIO": ratio,
            "BLOCK": block,
        },
        programs=len(requests),
        output="p_rows",
        expected=expected,
        owner=lambda place: place.row,
        pool=[[b * ratio + part for part in range(ratio)] for b in range(blocks)],
    )


def _random_case(random: Random, words: str, ratio: int) -> KernelCase:
    columns = random.randrange(2, 7)
    ids = iter(random.sample(range(1, 300), 6 * columns))
    tables = [[next(ids) for _ in range(random.randrange(columns + 1))] for _ in range(5)]
    requests = random.sample(range(5), random.randrange(2, 5))
    requests.insert(random.randrange(len(requests) + 1), PADDING)
    return _case(words, requests, tables, columns=columns, ratio=ratio, block=16)


def _cases() -> list[KernelCase]:
    random = Random(SEED)  # noqa: S311
    return [
        _case("one request, full", [0], [[3, 1, 2]], columns=3, ratio=1, block=4),
        _case("a row that is not full", [0], [[3, 1]], columns=5, ratio=1, block=4),
        _case("three requests, reordered", [2, 0], [[1], [2, 3], [6, 4]], columns=2, ratio=1),
        _case("two kernel blocks per block", [0], [[3, 1, 2]], columns=3, ratio=2),
        _case("longer than BLOCK", [1, 0], [[9, 7, 2], [4, 1]], columns=5, ratio=33, block=16),
        _case("a padding row", [1, PADDING, 0], [[5], [2, 3]], columns=3, ratio=2),
        _case("a request without blocks", [0, 1], [[], [8, 6]], columns=2, ratio=3),
        *(_random_case(random, "random", ratio) for ratio in (1, 2, 3, 5, 8, 33)),
    ]


EXAMPLE = _case(
    "an example", [2, PADDING, 0], [[3, 1], [], [5, 2, 4]], columns=4, ratio=2, block=16
)


def _block(case: KernelCase, request: int, column: int) -> int | None:
    """Return an entry of the table as it is in memory, None for one without data."""
    table = case.arrays["p_table"].rows
    inside = 0 <= request < len(table) and 0 <= column < len(table[0])
    return table[request][column] if inside else None


def _request(case: KernelCase, place: Place) -> int:
    return case.arrays["p_requests"].rows[0][place.row] or 0


def _unexpanded(case: KernelCase, place: Place) -> int | None:
    ratio = case.numbers["RATIO"]
    return _block(case, _request(case, place), place.column) if ratio > 1 else None


def _same_part(case: KernelCase, place: Place) -> int | None:
    ratio = case.numbers["RATIO"]
    block = _block(case, _request(case, place), place.column // ratio)
    return None if block is None or ratio == 1 else block * ratio


def _repeated(case: KernelCase, place: Place) -> int | None:
    ratio = case.numbers["RATIO"]
    found = _block(case, _request(case, place), place.column // ratio)
    return found if ratio > 1 else None


def _own_number(case: KernelCase, place: Place) -> int | None:
    ratio = case.numbers["RATIO"]
    block = _block(case, place.row, place.column // ratio)
    return None if block is None else block * ratio + place.column % ratio


def _null_block(case: KernelCase, place: Place) -> int | None:
    return 0 if case.expected[place.row][place.column] else None


def _part_of_null(case: KernelCase, place: Place) -> int | None:
    return None if case.expected[place.row][place.column] else place.column % case.numbers["RATIO"]


MISTAKES = (
    Mistake(
        "This is the manager block of that column. Expand it: manager block b is the kernel "
        "blocks b * RATIO to b * RATIO + RATIO - 1, and column c of the row is in block c // "
        "RATIO.",
        _unexpanded,
    ),
    Mistake(
        "This is the number of the manager block itself, not of a kernel block: multiply it by "
        "RATIO and add the part.",
        _repeated,
    ),
    Mistake(
        "This is the first kernel block of its manager block: add the part, column % RATIO.",
        _same_part,
    ),
    Mistake(
        "This is the row of the request whose number is the program's. The program's number is a "
        "row of the batch; p_requests[i] names its request.",
        _own_number,
    ),
    Mistake(
        "0 is the null block. Counts are in manager blocks; a row has count * RATIO kernel blocks.",
        _null_block,
    ),
    Mistake(
        "A masked load gave 0, and the part was added to it. Choose with tl.where after the "
        "arithmetic: entries that are not live become 0.",
        _part_of_null,
    ),
)


@exercise(
    7,
    "the rows of a batch, gathered",
    judge=lambda answer, _case: judge_kernel(TASK, answer),
    solutions="kernels.solutions",
)
def gather_rows(
    p_requests: object,
    p_counts: object,
    p_table: object,
    p_rows: object,
    table_stride: int,
    row_stride: int,
    width: int,
    RATIO: int,
    BLOCK: int,
) -> None:
    """Write row i of the batch: the kernel blocks of its request, then zeros, `width` in all.

    p_requests: [rows] the request of each row, -1 for padding, whose row is all 0; p_counts:
    [requests] live manager blocks; p_table: [requests, table_stride] manager blocks; p_rows:
    [rows, row_stride] kernel blocks. Grid: (rows,).
    """


TASK: KernelTask = KernelTask(
    name="gather_rows",
    parameters=tuple(gather_rows.__annotations__)[:-1],
    example=EXAMPLE,
    cases=_cases(),
    mistakes=MISTAKES,
    garbage="It comes from an entry after the live blocks, where an earlier request may have left "
    "anything. Mask by the request's count, not by the width.",
    out_of_bounds={
        "p_counts": "A padding row has no request: p_requests is -1 there, and p_counts has no "
        "entry -1. Mask the load, with other=0.",
        "p_table": "tl.arange always makes BLOCK lanes, and a row is rarely a multiple of BLOCK "
        "long. Mask the load: only columns below count * RATIO are live, and column c is in entry "
        "c // RATIO of the table.",
        "p_rows": "The row has `width` entries; the lanes past them belong to the next row, which "
        "another program writes. Mask the store.",
        "p_requests": "One program handles one row: its number is tl.program_id(0).",
    },
)
