"""Kernels of learners: the shipped ones with one typical mistake, and words of its verdict."""

from __future__ import annotations

import inspect
import linecache
from typing import Any, NamedTuple

from workbench.exercises.kernels import solutions
from workbench.kernels.language import tl, triton


class Learner(NamedTuple):
    """A kernel of a learner."""

    task: str
    kernel: Any
    words: tuple[str, ...]
    """Of the verdict."""


def with_changes(task: str, name: str, changes: dict[str, str]) -> Any:
    """Return a shipped kernel with other words in it, as a cell of a notebook would define it."""
    text = inspect.getsource(getattr(solutions, task).fn)
    for old, new in {f"def {task}": f"def {name}", **changes}.items():
        assert old in text, (name, old)
        text = text.replace(old, new)
    file, known = f"<{name}>", {"triton": triton, "tl": tl}
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), known)
    return known[name]


COUNT = "p_counts + request, mask=request >= 0, other=0) * RATIO"
ROW_LOOP = "for first in range(0, width, BLOCK):"
PART = "tl.where(live, block * RATIO + column % RATIO, 0)"
GATHERS: dict[str, tuple[str, dict[str, str]]] = {
    "read_past_the_row": (
        "p_table[0, 3], past the end of row 0; BLOCK lanes; tl.load(p_table",
        {", mask=live, other=0": ""},
    ),
    "keep_the_tail": (
        "made from an entry that holds no data; an earlier request; p_rows[0, 2]; expected: 0",
        {"live = column < count": "live = column < width"},
    ),
    "forget_the_mapping": (
        "p_requests[i] names its request; expected: 6; got: 1; program: 0",
        {"tl.load(p_requests + i).to(tl.int64)": "i"},
    ),
    "forget_to_expand": (
        "the manager block of that column; got: 3; expected: 6",
        {
            COUNT: COUNT.removesuffix(" * RATIO"),
            "column // RATIO": "column",
            "block * RATIO + column % RATIO": "block",
        },
    ),
    "forget_the_part": (
        "add the part, column % RATIO; got: 6; expected: 7",
        {" + column % RATIO": ""},
    ),
    "repeat_the_block": (
        "the number of the manager block itself; got: 3; expected: 7",
        {PART: "tl.where(column == 0, block * RATIO, block)"},
    ),
    "count_manager_blocks": (
        "Counts are in manager blocks; got: 0; expected: 3",
        {COUNT: COUNT.removesuffix(" * RATIO")},
    ),
    "add_to_the_null_block": (
        "Choose with tl.where after the arithmetic; expected: 0; got: 1",
        {PART: "block * RATIO + column % RATIO"},
    ),
    "count_of_padding": (
        "p_counts[-1], before its first entry; A padding row has no request; program: 1, of 3",
        {", mask=request >= 0, other=0": ""},
    ),
    "write_past_the_row": (
        "about to write; p_rows[0, 3], past the end of row 0: it has 3 entries; the next row",
        {", mask=column < width": ""},
    ),
    "stop_after_one_block": (
        "No program wrote this entry; what was there before the launch; none wrote it",
        {ROW_LOOP: "for first in range(1):"},
    ),
    "use_an_unknown_name": (
        "does not run to its end; NameError; requests_of; your line",
        {"tl.load(p_requests + i)": "tl.load(requests_of)"},
    ),
    "other_parameters": ("parameters differ; p_counts", {"p_requests, p_counts,": "p_requests,"}),
}
"""Name of a mistake -> words of its verdict, and what it replaces."""
POSITION = "tl.load(p_positions + token, mask=token < end, other=0)"
STORED = "(token < end) & (position // KERNEL_BLOCK < count)"
SLOT = "block * KERNEL_BLOCK + position % KERNEL_BLOCK"
SLOTS: dict[str, tuple[str, dict[str, str]]] = {
    "use_the_token": (
        "counted from 0 in this step; p_positions[token]",
        {POSITION: "token", STORED: "token < end"},
    ),
    "use_the_new_token": (
        "counted from 0 in this step; is further on",
        {POSITION: "token - tl.load(p_starts + i)", STORED: "token < end"},
    ),
    "use_32_bits": (
        "wrapped at 32 bits; .to(tl.int64); a large pool",
        {POSITION: f"{POSITION}.to(tl.int32)", ".to(tl.int64)": ""},
    ),
    "return_the_block": ("This is the kernel block; multiply by KERNEL_BLOCK", {SLOT: "block"}),
    "forget_the_offset": (
        "add position % KERNEL_BLOCK; got: 8; expected: 9",
        {" + position % KERNEL_BLOCK": ""},
    ),
    "trust_every_position": (
        "p_rows[1, 1], past the end of row 1: it has 1 entry; draft tokens; program: 1",
        {STORED: "token < end"},
    ),
    "store_in_the_null_block": (
        "a slot of the null block; expected: -1; got: 0",
        {f"tl.where(stored, {SLOT}, -1)": SLOT},
    ),
    "write_all_lanes": (
        "about to write; p_slots[7], past its end: it has 7 entries; mask the store",
        {"slot, mask=token < end": "slot"},
    ),
    "read_the_first_row": (
        "looked up in the first row; row_stride; two requests; program: 1",
        {"p_rows + i * row_stride": "p_rows"},
    ),
}
LEARNERS = {
    name: Learner(task, with_changes(task, name, changes), tuple(words.split("; ")))
    for task, mistakes in (("gather_rows", GATHERS), ("map_slots", SLOTS))
    for name, (words, changes) in mistakes.items()
}
NEVER_END = with_changes("gather_rows", "never_end", {ROW_LOOP: "first = 0\n    while True:"})
FAR_AWAY = with_changes("map_slots", "far_away", {"i * row_stride": "1099511627776"})


@triton.jit
def write_twice(
    p_requests, p_counts, p_table, p_rows, table_stride, row_stride, width,
    RATIO: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Gather every row in every program."""
    for i in range(tl.num_programs(0)):
        request = tl.load(p_requests + i)
        count = tl.load(p_counts + request, mask=request >= 0, other=0) * RATIO
        for first in range(0, width, BLOCK):
            column = first + tl.arange(0, BLOCK)
            live = column < count
            entry = p_table + request * table_stride + column // RATIO
            part = tl.where(live, tl.load(entry, mask=live, other=0) * RATIO + column % RATIO, 0)
            tl.store(p_rows + i * row_stride + column, part, mask=column < width)


RACE = ("two programs race", "0 and 1 both write it", "p_rows[0, 0]")
LEARNERS["write_twice"] = Learner("gather_rows", write_twice, RACE)


@triton.jit
def nothing(p_starts, p_positions, p_counts, p_rows, p_slots, row_stride,
            KERNEL_BLOCK: tl.constexpr, BLOCK: tl.constexpr):  # fmt: skip
    """As shipped: it does nothing yet."""
