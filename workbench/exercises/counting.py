"""Lesson 4 (#38554): pages from the configured blocks, the unit of hashes; the tour: tokens."""

from collections.abc import Sequence
from math import gcd, lcm
from random import Random

from workbench.exercises.exercise import Inputs, exercise


def _tensors(random: Random) -> Inputs:
    yield [2_162_688 * 7], 7
    yield [2_162_688 * 7, 65_536 * 7], 7
    for _ in range(20):
        blocks = random.randrange(1, 2000)
        pages = [1024 * random.randrange(1, 3000) for _ in range(random.randrange(1, 5))]
        yield [page * blocks for page in pages], blocks


@exercise(4, "the bytes of a block in each tensor", _tensors)
def page_bytes(tensor_bytes: Sequence[int], num_blocks: int) -> list[int]:
    """Return the bytes of one block in each tensor; num_blocks is the configuration's."""
    return [size // num_blocks for size in tensor_bytes]


def _groups(random: Random) -> Inputs:
    yield [528], [32768, 32768, 32768], 528
    yield [528], [528, 528, 528], 528
    yield [16, 32], [], 16
    yield [1056], [32768], 1056
    for _ in range(30):
        size = 16 * random.randrange(1, 140)
        other = random.choice((size, 1024 * random.randrange(1, 9)))
        attention = [size * random.choice((1, 1, 2)) for _ in range(random.randrange(1, 3))]
        yield attention, [other] * random.randrange(1, 4), size


@exercise(4, "the unit of prefix hashes", _groups)
def hash_block_size(
    attention_blocks: Sequence[int], mamba_blocks: Sequence[int], block_size: int
) -> int:
    """Return the unit of prefix hashes, for several groups that are hashed.

    attention_blocks, mamba_blocks: tokens of a block of every group of that kind; block_size: the
    engine's. Lcm of all if a mamba group has a different block from the engine, else gcd of all.
    """
    sizes = (*attention_blocks, *mamba_blocks)
    return lcm(*sizes) if any(size != block_size for size in mamba_blocks) else gcd(*sizes)


def _pools(random: Random) -> Inputs:
    yield from ((100, 10, 4096), (1241, 66, 32768), (1241, 69, 32768), (1667, 24, 32768))
    for _ in range(30):
        blocks, request = random.randrange(1, 9000), random.randrange(1, 500)
        # rounded after the division, so that rounding in between changes nothing
        yield blocks, request, request * random.randrange(16, 900)


@exercise(6, "the tokens that a log prints", _pools)
def printed_tokens(num_blocks: int, blocks_per_request: int, max_model_len: int) -> int:
    """Return tokens in "GPU KV cache size": full-length requests that fit, times length."""
    return int(num_blocks / blocks_per_request * max_model_len)
