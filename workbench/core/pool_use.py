"""Where the bytes of a whole pool go when it is full of requests of one length."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.core.capacity import CachePlan
from workbench.core.occupancy import NULL_BLOCKS, blocks_for_prompt, requests_that_fit, waste
from workbench.core.plan import Plan


@dataclass(frozen=True)
class PoolUse:
    """The pool of one rank, full of requests of `prompt_tokens`; the parts add up exactly.

    available_bytes: memory for the cache. parts: those of `Waste`, for all requests together, and
    "null block", "idle blocks" (too few for one more request) and "remainder" (too small for one
    more block).
    """

    prompt_tokens: int
    requests: int
    available_bytes: int
    parts: dict[str, int]

    @property
    def used_share(self) -> float:
        """Keys, values and running states as a share of the memory; 0 for an empty pool."""
        return self.parts["used"] / self.available_bytes if self.available_bytes else 0.0


def pool_use(plan: Plan, cache: CachePlan, prompt_tokens: int) -> PoolUse | None:
    """The decomposition of the pool; None while its size is unknown or there is no block."""
    available, num_blocks = cache.available_bytes, cache.num_blocks
    if available is None or not num_blocks:
        return None
    per_block = cache.grouping.bytes_per_block
    requests = requests_that_fit(plan, cache, prompt_tokens)
    assert requests is not None
    taken = requests * blocks_for_prompt(plan, cache, prompt_tokens)
    of_requests = waste(plan, cache, prompt_tokens).parts
    return PoolUse(
        prompt_tokens,
        requests,
        available,
        {
            **{name: size * requests for name, size in of_requests.items()},
            "null block": NULL_BLOCKS * per_block,
            "idle blocks": (num_blocks - NULL_BLOCKS - taken) * per_block,
            "remainder": available - num_blocks * per_block,
        },
    )
