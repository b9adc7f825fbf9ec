"""What requests of a given length really take: true capacity, and where the bytes go."""

from dataclasses import dataclass

from workbench.core.arithmetic import cdiv
from workbench.core.capacity.blocks import checkpoint_blocks, tokens_in_flight
from workbench.core.capacity.cache_plan import CachePlan
from workbench.core.errors import check_integer
from workbench.core.groups.cache_spec import RING_SPEC, CacheSpec
from workbench.core.groups.grouping import Group
from workbench.core.plan import Plan

NULL_BLOCKS = 1
USUAL_LENGTH = 32_768
"""Tokens of a request while `max_model_len` is not set, at most the model's longest."""
PARTS = (
    *("used", "internal fragmentation", "mamba padding", "empty slots"),
    *("checkpoint", "speculative blocks", "attention padding"),
)


@dataclass(frozen=True)
class Waste:
    """Use of the bytes reserved for one request of `prompt_tokens`; the parts add up exactly."""

    prompt_tokens: int
    reserved_bytes: int
    parts: dict[str, int]
    """Bytes by name. "used" are keys, values and the running state. The rest is overhead: unused
    tokens of the last block, padding of mamba pages and of attention pages, room of a block that no
    layer of the group fills ("empty slots"), checkpoints of align mode, blocks of draft tokens."""

    @property
    def used_bytes(self) -> int:
        """Return the bytes of keys, values and the running state."""
        return self.parts["used"]


def usual_length(plan: Plan) -> int:
    """Return the length of the requests that are counted: the explicit one, or the usual one."""
    explicit = plan.settings.max_model_len
    return plan.max_model_len if explicit else min(USUAL_LENGTH, plan.max_model_len)


def check_prompt(plan: Plan, prompt_tokens: int) -> None:
    """Refuse what is not a length of a prompt: ScenarioError with the nearest that is."""
    check_integer("prompt_tokens", prompt_tokens, 1, plan.max_model_len, "max_model_len")


def request_blocks(plan: Plan, group: Group, prompt_tokens: int) -> int:
    """Return the block ids that a request of `prompt_tokens` tokens takes in one group."""
    size, window = group.spec.block_size, group.spec.window_tokens
    if group.spec.kind == RING_SPEC:
        return 1
    if not group.spec.is_mamba:
        if window is None:
            return cdiv(prompt_tokens, group.spec.span_tokens)
        # The most that a window takes at once, which is during the prefill.
        # One block more, since a window may begin inside of one.
        return cdiv(min(prompt_tokens, window - 1 + tokens_in_flight(plan) + size), size)
    drafts = plan.settings.num_speculative_tokens
    if plan.mamba_cache_mode == "all":
        return cdiv(prompt_tokens, size) + drafts
    if plan.mamba_cache_mode != "align" or prompt_tokens <= size:
        # Before the first block is full there is no earlier state to keep.
        return 1 + drafts
    return 2 + checkpoint_blocks(plan, group.spec) + drafts


def tokens_on_rank(spec: CacheSpec, tokens: int, blocks: int) -> int:
    """Return the most of a request's tokens that so many blocks hold on one rank."""
    return min(cdiv(tokens, spec.context_ranks), blocks * spec.block_size)


def blocks_for_prompt(plan: Plan, cache: CachePlan, prompt_tokens: int) -> int:
    """Return the block ids of one request over all groups. Errors: as `check_prompt`."""
    check_prompt(plan, prompt_tokens)
    return sum(request_blocks(plan, group, prompt_tokens) for group in cache.groups)


def requests_that_fit(plan: Plan, cache: CachePlan, prompt_tokens: int) -> int | None:
    """Return how many requests of `prompt_tokens` the pool holds, without the null block."""
    if cache.num_blocks is None:
        return None
    # BlockPool never hands out block 0.
    return max(0, cache.num_blocks - NULL_BLOCKS) // blocks_for_prompt(plan, cache, prompt_tokens)


def waste(plan: Plan, cache: CachePlan, prompt_tokens: int) -> Waste:
    """Return where the bytes go that one request reserves. Errors: as `check_prompt`."""
    check_prompt(plan, prompt_tokens)
    drafts, one_block = plan.settings.num_speculative_tokens, cache.grouping.bytes_per_block
    parts, reserved = dict.fromkeys(PARTS, 0), 0
    for group in cache.groups:
        blocks = request_blocks(plan, group, prompt_tokens)
        reserved += blocks * one_block
        parts["empty slots"] += (one_block - group.layers_bytes) * blocks
        for spec, layers in group.layers_by_spec:
            own, padding = spec.content_bytes * layers, spec.padding_bytes * blocks * layers
            if not spec.is_mamba:
                filled = tokens_on_rank(spec, prompt_tokens, blocks) * spec.token_bytes * layers
                parts["used"] += filled
                parts["internal fragmentation"] += blocks * own - filled
                parts["attention padding"] += padding
                continue
            states = blocks - drafts
            # Of all states only the last one is still written to.
            kept_for_reuse = states - 1 if plan.mamba_cache_mode in {"align", "all"} else 0
            parts["used"] += own * (states - kept_for_reuse)
            parts["checkpoint"] += own * kept_for_reuse
            parts["speculative blocks"] += own * drafts
            parts["mamba padding"] += padding
    return Waste(prompt_tokens, reserved, parts)


def pool_use(
    plan: Plan, cache: CachePlan, prompt_tokens: int, rank: int | None = None
) -> dict[str, int] | None:
    """Return bytes by name of a rank's pool, full of requests of a length; they add up exactly.

    None while its size is unknown or there is no block. Parts are those of `Waste`, for all
    requests together, and "null block", "idle blocks" (too few for one more request), "rank
    imbalance" (blocks that another rank has no room for) and "remainder" (too small for one more
    block). rank: whose memory it is; without it the one that has most. Errors: ScenarioError for no
    length of a prompt, and for a rank that does not exist.
    """
    ranks, num_blocks = cache.rank_bytes, cache.num_blocks
    if not ranks or not num_blocks:
        return None
    if rank is None:
        # The one with most memory shows what an uneven split wastes.
        rank = ranks.index(max(ranks))
    check_integer("rank", rank, 0, len(ranks) - 1, "the last with a memory size")
    available, per_block = ranks[rank], cache.grouping.bytes_per_block
    taken_by_one = blocks_for_prompt(plan, cache, prompt_tokens)
    requests = requests_that_fit(plan, cache, prompt_tokens) or 0
    of_one = waste(plan, cache, prompt_tokens).parts
    room = available // per_block if per_block else num_blocks
    return {
        **{name: size * requests for name, size in of_one.items()},
        "null block": NULL_BLOCKS * per_block,
        "idle blocks": (num_blocks - NULL_BLOCKS - requests * taken_by_one) * per_block,
        "rank imbalance": (room - num_blocks) * per_block,
        "remainder": available - room * per_block,
    }
