"""How many blocks there are, how many a request takes, and what follows.

Source: `get_max_concurrency_for_kv_cache_config`, `check_enough_kv_cache_memory`,
`estimate_max_model_len`, `resolve_kv_cache_block_sizes` and `max_memory_usage_bytes` of the specs,
0.23; what 0.33 counts otherwise is `GroupRules`.
"""

from __future__ import annotations

from operator import mul
from typing import TYPE_CHECKING

from workbench.core.arithmetic import cdiv
from workbench.core.block_sizes import common_kernel_block
from workbench.core.capacity.cache_plan import CachePlan, largest
from workbench.core.capacity.memory_budget import explicit_bytes, memory_budget
from workbench.core.capacity.memory_estimate import budgets_of
from workbench.core.groups.cache_spec import (
    ATTENTION_SPECS,
    HIDDEN_SPEC,
    RING_SPEC,
    SLIDING_KINDS,
    CacheSpec,
)
from workbench.core.groups.grouping import Group, Grouping
from workbench.core.groups.layer_backend import read_blocks
from workbench.core.groups.pipeline import projected
from workbench.core.groups.several_pages import layers_a_page
from workbench.core.model import CHUNKED
from workbench.core.plan import Plan
from workbench.core.runner import concurrent_batches, lookahead_tokens
from workbench.core.stages.gdn_prefill import flashinfer_prefill, flashkda_prefill
from workbench.core.states import DRAFTED_STATES

if TYPE_CHECKING:
    from workbench.scenario.fields import Settings

STATES_PER_REQUEST = {"none": 1, "align": 2}
"""Cache mode -> blocks that one request holds in a mamba group, without drafts."""


def cache_plan(plan: Plan) -> CachePlan | None:
    """Return groups and what a request takes, of a pool without a size; None without groups.

    Of pipeline stages, that whose block takes most, with all of them in `stages`.
    """
    grouping = plan.grouping
    if grouping is None or not plan.stages:
        return None if grouping is None else _cache_of(plan, grouping)
    stages = [_cache_of(plan, projected(grouping, stage.layers)) for stage in plan.stages]
    return largest(stages)


def _cache_of(plan: Plan, grouping: Grouping) -> CachePlan:
    request = blocks_by_group(plan, grouping, plan.max_model_len)
    scheduler = scheduler_block_size(plan, grouping)
    hashes = plan.enable_prefix_caching or plan.settings.kv_connector is not None
    finer = hashes_may_be_finer(plan, grouping, in_use=hashes)
    return CachePlan(
        grouping=grouping,
        kernel_block_sizes=grouping.of_each(
            [_kernel_block(plan, grouping, group) for group in grouping.examples]
        ),
        blocks_per_request=sum(request),
        max_model_len=plan.max_model_len,
        scheduler_block_size=scheduler,
        hash_block_size=grouping.block_divisor_tokens if finer else scheduler,
        needed_bytes=bytes_of_blocks(plan, grouping, sum(request)),
        printed_blocks=printed_blocks(plan, grouping, request),
        held_back_bytes=held_back_bytes(plan, grouping),
    )


def rank_bytes(plan: Plan, cache: CachePlan) -> tuple[int, ...]:
    """Return the cache bytes of every rank, one entry if all are equal; empty while unknown.

    One entry for each pipeline stage where the ranks of a stage are equal.
    """
    override = plan.settings.num_gpu_blocks_override
    if override is None:
        return given_bytes(plan.settings) or _estimated_bytes(plan)
    # An override replaces what the ranks measured, and that the explicit bytes.
    return tuple(override * one.grouping.bytes_per_block for one in cache.every_stage)


def measured_bytes(settings: Settings) -> int | None:
    """Return the least bytes of a rank without an override: measured, explicit or by the budget."""
    return min(given_bytes(settings), default=None)


def given_bytes(settings: Settings) -> tuple[int, ...]:
    """Return the bytes of the ranks without an override; empty while they are unknown."""
    if explicit := explicit_bytes(settings):
        return explicit
    budget = memory_budget(settings)
    return () if budget is None else (budget.available_bytes,)


def _estimated_bytes(plan: Plan) -> tuple[int, ...]:
    return tuple(one.available_bytes for one in budgets_of(plan))


def held_back_bytes(plan: Plan, grouping: Grouping) -> int:
    """Return what the memory check omits: the null block, in versions that count it."""
    # BlockPool takes block 0 as a placeholder for what is not cached, so no request ever gets it.
    return grouping.bytes_per_block if plan.rules.groups.counts_null_block else 0


