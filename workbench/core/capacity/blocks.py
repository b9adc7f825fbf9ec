"""How many blocks there are, how many a request takes, and what follows.

Source: `get_max_concurrency_for_kv_cache_config`, `check_enough_kv_cache_memory`,
`estimate_max_model_len`, `resolve_kv_cache_block_sizes` and `max_memory_usage_bytes` of the specs,
0.23; what 0.33 counts otherwise is `GroupRules`.
"""

from __future__ import annotations

from dataclasses import dataclass

from workbench.core.arithmetic import cdiv, choose, gcd, lcm, smaller
from workbench.core.block_sizes import common_kernel_block
from workbench.core.capacity.memory_budget import memory_budget
from workbench.core.equality import different
from workbench.core.gdn_prefill import flashinfer_prefill
from workbench.core.groups.cache_spec import ATTENTION_SPECS, HIDDEN_SPEC, SLIDING_KINDS, CacheSpec
from workbench.core.groups.decision import NoSingleTypeError, PagesNotUnifiableError
from workbench.core.groups.grouping import Group, Grouping, Placement, Tensor
from workbench.core.groups.layer_backend import read_blocks
from workbench.core.groups.layer_tuples import layers_a_page
from workbench.core.model import CHUNKED
from workbench.core.settings import Settings
from workbench.core.sized import Sized, method_of

NOT_OVERLAPPED = "cpu"
"""The platform that switches asynchronous scheduling off: a step ends before the next begins."""
STATES_PER_REQUEST = {"none": 1, "align": 2}
"""Cache mode -> blocks that one request holds in a mamba group, without drafts."""


@dataclass(frozen=True)
class CachePlan:
    """The KV cache that is built from a plan.

    available_bytes: memory for it on the rank that has least, None when unknown; rank_bytes: of
    every rank, one entry where all have the same. num_blocks counts the null block too.
    blocks_per_request: ids that one request of `max_model_len` tokens takes, over all groups;
    printed_blocks: what vLLM divides by when it prints its concurrency. needed_bytes: what one
    request of full length needs; held_back_bytes: what the check omits of the memory.
    """

    grouping: Grouping
    kernel_block_sizes: tuple[int | None, ...]
    available_bytes: int | None
    num_blocks: int | None
    blocks_per_request: int
    max_model_len: int
    scheduler_block_size: int
    hash_block_size: int
    needed_bytes: int
    printed_blocks: int
    held_back_bytes: int = 0
    rank_bytes: tuple[int, ...] = ()

    @property
    def groups(self) -> tuple[Group, ...]:
        """Return the groups."""
        return self.grouping.groups

    @property
    def tensors(self) -> tuple[Tensor, ...] | None:
        """Return the allocations, None while the memory is unknown."""
        return None if self.num_blocks is None else self.grouping.tensors(self.num_blocks)

    @property
    def placements(self) -> tuple[Placement, ...] | None:
        """Return where every layer is in the one allocation; None while the memory is unknown.

        Nothing in versions with one tensor per slot.
        """
        return None if self.num_blocks is None else self.grouping.placements(self.num_blocks)

    def blocks_or(self, sample: int) -> int:
        """Return num_blocks, or a sample where it is unknown; a pool without a block stays one."""
        return sample if self.num_blocks is None else self.num_blocks

    @property
    def checked_bytes(self) -> int | None:
        """Return the memory that one request of full length must fit into; less stops the start."""
        return None if self.available_bytes is None else self.available_bytes - self.held_back_bytes

    @property
    def max_concurrency(self) -> float | None:
        """Return the requests of full length that fit, as vLLM prints it, null block included."""
        if self.num_blocks is None or not self.printed_blocks:
            return None
        return self.num_blocks / self.printed_blocks

    @property
    def printed_tokens(self) -> int | None:
        """Return the tokens in "GPU KV cache size": concurrency times the longest request."""
        return (
            None if self.max_concurrency is None else int(self.max_concurrency * self.max_model_len)
        )


