"""What if attention and states had a pool each: no inflated blocks, but a split that is fixed.

vLLM has one pool for both kinds of layer; this is the alternative that it decided against.
"""

from collections import Counter
from dataclasses import dataclass

from workbench.core.arithmetic import cdiv
from workbench.core.capacity.cache_plan import CachePlan
from workbench.core.capacity.occupancy import (
    check_prompt,
    request_blocks,
    requests_that_fit,
    tokens_on_rank,
)
from workbench.core.plan import Plan

PHASE_1 = ("preferred_block_size", "platform_block_size")


@dataclass(frozen=True, slots=True)
class SeparatePools:
    """Two pools over the same memory, split so that both are full at `designed_for_tokens`.

    attention_bytes, state_bytes: sizes of the pools. block_size: tokens, before any alignment.
    """

    plan: Plan
    designed_for_tokens: int
    block_size: int
    attention_bytes: int
    state_bytes: int

    def requests_that_fit(self, prompt_tokens: int) -> int:
        """Return the requests of this length that both pools hold at once."""
        needed = request_bytes(self.plan, self.block_size, prompt_tokens)
        pools = zip((self.attention_bytes, self.state_bytes), needed, strict=True)
        return min((pool // bytes_ for pool, bytes_ in pools if bytes_), default=0)


def separate_pools(plan: Plan, designed_for_tokens: int) -> SeparatePools | None:
    """Return the memory of a hybrid, split for prompts of one length; None while it is unknown."""
    cache = plan.cache
    memory = None if cache is None else cache.available_bytes
    if not plan.is_hybrid or memory is None or memory <= 0:
        return None
    # The block that phase 1 chose, before phase 2 made the pages equal.
    chosen = [step.result for step in plan.steps if step.rule.name in PHASE_1]
    block_size = int(chosen[-1]) if chosen else plan.settings.block_size or plan.block_size
    attention, states = request_bytes(plan, block_size, designed_for_tokens)
    for_attention = memory * attention // (attention + states)
    return SeparatePools(
        plan, designed_for_tokens, block_size, for_attention, memory - for_attention
    )


def request_bytes(plan: Plan, block_size: int, prompt_tokens: int) -> tuple[int, int]:
    """Return the unpadded bytes of one request in each pool. Errors: as `check_prompt`."""
    check_prompt(plan, prompt_tokens)
    attention = states = 0
    for group in plan.built_cache().groups:
        blocks = request_blocks(plan, group, prompt_tokens)
        for spec, layers in Counter(group.layer_specs).items():
            if spec.is_mamba:
                states += blocks * spec.content_bytes * layers
                continue
            held = tokens_on_rank(spec, prompt_tokens, blocks)
            # In blocks that no state has enlarged, and without padding.
            attention += cdiv(held, block_size) * block_size * spec.token_bytes * layers
    return attention, states


def shared_and_separate(
    plan: Plan, cache: CachePlan, pools: SeparatePools, prompt_tokens: int
) -> tuple[int, int]:
    """Return the requests of one length that fit into the shared and into separate pools."""
    shared = requests_that_fit(plan, cache, prompt_tokens) or 0
    return shared, pools.requests_that_fit(prompt_tokens)
