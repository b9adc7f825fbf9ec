"""The use of every byte of a pool that is full of requests of one length."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.core.capacity.cache_plan import CachePlan
from workbench.core.capacity.occupancy import (
    NULL_BLOCKS,
    blocks_for_prompt,
    requests_that_fit,
    waste,
)
from workbench.core.errors import ScenarioError
from workbench.core.plan import Plan


@dataclass(frozen=True)
class PoolUse:
    """The pool of one rank, full of requests of `prompt_tokens`; the parts add up exactly."""

    prompt_tokens: int
    requests: int
    available_bytes: int
    """Memory for the cache on `rank`, of `ranks` in all."""
    parts: dict[str, int]
    """Those of `Waste`, for all requests together, and "null block", "idle blocks" (too few for one
    more request), "rank imbalance" (blocks that another rank has no room for) and "remainder" (too
    small for one more block)."""
    rank: int = 0
    ranks: int = 1

    @property
    def used_share(self) -> float:
        """Return the share of memory with K, V and running states; 0 for an empty pool."""
        return self.parts["used"] / self.available_bytes if self.available_bytes else 0.0


def pool_use(
    plan: Plan, cache: CachePlan, prompt_tokens: int, rank: int | None = None
) -> PoolUse | None:
    """Return the decomposition of the pool; None while its size is unknown or there is no block.

    rank: whose memory it is; without it the one that has most. Errors: ScenarioError for no length
    of a prompt, and for a rank that does not exist.
    """
    ranks, num_blocks = cache.rank_bytes, cache.num_blocks
    if not ranks or not num_blocks:
        return None
    if rank is None:
        rank = ranks.index(max(ranks))
    elif not 0 <= rank < len(ranks):
        raise ScenarioError(
            "out_of_range",
            f"The ranks with a memory of their own are 0 to {len(ranks) - 1}; got {rank}. Nearest "
            f"valid value: {min(max(rank, 0), len(ranks) - 1)}.",
            field="rank",
        )
    available, per_block = ranks[rank], cache.grouping.bytes_per_block
    requests = requests_that_fit(plan, cache, prompt_tokens)
    assert requests is not None
    taken = requests * blocks_for_prompt(plan, cache, prompt_tokens)
    of_requests = waste(plan, cache, prompt_tokens).parts
    room = available // per_block if per_block else num_blocks
    return PoolUse(
        prompt_tokens=prompt_tokens,
        requests=requests,
        available_bytes=available,
        parts={
            **{name: size * requests for name, size in of_requests.items()},
            "null block": NULL_BLOCKS * per_block,
            "idle blocks": (num_blocks - NULL_BLOCKS - taken) * per_block,
            "rank imbalance": (room - num_blocks) * per_block,
            "remainder": available - room * per_block,
        },
        rank=rank,
        ranks=len(ranks),
    )