def cache_plan(sized: Sized) -> CachePlan | None:
    """Return groups, blocks and capacity of a resolved model; None when no groups can be built."""
    try:
        grouping = sized.grouping
    except (PagesNotUnifiableError, NoSingleTypeError):
        return None
    ranks = rank_bytes(sized, grouping)
    available = min(ranks, default=None)
    length = sized.max_model_len
    request = blocks_by_group(sized, grouping, length)
    scheduler = scheduler_block_size(sized, grouping)
    return CachePlan(
        grouping=grouping,
        kernel_block_sizes=tuple(
            _kernel_block(sized, grouping, group) for group in grouping.groups
        ),
        available_bytes=available,
        num_blocks=None if available is None else _num_blocks(available, grouping),
        blocks_per_request=sum(request),
        max_model_len=length,
        scheduler_block_size=scheduler,
        hash_block_size=hash_block_size(sized, grouping, scheduler),
        needed_bytes=bytes_of_blocks(sized, grouping, sum(request)),
        printed_blocks=blocks_as_printed(sized, grouping, request),
        held_back_bytes=held_back_bytes(sized, grouping),
        rank_bytes=ranks,
    )


def rank_bytes(sized: Sized, grouping: Grouping) -> tuple[int, ...]:
    """Return the cache bytes of every rank, one entry if all are equal; empty while unknown.

    An override of the number of blocks replaces what the ranks measured, and this the explicit
    bytes.
    """
    settings = sized.settings
    if settings.num_gpu_blocks_override is not None:
        return (settings.num_gpu_blocks_override * grouping.bytes_per_block,)
    if settings.kv_cache_memory_bytes_by_rank:
        return settings.kv_cache_memory_bytes_by_rank
    measured = measured_bytes(settings)
    return () if measured is None else (measured,)


def measured_bytes(settings: Settings) -> int | None:
    """Return the least bytes of a rank without an override: measured, explicit or by the budget."""
    if settings.kv_cache_memory_bytes_by_rank:
        return min(settings.kv_cache_memory_bytes_by_rank)
    if settings.kv_cache_memory_bytes is not None:
        return settings.kv_cache_memory_bytes
    budget = memory_budget(settings)
    return None if budget is None else budget.available_bytes


def held_back_bytes(sized: Sized, grouping: Grouping) -> int:
    """Return what the memory check omits: the null block, in versions that count it."""
    return grouping.bytes_per_block if sized.rules.groups.counts_null_block else 0


def _num_blocks(available: int, grouping: Grouping) -> int:
    if not grouping.groups:
        return 1
    return max(available, 0) // grouping.bytes_per_block


def blocks_of_group(sized: Sized, spec: CacheSpec, length: int) -> int:
    """Return the most blocks that a request of `length` tokens takes in a group of this spec."""
    if spec.is_mamba:
        drafts = sized.settings.num_speculative_tokens
        states = STATES_PER_REQUEST.get(sized.mamba_cache_mode)
        if states is None:
            return cdiv(length, spec.block_size) + drafts
        return states + drafts + checkpoint_blocks(sized)
    budget, window = tokens_in_flight(sized), spec.window_tokens
    if spec.kind in SLIDING_KINDS and window is not None:
        return cdiv(smaller(window - 1 + budget, length), spec.block_size) + 1
    if spec.kind == ATTENTION_SPECS[CHUNKED] and window is not None:
        return cdiv(smaller(window + budget, length), spec.block_size)
    return cdiv(length, spec.block_size)


def tokens_in_flight(sized: Sized) -> int:
    """Return the tokens of unfinished steps, which a window must hold in addition to its own.

    Source: VllmConfig.max_in_flight_tokens and CpuPlatform.check_and_update_config, 0.33.
    """
    method = method_of(sized)
    alone = sized.settings.platform == NOT_OVERLAPPED or (method and not method.overlaps_steps)
    return sized.max_num_batched_tokens * (1 if alone else sized.rules.groups.batches_in_flight)


def checkpoint_blocks(sized: Sized) -> int:
    """Return the blocks of a request for checkpoints inside a prefill: align mode from 0.33 on.

    Mamba-2 always has one, gated delta nets where FlashInfer runs their prefill.
    """
    state = sized.model.state
    if state is None or sized.mamba_cache_mode != "align":
        return 0
    known = sized.rules.groups.checkpoint_blocks
    kind = f"{state.kind}:flashinfer" if flashinfer_prefill(sized) else state.kind
    return known.get(kind, 0)


def blocks_in_group(sized: Sized, group: Group, length: int) -> int:
    """Return the most block ids that a request of `length` tokens needs in a layer of the group."""
    if not group.has_own_specs:
        return blocks_of_group(sized, group.spec, length)
    return max(blocks_of_group(sized, spec, length) for spec in group.different_specs)


