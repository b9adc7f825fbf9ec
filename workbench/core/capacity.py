"""How many blocks there are, how many a request takes, and what follows (0.23).

Source: `get_max_concurrency_for_kv_cache_config`, `check_enough_kv_cache_memory`,
`estimate_max_model_len`, `resolve_kv_cache_block_sizes` and `max_memory_usage_bytes` of the specs.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, lcm

from workbench.core.arithmetic import cdiv
from workbench.core.block_sizes import common_kernel_block
from workbench.core.groups import Group, Grouping, PagesNotUnifiableError, Tensor, grouping_of
from workbench.core.layer_specs import ATTENTION_SPECS, CacheSpec
from workbench.core.memory_budget import memory_budget
from workbench.core.model import CHUNKED, SLIDING
from workbench.core.settings import Settings
from workbench.core.sized import Sized

STATES_PER_REQUEST = {"none": 1, "align": 2}
"""Cache mode -> blocks that one request holds in a mamba group, without drafts."""


@dataclass(frozen=True)
class CachePlan:
    """The KV cache that is built from a plan.

    available_bytes: memory for it, None when unknown; num_blocks counts the null block too.
    blocks_per_request: ids that one request of `max_model_len` tokens takes, over all groups.
    """

    grouping: Grouping
    kernel_block_sizes: tuple[int | None, ...]
    available_bytes: int | None
    num_blocks: int | None
    blocks_per_request: int
    max_model_len: int
    scheduler_block_size: int
    hash_block_size: int

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups."""
        return self.grouping.groups

    @property
    def tensors(self) -> tuple[Tensor, ...] | None:
        """The allocations, None while the memory is unknown."""
        return None if self.num_blocks is None else self.grouping.tensors(self.num_blocks)

    def blocks_or(self, sample: int) -> int:
        """num_blocks, or a sample where it is unknown; a pool without a block stays one."""
        return sample if self.num_blocks is None else self.num_blocks

    @property
    def max_concurrency(self) -> float | None:
        """Requests of full length that fit, as vLLM prints it (it counts the null block)."""
        if self.num_blocks is None or not self.blocks_per_request:
            return None
        return self.num_blocks / self.blocks_per_request

    @property
    def printed_tokens(self) -> int | None:
        """Tokens in the line "GPU KV cache size": concurrency times the longest request."""
        return (
            None if self.max_concurrency is None else int(self.max_concurrency * self.max_model_len)
        )

    @property
    def needed_bytes(self) -> int:
        """What one request of full length needs; less is refused at start."""
        return self.grouping.bytes_per_block * self.blocks_per_request


def cache_plan(sized: Sized) -> CachePlan | None:
    """Groups, blocks and capacity of a resolved model; None when the pages cannot be unified."""
    try:
        grouping = grouping_of(sized)
    except PagesNotUnifiableError:
        return None
    available = available_bytes(sized, grouping)
    length = sized.max_model_len
    scheduler = scheduler_block_size(sized, grouping)
    return CachePlan(
        grouping=grouping,
        kernel_block_sizes=tuple(_kernel_block(sized, group) for group in grouping.groups),
        available_bytes=available,
        num_blocks=None if available is None else _num_blocks(available, grouping),
        blocks_per_request=blocks_per_request(sized, grouping, length),
        max_model_len=length,
        scheduler_block_size=scheduler,
        hash_block_size=hash_block_size(sized, grouping, scheduler),
    )


def available_bytes(sized: Sized, grouping: Grouping) -> int | None:
    """Bytes for the cache; None while nothing tells.

    An override of the number of blocks replaces the typed bytes, and these replace the budget.
    """
    if sized.settings.num_gpu_blocks_override is not None:
        return sized.settings.num_gpu_blocks_override * grouping.bytes_per_block
    return measured_bytes(sized.settings)


def measured_bytes(settings: Settings) -> int | None:
    """Bytes for the cache without any override: typed, or what the budget leaves."""
    if settings.kv_cache_memory_bytes is not None:
        return settings.kv_cache_memory_bytes
    budget = memory_budget(settings)
    return None if budget is None else budget.available_bytes


def _num_blocks(available: int, grouping: Grouping) -> int:
    if not grouping.groups:
        return 1
    return max(available, 0) // grouping.page_size_bytes // grouping.group_size


def blocks_of_group(sized: Sized, spec: CacheSpec, length: int) -> int:
    """Blocks that one request of `length` tokens takes in a group with this spec, at most."""
    if spec.is_mamba:
        drafts = sized.settings.num_speculative_tokens
        states = STATES_PER_REQUEST.get(sized.mamba_cache_mode)
        return (cdiv(length, spec.block_size) if states is None else states) + drafts
    budget, window = sized.max_num_batched_tokens, spec.window_tokens
    if spec.kind == ATTENTION_SPECS[SLIDING] and window is not None:
        return cdiv(min(window - 1 + budget, length), spec.block_size) + 1
    if spec.kind == ATTENTION_SPECS[CHUNKED] and window is not None:
        return cdiv(min(window + budget, length), spec.block_size)
    return cdiv(length, spec.block_size)


def blocks_per_request(sized: Sized, grouping: Grouping, length: int) -> int:
    """Block ids of one request of `length` tokens, over all groups."""
    return sum(blocks_of_group(sized, group.spec, length) for group in grouping.groups)


def longest_request(sized: Sized, grouping: Grouping, available: int) -> int:
    """The longest request, up to `max_model_len`, that `available` bytes can serve; 0 for none."""
    low, high = 0, sized.max_model_len
    while low < high:
        middle = (low + high + 1) // 2
        needed = grouping.bytes_per_block * blocks_per_request(sized, grouping, middle)
        if needed <= available:
            low = middle
        else:
            high = middle - 1
    return low


def scheduler_block_size(sized: Sized, grouping: Grouping) -> int:
    """The unit in which the scheduler counts: one group, its configured block; else the LCM."""
    if len(grouping.groups) <= 1:
        return sized.block_size
    return lcm(*(group.spec.block_size for group in grouping.groups))


def hash_block_size(sized: Sized, grouping: Grouping, scheduler: int) -> int:
    """The unit of prefix hashes: the scheduler's, or where it may be finer, the common divisor."""
    if not hashes_may_be_finer(sized, grouping, in_use=sized.prefix_caching):
        return scheduler
    return gcd(*(group.spec.block_size for group in grouping.groups))


def hashes_may_be_finer(sized: Sized, grouping: Grouping, *, in_use: bool) -> bool:
    """Whether hashes may have a unit below the scheduler's.

    Not for a single group, not while nothing uses them, and not when a mamba group has another
    block than the attention.
    """
    if len(grouping.groups) <= 1 or not in_use:
        return False
    return not any(
        group.spec.is_mamba and group.spec.block_size != sized.block_size
        for group in grouping.groups
    )


def _kernel_block(sized: Sized, group: Group) -> int | None:
    if group.spec.is_mamba:
        return group.spec.block_size
    return common_kernel_block((sized.supported,), group.spec.block_size)
