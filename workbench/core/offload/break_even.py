"""When loading a stored prefix is quicker than computing it: bytes against a rate and a link.

Every number but two follows from the plan. The two are of the machine and are entered, never
guessed: how many tokens per second a prefill computes, and how many bytes per second a link moves.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm

from workbench.core.arithmetic import cdiv
from workbench.core.capacity.blocks import tokens_read_again
from workbench.core.offload.plan import Offload, gpu_block_bytes, window_chunks
from workbench.core.offload.request import offloaded_groups
from workbench.core.plan import Plan


@dataclass(frozen=True, slots=True)
class LoadedPrefix:
    """What a rank loads where a prompt finds all of its stored prefix: tokens, and bytes at most.

    Padding counts, which is not moved, so a link may be quicker than it has to be.
    """

    tokens: int
    bytes_per_rank: int

    def seconds(self, link_bytes_per_s: float) -> float:
        """Return how long the link takes, without the time until the first byte."""
        return self.bytes_per_rank / link_bytes_per_s

    def most_prefill_tokens_per_s(self, link_bytes_per_s: float) -> float:
        """Return the rate of a prefill below which loading is quicker than computing."""
        return self.tokens / self.seconds(link_bytes_per_s)


def loaded_prefix(plan: Plan, found: Offload, tokens: int) -> LoadedPrefix:
    """Return what is loaded for a prefix, cut to whole offloaded blocks.

    Errors: ValueError after a failed check.
    """
    if found.factor is None:
        raise ValueError("this offload does not start: see its problems")
    unit = _unit(found)
    whole, blocks = tokens // unit * unit, 0
    for group, size in zip(offloaded_groups(plan), found.gpu_block_sizes, strict=True):
        chunk = size * found.factor
        # of a window its last blocks, of a state the last one alone
        kept = window_chunks(group.spec, chunk, tokens_read_again(plan))
        blocks += whole // chunk if kept is None else min(kept, cdiv(whole, chunk))
    return LoadedPrefix(whole, blocks * found.factor * gpu_block_bytes(plan.built_cache()))


def break_even_tokens(
    plan: Plan, found: Offload, prefill_tokens_per_s: float, link_bytes_per_s: float
) -> int | None:
    """Return the shortest prefix that is loaded quicker than computed; None if none is.

    A state takes the same bytes however long the prefix is, so longer prefixes win.
    """
    unit = _unit(found)

    def pays(blocks: int) -> bool:
        loaded = loaded_prefix(plan, found, blocks * unit)
        return loaded.seconds(link_bytes_per_s) < loaded.tokens / prefill_tokens_per_s

    low, high = 0, plan.max_model_len // unit
    if not high or not pays(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if pays(middle) else (middle, high)
    return high * unit


def _unit(found: Offload) -> int:
    return lcm(*found.gpu_block_sizes) * (found.factor or 1)
