"""The units of an offload: blocks over all ranks, the scheduler's block, and the hash block.

Source: `resolve_kv_cache_block_sizes` of 0.23 and 0.33; what differs is `OffloadRules`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, lcm

from workbench.core.capacity.blocks import hashes_may_be_finer, scheduler_block_size
from workbench.core.groups.cache_spec import CacheSpec
from workbench.core.offload.checks import (
    context_parallel_problem,
    hash_size_problem,
    single_group_problem,
)
from workbench.core.offload.request import OffloadRequest
from workbench.core.plan import Plan
from workbench.core.problems import Problem


@dataclass(frozen=True, slots=True)
class BlockSizes:
    """The units of the scheduler and of prefix hashes, in tokens."""

    scheduler: int
    hash: int


def block_over_ranks(plan: Plan, spec: CacheSpec, request: OffloadRequest) -> int:
    """Return the tokens of one block over all context-parallel ranks.

    0.33 does not spread states.
    """
    if not plan.rules.offload.context_parallel_with_groups:
        return spec.block_size * request.context_parallel
    return spec.block_size * (1 if spec.is_mamba else request.decode_context_parallel)


def resolved_block_sizes(
    plan: Plan, request: OffloadRequest, connector: bool = True
) -> BlockSizes | Problem:
    """Return the scheduler and hash block size as `resolve_kv_cache_block_sizes` finds them.

    connector: hashes are in use even without prefix caching. One group (or none) counts by the
    configured block size, times the context-parallel ranks.
    """
    if plan.rules.offload.context_parallel_with_groups:
        return _units_by_group(plan, request, in_use=plan.enable_prefix_caching or connector)
    grouping = plan.built_cache().grouping
    groups, scheduler = grouping.groups, scheduler_block_size(plan, grouping)
    if len(groups) <= 1:
        size = scheduler * request.context_parallel
        return BlockSizes(size, size)
    if request.context_parallel != 1:
        return context_parallel_problem(
            request.decode_context_parallel, request.prefill_context_parallel, len(groups)
        )
    if not hashes_may_be_finer(plan, grouping, in_use=plan.enable_prefix_caching or connector):
        return BlockSizes(scheduler, scheduler)
    sizes = [group.spec.block_size for group in groups]
    hashes = request.hash_block_size or gcd(*sizes)
    if any(size % hashes for size in sizes):
        return hash_size_problem(hashes, sizes, plan.rules.offload)
    return BlockSizes(scheduler, hashes)


def _units_by_group(plan: Plan, request: OffloadRequest, *, in_use: bool) -> BlockSizes | Problem:
    """Return the units of 0.33: a block per group over the ranks; align mode may hash finer.

    All groups of the models known here can be found again by their hashes.
    """
    groups, explicit = plan.built_cache().groups, request.hash_block_size
    if len(groups) <= 1:
        spread = not groups or not groups[0].spec.is_mamba
        size = plan.block_size * (request.decode_context_parallel if spread else 1)
        if explicit not in {None, size} and groups and in_use:
            assert explicit is not None
            return single_group_problem(explicit, size)
        return BlockSizes(size, size)
    sizes = [block_over_ranks(plan, group.spec, request) for group in groups]
    scheduler = lcm(*sizes)
    has_states = any(group.spec.is_mamba for group in groups)
    if not in_use or (has_states and plan.mamba_cache_mode != "align"):
        return BlockSizes(scheduler, scheduler)
    hashes = explicit or gcd(*sizes)
    if any(size % hashes for size in sizes):
        return hash_size_problem(hashes, sizes, plan.rules.offload)
    return BlockSizes(scheduler, hashes)
