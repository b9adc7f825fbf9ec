"""The tour through a start-up log: the token count that vLLM prints now and printed before."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from workbench.exercises.exercise import Exercise, add


def printed_tokens(num_blocks: int, blocks_per_request: int, max_model_len: int) -> int:
    """Return tokens in "GPU KV cache size": full-length requests that fit, times length."""
    return int(num_blocks / blocks_per_request * max_model_len)


def _pools(random: Random) -> Iterator[dict[str, Any]]:
    names = ("num_blocks", "blocks_per_request", "max_model_len")
    for operands in ((100, 10, 4096), (1241, 66, 32768), (1241, 69, 32768), (1667, 24, 32768)):
        yield dict(zip(names, operands, strict=True))
    for _ in range(30):
        blocks, request = random.randrange(1, 9000), random.randrange(1, 500)
        # rounded after the division, so that rounding in between changes nothing
        yield dict(zip(names, (blocks, request, request * random.randrange(16, 900)), strict=True))


add(
    Exercise(
        "printed_tokens",
        lesson=6,
        title="the tokens that a log prints",
        oracle=printed_tokens,
        inputs=_pools,
    )
)
