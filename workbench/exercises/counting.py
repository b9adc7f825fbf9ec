"""Lesson 4 (#38554): pages from the configured number of blocks, and the unit of hashes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import gcd, lcm
from random import Random
from typing import Any

from workbench.exercises.exercise import Exercise, add


def page_bytes(tensor_bytes: Sequence[int], num_blocks: int) -> list[int]:
    """Return the bytes of one block in each tensor; num_blocks is the configuration's."""
    return [size // num_blocks for size in tensor_bytes]


def hash_block_size(
    attention_blocks: Sequence[int], mamba_blocks: Sequence[int], block_size: int
) -> int:
    """Return the unit of prefix hashes, for several groups that are hashed.

    attention_blocks, mamba_blocks: tokens of a block of every group of that kind; block_size: the
    engine's. Lcm of all if a mamba group has another block than the engine, else gcd of all.
    """
    sizes = (*attention_blocks, *mamba_blocks)
    if any(size != block_size for size in mamba_blocks):
        return lcm(*sizes)
    return gcd(*sizes)


def _tensors(random: Random) -> Iterator[dict[str, Any]]:
    yield {"tensor_bytes": [2_162_688 * 7], "num_blocks": 7}
    yield {"tensor_bytes": [2_162_688 * 7, 65_536 * 7], "num_blocks": 7}
    for _ in range(20):
        blocks = random.randrange(1, 2000)
        pages = [1024 * random.randrange(1, 3000) for _ in range(random.randrange(1, 5))]
        yield {"tensor_bytes": [page * blocks for page in pages], "num_blocks": blocks}


def _groups(random: Random) -> Iterator[dict[str, Any]]:
    names = ("attention_blocks", "mamba_blocks", "block_size")
    for operands in (
        ([528], [32768, 32768, 32768], 528),
        ([528], [528, 528, 528], 528),
        ([16, 32], [], 16),
        ([1056], [32768], 1056),
    ):
        yield dict(zip(names, operands, strict=True))
    for _ in range(30):
        size = 16 * random.randrange(1, 140)
        other = random.choice((size, 1024 * random.randrange(1, 9)))
        attention = [size * random.choice((1, 1, 2)) for _ in range(random.randrange(1, 3))]
        yield dict(zip(names, (attention, [other] * random.randrange(1, 4), size), strict=True))


add(
    Exercise(
        "page_bytes",
        lesson=4,
        title="the bytes of a block in each tensor",
        oracle=page_bytes,
        inputs=_tensors,
    ),
    Exercise(
        "hash_block_size",
        lesson=4,
        title="the unit of prefix hashes",
        oracle=hash_block_size,
        inputs=_groups,
    ),
)
