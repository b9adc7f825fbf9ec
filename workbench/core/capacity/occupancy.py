"""What requests of a given length really take: true capacity, and where the bytes go."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.core.arithmetic import cdiv
from workbench.core.capacity.blocks import checkpoint_blocks, tokens_in_flight
from workbench.core.capacity.cache_plan import CachePlan
from workbench.core.errors import ScenarioError
from workbench.core.groups.grouping import Group
from workbench.core.plan import Plan

NULL_BLOCKS = 1
USUAL_PROMPT_TOKENS = 4096


@dataclass(frozen=True)
class Waste:
    """Use of the bytes reserved for one request of `prompt_tokens`; the parts add up exactly.

    Overhead: unfilled tokens of the last block, padding of mamba pages and of attention pages, room
    of a block that no layer of the group fills, checkpoints of align mode, blocks of draft tokens.
    """

    prompt_tokens: int
    reserved_bytes: int
    used_bytes: int
    """Keys, values and the running state; everything below is overhead."""
    unfilled_tokens_bytes: int
    mamba_padding_bytes: int
    empty_slots_bytes: int
    checkpoint_bytes: int
    draft_bytes: int
    attention_padding_bytes: int = 0

    @property
    def parts(self) -> dict[str, int]:
        """Return every part by name; they add up to `reserved_bytes`."""
        return {
            "used": self.used_bytes,
            "unfilled tokens": self.unfilled_tokens_bytes,
            "mamba padding": self.mamba_padding_bytes,
            "empty slots": self.empty_slots_bytes,
            "checkpoint": self.checkpoint_bytes,
            "draft blocks": self.draft_bytes,
            "attention padding": self.attention_padding_bytes,
        }


def usual_prompt(plan: Plan) -> int:
    """Return the prompt length that is shown while none is set explicitly, in tokens."""
    return min(USUAL_PROMPT_TOKENS, plan.max_model_len)


def check_prompt(plan: Plan, prompt_tokens: int) -> None:
    """Refuse what is not a length of a prompt: ScenarioError with the nearest that is."""
    if isinstance(prompt_tokens, int) and 1 <= prompt_tokens <= plan.max_model_len:
        return
    nearest = 1
    if isinstance(prompt_tokens, int | float) and prompt_tokens > 1:
        nearest = int(min(prompt_tokens, plan.max_model_len))
    raise ScenarioError(
        "out_of_range",
        f"Invalid prompt length {str(prompt_tokens)[:40]!r}. Expected an integer from 1 to "
        f"max_model_len ({plan.max_model_len:,}). Nearest valid value: {nearest}.",
        field="prompt_tokens",
    )


def request_blocks(plan: Plan, group: Group, prompt_tokens: int) -> int:
    """Return the block ids that a request of `prompt_tokens` tokens takes in one group.

    For a sliding window the most that it takes at once, which is during its prefill.
    """
    if not group.spec.is_mamba:
        length = prompt_tokens
        if group.spec.window_tokens is not None:
            reach = group.spec.window_tokens - 1 + tokens_in_flight(plan)
            length = min(prompt_tokens, reach + group.spec.block_size)
        return cdiv(length, group.spec.block_size)
    drafts = plan.settings.num_speculative_tokens
    if plan.mamba_cache_mode == "all":
        return cdiv(prompt_tokens, group.spec.block_size) + drafts
    if plan.mamba_cache_mode != "align" or prompt_tokens <= group.spec.block_size:
        return 1 + drafts
    return 2 + checkpoint_blocks(plan) + drafts


def blocks_for_prompt(plan: Plan, cache: CachePlan, prompt_tokens: int) -> int:
    """Return the block ids of one request over all groups.

    Errors: ScenarioError for no length of a prompt.
    """
    check_prompt(plan, prompt_tokens)
    return sum(request_blocks(plan, group, prompt_tokens) for group in cache.groups)


def requests_that_fit(plan: Plan, cache: CachePlan, prompt_tokens: int) -> int | None:
    """Return how many requests of `prompt_tokens` the pool holds, without the null block."""
    if cache.num_blocks is None:
        return None
    return max(0, cache.num_blocks - NULL_BLOCKS) // blocks_for_prompt(plan, cache, prompt_tokens)


def waste(plan: Plan, cache: CachePlan, prompt_tokens: int) -> Waste:
    """Return the decomposition of the bytes that one request reserves.

    Errors: as `blocks_for_prompt`.
    """
    check_prompt(plan, prompt_tokens)
    drafts = plan.settings.num_speculative_tokens
    used = unfilled = padding = empty = checkpoint = draft = attention_padding = reserved = 0
    for group in cache.groups:
        blocks = request_blocks(plan, group, prompt_tokens)
        reserved += blocks * cache.grouping.bytes_per_block
        empty += (cache.grouping.bytes_per_block - group.layers_bytes) * blocks
        for spec, layers in group.layers_by_spec:
            own, padded = spec.content_bytes, spec.padding_bytes * blocks * layers
            if not spec.is_mamba:
                filled = min(prompt_tokens, blocks * spec.block_size) * spec.token_bytes
                used += filled * layers
                unfilled += (blocks * own - filled) * layers
                attention_padding += padded
                continue
            states = blocks - drafts
            kept_for_reuse = states - 1 if plan.mamba_cache_mode in {"align", "all"} else 0
            used += own * (states - kept_for_reuse) * layers
            checkpoint += own * kept_for_reuse * layers
            draft += own * drafts * layers
            padding += padded
    return Waste(
        prompt_tokens=prompt_tokens,
        reserved_bytes=reserved,
        used_bytes=used,
        unfilled_tokens_bytes=unfilled,
        mamba_padding_bytes=padding,
        empty_slots_bytes=empty,
        checkpoint_bytes=checkpoint,
        draft_bytes=draft,
        attention_padding_bytes=attention_padding,
    )
