"""The shipped solutions, written as a learner would: read them after you have tried.

`wb.check(answer, name, solve=True)` checks these in place of `answer`; CI does so for all of them.
"""

from collections.abc import Callable, Iterable, Sequence
from math import gcd, lcm, prod
from typing import Any

from workbench.core import adding
from workbench.exercises.log_case import LogCase
from workbench.scenario import Scenario


def aligned_block_size(mamba_page_bytes: int, token_bytes: int, step_tokens: int) -> int:
    """Solve lesson 1: steps of the alignment that hold the state, rounded up."""
    steps = -(-mamba_page_bytes // (step_tokens * token_bytes))
    return steps * step_tokens


start_order = ["backend", "preferred block", "alignment"]
"""Lesson 1: the table of the backend first, the step that only raises last."""


def misplaced_halves(num_blocks: int) -> list[tuple[str, int]]:
    """Solve lesson 2: half number h is in page h // 2."""
    keys = [("K", block) for block in range(num_blocks) if block // 2 != block]
    values = [("V", b) for b in range(num_blocks) if (num_blocks + b) // 2 != b]
    return keys + values


def block_dimension(cache_shape: Callable[[int], tuple[int, ...]]) -> int:
    """Solve lesson 2: use a number of blocks that no other dimension has."""
    return cache_shape(1_000_003).index(1_000_003)


def rewritten_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Solve lesson 2: K and V of a block are adjacent."""
    inner = [prod(shape[i + 1 :]) for i in range(2, len(shape))]
    half = prod(shape[2:])
    return (half, 2 * half, *inner)


def expand_blocks(blocks: Sequence[int], ratio: int) -> list[int]:
    """Solve lesson 3: each manager block becomes `ratio` kernel blocks."""
    return [block * ratio + part for block in blocks for part in range(ratio)]


def slot_of(row: Sequence[int], position: int, kernel_block_size: int) -> int:
    """Solve lesson 3: look up the kernel block, count from its first slot."""
    column, offset = divmod(position, kernel_block_size)
    return row[column] * kernel_block_size + offset


def counts_and_ids(rows: Iterable[Sequence[int]]) -> tuple[list[int], list[int]]:
    """Solve lesson 3: one loop that collects both."""
    counts: list[int] = []
    ids: list[int] = []
    for row in rows:
        counts.append(len(row))
        ids.extend(row)
    return counts, ids


def page_bytes(tensor_bytes: Sequence[int], num_blocks: int) -> list[int]:
    """Solve lesson 4: use the configuration's blocks, not the shape's."""
    return [size // num_blocks for size in tensor_bytes]


def hash_block_size(
    attention_blocks: Sequence[int], mamba_blocks: Sequence[int], block_size: int
) -> int:
    """Solve lesson 4: fine if the mamba groups agree with the engine, coarse otherwise."""
    sizes = [*attention_blocks, *mamba_blocks]
    agree = all(size == block_size for size in mamba_blocks)
    return gcd(*sizes) if agree else lcm(*sizes)


def is_accepted(mask_block: int, tile: int | None) -> bool:
    """Solve lesson 5: a power of two that the tile divides."""
    power_of_two = mask_block & (mask_block - 1) == 0
    return power_of_two and (tile is None or mask_block % tile == 0)


def listed_blocks(rows: Sequence[Sequence[int]], columns: int) -> list[int]:
    """Solve lesson 5: first occurrences, without the null block."""
    seen = dict.fromkeys(block for row in rows for block in row[:columns])
    return [block for block in seen if block != 0]


bits_differ = [True, False]
"""Lesson 5: 11, 4 is a different sum from 4, 11; pruned, the order is the one it has alone."""


def printed_tokens(num_blocks: int, blocks_per_request: int, max_model_len: int) -> int:
    """Solve lesson 6: concurrency times the longest request, rounded down at the end."""
    return int(num_blocks / blocks_per_request * max_model_len)


heron_blocks = [560, 2160, 80]
"""Lesson 8: multiples of 80, the smallest kernel block, that hold the state; and 80 itself."""


def heron_backend() -> adding.Backend:
    """Solve lesson 8: a field for each sentence of the data sheet."""
    return adding.Backend(
        "HERON_ATTN",
        platforms=("cuda",),
        supported=(80, adding.MultipleOf(128)),
        head_sizes=adding.HeadSizes(exact=(64, 128, 256)),
        kv_cache_dtypes=("auto", "float16", "bfloat16", "fp8", "fp8_e4m3"),
        capabilities=adding.Capabilities(at_least=(9, 0)),
        supports_sinks=lambda query: query.major >= 10,
        ranks=(adding.Rank("cuda", 5),),
        cache=adding.CacheLayout(axes=adding.AXES),
    )


def fatal_line(case: LogCase) -> int:
    """Solve lesson 9: the log doctor looks for the last known error that no start follows."""
    failure = case.report.failure
    return failure.line if failure else 0


def log_meaning(case: LogCase) -> str:
    """Solve lesson 9: the statement that the log doctor gives for that line."""
    [meaning] = {one.means for one in case.report.lines if one.line == fatal_line(case)}
    return next(letter for letter, text in case.statements.items() if text == meaning)


def log_scenario(case: LogCase) -> Scenario:
    """Solve lesson 9: what the lines of the log set."""
    return Scenario.from_dict(case.report.reading.fields)


def log_change(case: LogCase) -> dict[str, Any]:
    """Solve lesson 9: the first tested remedy of a single setting."""
    return next(case.repairs)
