"""Owners of the blocks of a pool: requests of given lengths take them one after the other.

A fixed order instead of a scheduler: block 0 is the null block, every request takes the blocks of
group 0, then of group 1, and so on, from the lowest free id; every n-th request has finished.
The pattern repeats, so a pool of a million blocks costs what a pool of a thousand does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import lcm

import numpy as np
from numpy.typing import NDArray

from workbench.core.capacity.occupancy import NULL_BLOCKS, request_blocks
from workbench.core.layouts.error import LayoutError
from workbench.core.plan import Plan

Ints = NDArray[np.int64]
NULL, FREE = "null block", "free"
ATTENTION, STATE = "attention", "state"
OWNERS = (ATTENTION, STATE, FREE, NULL)
"""What a block can be."""
MAX_LENGTHS = 64
MAX_FINISHED = 64


@dataclass(frozen=True)
class PoolFill:
    """The blocks of a pool, as one cycle of requests that repeats until the pool is full."""

    num_blocks: int
    ends: Ints
    """Where the runs of a cycle end, in blocks."""
    owners: Ints
    """[run] the owner, as a place in OWNERS."""
    requests: Ints
    """[run] the request inside the cycle."""
    groups: Ints
    """[run] the group."""
    cycle_requests: int
    filled_blocks: int
    """Ids that were ever taken, the null block not counted."""
    request_count: int
    """Requests that fit as a whole."""
    finished_every: int

    @property
    def cycle_blocks(self) -> int:
        """Blocks of one cycle."""
        return int(self.ends[-1])

    def owned_before(self, blocks: Ints) -> Ints:
        """Return [blocks, owner]: how many blocks with a smaller id each owner has."""
        taken = np.clip(blocks - NULL_BLOCKS, 0, self.filled_blocks)
        cycles, inside = np.divmod(taken, self.cycle_blocks)
        starts = np.concatenate(([0], self.ends[:-1]))
        is_owner = self.owners[:, None] == np.arange(len(OWNERS))
        ends = np.cumsum(is_owner * (self.ends - starts)[:, None], axis=0)
        run = np.minimum(np.searchsorted(self.ends, inside, side="right"), len(starts) - 1)
        whole_runs = ends[run] - is_owner[run] * (self.ends - starts)[run, None]
        part = is_owner[run] * (inside - starts[run])[:, None]
        counts: Ints = cycles[:, None] * ends[-1] + whole_runs + part
        counts[:, OWNERS.index(NULL)] = np.minimum(blocks, NULL_BLOCKS)
        never = np.clip(blocks - NULL_BLOCKS - self.filled_blocks, 0, None)
        counts[:, OWNERS.index(FREE)] += never
        return counts

    def run_of(self, blocks: Ints) -> tuple[Ints, Ints]:
        """Return (request, group) of each block; -1 for blocks that were never taken."""
        taken = blocks - NULL_BLOCKS
        inside = (taken >= 0) & (taken < self.filled_blocks)
        cycles, rest = np.divmod(np.where(inside, taken, 0), self.cycle_blocks)
        run = np.searchsorted(self.ends, rest, side="right")
        request = cycles * self.cycle_requests + self.requests[run]
        return np.where(inside, request, -1), np.where(inside, self.groups[run], -1)


def fill_pool(
    plan: Plan,
    num_blocks: int,
    prompts: Sequence[int],
    *,
    requests: int | None = None,
    finished_every: int = 0,
) -> PoolFill:
    """Fill a pool with requests of these lengths, in turn, up to `requests` or until it is full.

    finished_every: every n-th request has finished and its blocks are free again; 0: none has.
    Errors: LayoutError for numbers that cannot be; ValueError when the plan has no cache.
    """
    cache = plan.built_cache()
    lengths = tuple(prompts)
    wrong = next((n for n in lengths if not 1 <= n <= plan.max_model_len), None)
    every = f"from 0 (none) to {MAX_FINISHED}"
    for field, given, fine, allowed in (
        ("num_blocks", num_blocks, num_blocks >= 1, "at least 1"),
        ("prompts", len(lengths), 1 <= len(lengths) <= MAX_LENGTHS, f"1 to {MAX_LENGTHS} lengths"),
        ("prompts", wrong, wrong is None, f"lengths from 1 to {plan.max_model_len:,} tokens"),
        ("requests", requests, requests is None or requests >= 0, "at least 0"),
        ("finished_every", finished_every, 0 <= finished_every <= MAX_FINISHED, every),
    ):
        if not fine:
            raise LayoutError("pool_input", f"{field} must be {allowed}; got {given}.", field=field)
    cycle = lcm(len(lengths), finished_every or 1)
    runs = []
    for number in range(cycle):
        done = bool(finished_every) and number % finished_every == finished_every - 1
        for index, group in enumerate(cache.groups):
            size = request_blocks(plan, group, lengths[number % len(lengths)])
            kind = FREE if done else STATE if group.spec.is_mamba else ATTENTION
            runs.append((size, OWNERS.index(kind), number, index))
    sizes, owners, numbers, groups = np.array(runs, dtype=np.int64).reshape(-1, 4).T
    ends = np.cumsum(sizes)
    per_request = ends[len(cache.groups) - 1 :: len(cache.groups)]
    cycles, rest = divmod(num_blocks - NULL_BLOCKS, int(ends[-1]))
    count = cycles * cycle + int(np.searchsorted(per_request, rest, side="right"))
    if requests is not None:
        count = min(count, requests)
    cycles, left = divmod(count, cycle)
    filled = cycles * int(ends[-1]) + (int(per_request[left - 1]) if left else 0)
    return PoolFill(
        num_blocks=num_blocks,
        ends=ends,
        owners=owners,
        requests=numbers,
        groups=groups,
        cycle_requests=cycle,
        filled_blocks=filled,
        request_count=count,
        finished_every=finished_every,
    )
