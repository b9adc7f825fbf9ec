"""A workload of requests that share prefixes: how many have a hit, and why (vllm#45238).

From 0.33 on a request that finds less than attention remembers keeps its state there, so that the
next one finds it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice

from workbench.core.prefix.hits import Caching, Hit, hit_after, prefix_hit, reason_without_hits
from workbench.core.prefix.prefill import Prefill

SHOWN = 6
"""How many checkpoints an explanation names."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Requests that come one at a time, each a shared prefix and tokens of its own.

    prefixes: how many different prefixes there are; the requests take them in turn. Errors:
    ValueError for negative numbers, no token at all, or no prefix.
    """

    requests: int
    shared_tokens: int
    unique_tokens: int
    prefixes: int = 1

    def __post_init__(self) -> None:
        numbers = (self.requests, self.shared_tokens, self.unique_tokens)
        if min(numbers) < 0 or self.prefixes < 1 or self.prompt_tokens < 1:
            raise ValueError(
                "a workload needs requests >= 0, prefixes >= 1 and at least one token; got "
                f"{self.requests} requests, {self.prefixes} prefixes, {self.shared_tokens} shared "
                f"and {self.unique_tokens} unique tokens."
            )

    @property
    def prompt_tokens(self) -> int:
        """Return the tokens of every prompt."""
        return self.shared_tokens + self.unique_tokens


@dataclass(frozen=True, slots=True)
class WorkloadHits:
    """What every request of a workload reuses, and the hit that its rules lead to."""

    workload: Workload
    cached_tokens: tuple[int, ...]
    """Per request, in order."""
    first: Prefill
    """The steps of a request that finds nothing."""
    typical: Hit
    """What the next request reuses of it."""
    reason: str | None
    """Why no request can ever have a hit, or None."""
    has_states: bool
    """Whether SSM layers have to be found too."""
    junction_tokens: int
    """Where the second request of a prefix keeps a state for those after it; 0 where it does
    not."""

    @property
    def hits(self) -> int:
        """Return the requests that reuse anything."""
        return sum(tokens > 0 for tokens in self.cached_tokens)

    @property
    def explanation(self) -> str:
        """Return one or two sentences with the numbers that decide."""
        shared = self.workload.shared_tokens
        kept = (*self.first.kept, self.first.tails)
        count = sum(len(part) for part in kept)
        shown = islice(chain.from_iterable(kept), SHOWN)
        stops = " and ".join(f"{position:,}" for position in shown)
        more = f" and {count - SHOWN:,} more" if count > SHOWN else ""
        named = "checkpoints" if count > 1 else "a checkpoint"
        left = f"{named} at {stops}{more}" if count else "no checkpoint"
        if not self.has_states:
            left = "every full block, and there is no state to be found"
        start = (
            f"{self.hits} of {self.workload.requests} requests have a hit. A prompt of "
            f"{self.workload.prompt_tokens:,} tokens leaves {left}"
        )
        if self.reason is not None:
            return f"{start}. {self.reason}"
        if self.typical.cached_tokens:
            first = min(self.workload.prefixes, self.workload.requests)
            return (
                f"{start}; {self.typical.cached_tokens:,} is inside the shared {shared:,} tokens, "
                f"so only the first request of each prefix ({first}) computes everything."
            )
        match = self.typical.attention_tokens or 0
        lost = (
            f", so the {match:,} tokens of attention KV that match are computed again"
            if match
            else ""
        )
        if self.junction_tokens:
            return (
                f"{start}; none is inside the shared {shared:,} tokens, so the second request of a "
                f"prefix computes everything as well, but keeps its state at "
                f"{self.junction_tokens:,}, where attention's match ends: later ones reuse that."
            )
        return f"{start}; none is inside the shared {shared:,} tokens that a hit could use{lost}."


def workload_hits(caching: Caching, workload: Workload) -> WorkloadHits:
    """Return every request of the workload against all before it with the same prefix.

    Nothing is evicted and no two requests overlap, so this is the most that the rules allow. For
    vllm#45238 (block 528, budget 2048, one request at a time, 64 requests) that is 0 hits for
    1500 shared tokens, whatever the number of prefixes, and for 1600 shared tokens all but the
    first request of each prefix: 56 with the 8 prefixes that the report names later. It measured
    52: four more misses, which no rule of the scheduler gives (evictions from a small pool, or
    prompts whose tokens differ from what was requested, would).
    """
    prompt, prefixes = workload.prompt_tokens, workload.prefixes
    of_each = [*islice(_of_one_prefix(caching, workload), -(-workload.requests // prefixes))]
    cached = [of_each[number // prefixes] for number in range(workload.requests)]
    typical = prefix_hit(caching, prompt, workload.shared_tokens)
    return WorkloadHits(
        workload=workload,
        cached_tokens=tuple(cached),
        first=caching.prefill(prompt),
        typical=typical,
        reason=reason_without_hits(caching),
        has_states=caching.state_block is not None or bool(caching.windows),
        junction_tokens=_junction(caching, workload, typical.cached_tokens),
    )


def _of_one_prefix(caching: Caching, workload: Workload) -> Iterator[int]:
    """Yield what the first, second, ... request of any one prefix reuses, in tokens."""
    prompt = workload.prompt_tokens
    seen: dict[tuple[int, int], Prefill] = {}
    is_new = True
    best = 0
    while True:
        if is_new:  # else nothing is there that was not there before
            hits = (
                hit_after(caching, one, prompt, workload.shared_tokens) for one in seen.values()
            )
            best = max((hit.cached_tokens for hit in hits), default=0)
            junction = _junction(caching, workload, best) if seen else 0
            is_new = (best, junction) not in seen
            seen.setdefault((best, junction), caching.prefill(prompt, best, junction))
        yield best


def _junction(caching: Caching, workload: Workload, cached: int) -> int:
    """Return the end of attention's match of an earlier request if it is past the hit (0.33)."""
    sparse = caching.windows or caching.state_block is not None
    if not caching.keeps_few or not sparse or not caching.is_on:
        return 0
    match = prefix_hit(caching, workload.prompt_tokens, workload.shared_tokens).attention_tokens
    return match if match is not None and match > cached else 0