def blocks_of_group(plan: Plan, spec: CacheSpec, length: int) -> int:
    """Return the most blocks that a request of `length` tokens takes in a group of this spec."""
    if spec.is_mamba:
        drafts = plan.settings.num_speculative_tokens
        # Align mode holds the last checkpoint and the running state: earlier ones become null
        # blocks (remove_skipped_blocks), and MambaSpec.max_memory_usage_bytes counts two. Mode all
        # keeps one per block.
        states = STATES_PER_REQUEST.get(plan.mamba_cache_mode)
        if states is None:
            return cdiv(length, spec.block_size) + drafts
        return states + drafts + checkpoint_blocks(plan, spec)
    if spec.kind == RING_SPEC:
        return 1
    budget, window = tokens_in_flight(plan), spec.window_tokens
    # A window need not begin at the start of a block: with blocks of 4 tokens, [XXCD][EF] holds a
    # window of 4 in two (SlidingWindowSpec.max_memory_usage_bytes).
    if spec.kind in SLIDING_KINDS and window is not None:
        return cdiv(min(window - 1 + tokens_read_again(plan) + budget, length), spec.block_size) + 1
    if spec.kind == ATTENTION_SPECS[CHUNKED] and window is not None:
        return cdiv(min(window + budget, length), spec.block_size)
    # CrossAttentionSpec.max_memory_usage_bytes, 0.23 and 0.33: what the encoder may read in a step,
    # which is the budget of a step, however long the request is.
    return cdiv(plan.max_num_batched_tokens if spec.reads_encoder else length, spec.span_tokens)


def tokens_read_again(plan: Plan) -> int:
    """Return the tokens before a window that a chain of MTP layers reads once more."""
    # extra_retained_tokens of get_global_kv_cache_groups, 0.33.
    # Such a chain may prefill the last tokens again, so that their window must not be freed yet.
    return lookahead_tokens(plan) - 1 if plan.rules.groups.retains_drafted_tokens else 0


def tokens_in_flight(plan: Plan) -> int:
    """Return the tokens of unfinished steps, which a window must hold in addition to its own."""
    # VllmConfig.max_in_flight_tokens, 0.33.
    # A block that the window has left is freed once its tokens are processed; until then steps
    # under way hold it.
    batches = concurrent_batches(plan) if plan.rules.groups.holds_batches_in_flight else 1
    return plan.max_num_batched_tokens * batches


def checkpoint_blocks(plan: Plan, spec: CacheSpec | None = None) -> int:
    """Return the blocks of a request for checkpoints inside a prefill: align mode from 0.33 on.

    spec: of the group that has them; None for the first one with states.
    """
    state, drafted = plan.model.state, plan.draft_states
    if plan.mamba_cache_mode != "align":
        return 0
    if drafted is not None and (state is None or (spec and spec.stored == DRAFTED_STATES)):
        return plan.rules.groups.checkpoint_blocks.get(drafted.kind, 0)
    if state is None:
        return 0
    # Mamba-2 always has one, others where a kernel that keeps it runs their prefill.
    kernel = ":flashinfer" * flashinfer_prefill(plan) + ":flashkda" * flashkda_prefill(plan)
    return plan.rules.groups.checkpoint_blocks.get(state.kind + kernel, 0)


def blocks_in_group(plan: Plan, group: Group, length: int) -> int:
    """Return the most block ids that a request of `length` tokens needs in a layer of the group."""
    # Layers share one table, so the one that needs most decides for all
    # (UniformTypeKVCacheSpecs.max_memory_usage_bytes).
    return max(blocks_of_group(plan, spec, length) for spec in group.different_specs)


def blocks_by_group(plan: Plan, grouping: Grouping, length: int) -> tuple[int, ...]:
    """Return the block ids of one request of `length` tokens in every group."""
    return grouping.of_each([blocks_in_group(plan, group, length) for group in grouping.examples])


def needed_bytes(plan: Plan, grouping: Grouping, length: int) -> int:
    """Return the bytes that one request of `length` tokens needs; with less vLLM does not start."""
    return bytes_of_blocks(plan, grouping, sum(blocks_by_group(plan, grouping, length)))