def blocks_by_group(sized: Sized, grouping: Grouping, length: int) -> tuple[int, ...]:
    """Return the block ids of one request of `length` tokens in every group."""
    return tuple(blocks_in_group(sized, group, length) for group in grouping.groups)


def blocks_per_request(sized: Sized, grouping: Grouping, length: int) -> int:
    """Return the block ids of one request of `length` tokens, over all groups."""
    return sum(blocks_by_group(sized, grouping, length))


def needed_bytes(sized: Sized, grouping: Grouping, length: int) -> int:
    """Return the bytes that one request of `length` tokens needs; with less vLLM does not start."""
    return bytes_of_blocks(sized, grouping, blocks_per_request(sized, grouping, length))


def bytes_of_blocks(sized: Sized, grouping: Grouping, blocks: int) -> int:
    """Return the bytes that a request with so many block ids takes.

    Groups of layer tuples (0.23) reserve the tuples of the largest group, whatever a slot holds.
    """
    groups = grouping.groups
    tuples = len(groups) > 1 and all(group.has_own_specs for group in groups)
    if sized.rules.groups.one_allocation or not tuples:
        return grouping.bytes_per_block * blocks
    named = [dict(zip(group.layers, group.own_specs, strict=True)) for group in groups]
    one_tuple = sum(different(spec.page_size_bytes for spec in groups[0].own_specs))
    return max(map(layers_a_page, named)) * one_tuple * blocks


def printed_blocks(sized: Sized, grouping: Grouping, length: int) -> int:
    """Return what the printed concurrency divides by, for requests of `length` tokens."""
    return blocks_as_printed(sized, grouping, blocks_by_group(sized, grouping, length))


def blocks_as_printed(sized: Sized, grouping: Grouping, request: tuple[int, ...]) -> int:
    """Return all bytes of a request, its blocks by group, in pages of the first group.

    0.33 counts the blocks of every group in pages of its own.
    """
    if sized.rules.groups.one_allocation or not grouping.groups:
        return sum(request)
    taken = sum(
        blocks * group.page_size_bytes
        for blocks, group in zip(request, grouping.groups, strict=True)
    )
    return cdiv(taken, grouping.groups[0].page_size_bytes)


def longest_request(sized: Sized, grouping: Grouping, available: int) -> int:
    """Return the longest request, up to `max_model_len`, that fits `available` bytes, or 0."""
    usable = available - held_back_bytes(sized, grouping)
    low, high = 0, sized.max_model_len
    while low < high:
        middle = (low + high + 1) // 2
        fits = needed_bytes(sized, grouping, middle) <= usable
        low, high = choose(fits, middle, low), choose(fits, high, middle - 1)
    return low


def scheduler_block_size(sized: Sized, grouping: Grouping) -> int:
    """Return the scheduler's unit: the configured block of a single group, else the LCM."""
    if len(grouping.groups) <= 1:
        return sized.block_size
    return lcm(*(group.spec.block_size for group in grouping.groups))


def hash_block_size(sized: Sized, grouping: Grouping, scheduler: int) -> int:
    """Return the unit of prefix hashes: the common divisor if allowed, else the scheduler's."""
    if not hashes_may_be_finer(sized, grouping, in_use=sized.prefix_caching):
        return scheduler
    return gcd(*(group.spec.block_size for group in grouping.groups))


def hashes_may_be_finer(sized: Sized, grouping: Grouping, *, in_use: bool) -> bool:
    """Return whether hashes may have a unit below the scheduler's.

    Not for a single group, not while nothing uses them, and not when a mamba group has another
    block than the attention.
    """
    if len(grouping.groups) <= 1 or not in_use:
        return False
    return not any(
        group.spec.is_mamba and group.spec.block_size != sized.block_size
        for group in grouping.groups
    )


def _kernel_block(sized: Sized, grouping: Grouping, group: Group) -> int | None:
    """Return the kernel block; for states and pages side by side it is the manager block."""
    if group.spec.is_mamba or group.spec.kind == HIDDEN_SPEC or grouping.is_block_outermost:
        return group.spec.block_size
    return common_kernel_block(read_blocks(sized, group.different_specs), group.spec.block_size)