def bytes_of_blocks(plan: Plan, grouping: Grouping, blocks: int) -> int:
    """Return the bytes that a request with so many block ids takes."""
    groups = grouping.groups
    if plan.rules.groups.one_allocation or not grouping.has_layer_tuples:
        return grouping.bytes_per_block * blocks
    # Groups of layer tuples (0.23) reserve the tuples of the largest group, whatever a slot holds.
    named = [dict(zip(group.layers, group.own_specs, strict=True)) for group in groups]
    one_tuple = sum({spec.page_size_bytes for spec in groups[0].own_specs})
    return max(map(layers_a_page, named)) * one_tuple * blocks


def printed_blocks(plan: Plan, grouping: Grouping, request: tuple[int, ...]) -> int:
    """Return what the printed concurrency divides by, for a request of these blocks by group."""
    if plan.rules.groups.one_allocation or not grouping.groups:
        # 0.33 counts the blocks of every group in pages of its own.
        return sum(request)
    # 0.23 divides all bytes of a request by the page of the first group alone
    # (get_max_concurrency_for_kv_cache_config).
    pages = grouping.group_pages
    return cdiv(sum(map(mul, request, pages)), pages[0])


def longest_request(plan: Plan, grouping: Grouping, available: int) -> int:
    """Return the longest request, up to `max_model_len`, that fits `available` bytes, or 0."""
    # Only the check and this search subtract the null block: the pool is made of all the memory
    # (get_kv_cache_configs, 0.33).
    usable = available - held_back_bytes(plan, grouping)
    # A longer request never needs less, so that halving finds it; vLLM searches in the same way.
    low, high = 0, plan.max_model_len
    while low < high:
        middle = (low + high + 1) // 2
        if needed_bytes(plan, grouping, middle) <= usable:
            low = middle
        else:
            high = middle - 1
    return low


def scheduler_block_size(plan: Plan, grouping: Grouping) -> int:
    """Return the scheduler's unit: the LCM of the groups' blocks, the block without a group."""
    # EngineCore sets the block to the least of the groups' first, and that is the one of a single
    # group, whatever the block of attention layers would be.
    if grouping.groups:
        return grouping.block_multiple_tokens
    return plan.block_size * plan.settings.decode_context_parallel


def hashes_may_be_finer(plan: Plan, grouping: Grouping, *, in_use: bool) -> bool:
    """Return whether hashes may have a unit below the scheduler's: the common divisor."""
    # resolve_kv_cache_block_sizes: not for a single group, not while nothing uses them, and not
    # when a mamba group has a different block from the attention.
    return (
        in_use
        and len(grouping.groups) > 1
        and not any(
            group.spec.is_mamba and _keeps_hashes(plan, group) for group in grouping.examples
        )
    )


def hit_unit(plan: Plan, grouping: Grouping) -> int:
    """Return what hits are multiples of: the scheduler's block, or the hashes' where states allow.

    Source: `partial_hash_hits_enabled`, 0.33. Ranks that share tokens make the blocks of attention
    span more tokens than states do; elsewhere states have blocks as large as all others.
    """
    # Where hashes are finer, states are in align mode: others keep hashes of whole blocks.
    finer = hashes_may_be_finer(plan, grouping, in_use=plan.enable_prefix_caching)
    if not (finer and plan.rules.prefill.keeps_few_states):
        return scheduler_block_size(plan, grouping)
    specs, unit = [group.spec for group in grouping.examples], grouping.block_divisor_tokens
    spread = any(spec.context_ranks > 1 for spec in specs)
    states = [spec.block_size for spec in specs if spec.is_mamba]
    allowed = any(block > unit or (spread and block == unit) for block in states)
    windows = any(spec.kind in SLIDING_KINDS and spec.span_tokens != unit for spec in specs)
    return unit if allowed and not windows else scheduler_block_size(plan, grouping)


def _keeps_hashes(plan: Plan, group: Group) -> bool:
    """Return whether the states of a group keep hashes as coarse as the scheduler's unit."""
    if plan.rules.groups.hashes_by_mode:
        return plan.mamba_cache_mode != "align"
    return group.spec.block_size != plan.block_size


def _kernel_block(plan: Plan, grouping: Grouping, group: Group) -> int | None:
    """Return the kernel block; for states and pages side by side it is the manager block."""
    if group.spec.is_mamba or group.spec.kind == HIDDEN_SPEC or grouping.is_block_outermost:
        return group.spec.block_size
    return common_kernel_block(read_blocks(plan, group), group.spec.block_size)
