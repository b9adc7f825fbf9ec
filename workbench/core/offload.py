"""Offload to host memory: the checks at start, legal block sizes, and the host pool (0.23).

Source: `OffloadingSpec` (`vllm/v1/kv_offload/base.py`), `CPUOffloadingSpec`
(`vllm/v1/kv_offload/cpu/spec.py`), `resolve_kv_cache_block_sizes` and the connector's
`register_kv_caches` of 0.23; the number of blocks since #38554.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd
from typing import Any

from workbench.core.capacity import CachePlan, hashes_may_be_finer, scheduler_block_size
from workbench.core.errors import WorkbenchError
from workbench.core.offload_checks import (
    block_problem,
    bytes_problem,
    context_parallel_problem,
    hash_problem,
    hash_size_problem,
)
from workbench.core.plan import Plan
from workbench.core.problems import Problem
from workbench.core.remedies import Remedy
from workbench.core.resolve import resolve

LEGAL_SIZES = 8
"""How many offloaded block sizes are listed: every multiple of the GPU block is legal."""


@dataclass(frozen=True, slots=True)
class OffloadRequest:
    """What a person types for the offload connector, and what no scenario has.

    block_size: tokens of an offloaded block (`block_size` in the connector's extra config);
    cpu_bytes_to_use: over all ranks; world_size: ranks, None for the scenario's tensor
    parallelism. decode_context_parallel, prefill_context_parallel, hash_block_size: vLLM's own.
    Errors: ValueError for sizes below 1 (0.23 takes them and fails later, or never).
    """

    block_size: int | None = None
    cpu_bytes_to_use: int | None = None
    world_size: int | None = None
    decode_context_parallel: int = 1
    prefill_context_parallel: int = 1
    hash_block_size: int | None = None

    def __post_init__(self) -> None:
        for name in (
            "block_size",
            "world_size",
            "decode_context_parallel",
            "prefill_context_parallel",
            "hash_block_size",
        ):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1; got {value}.")
        if self.cpu_bytes_to_use is not None and self.cpu_bytes_to_use < 0:
            raise ValueError(f"cpu_bytes_to_use must not be negative; got {self.cpu_bytes_to_use}.")

    @property
    def context_parallel(self) -> int:
        """Ranks over which the tokens of one block are spread."""
        return self.decode_context_parallel * self.prefill_context_parallel


@dataclass(frozen=True, slots=True)
class BlockSizes:
    """The units of the scheduler and of prefix hashes, in tokens."""

    scheduler: int
    hash: int


@dataclass(frozen=True, slots=True)
class Offload:
    """What the offload connector makes of a plan.

    problems: the first check that fails, alone, as vLLM stops there. gpu_block_sizes: per group,
    tokens over all context-parallel ranks. factor: GPU blocks in one offloaded block.
    legal_block_sizes: the first of them, empty where groups differ. bytes_per_cpu_block: of all
    ranks. cpu_blocks: None after a failed check, or when no layer keeps a cache; the memory of
    the GPU plays no part in it.
    """

    problems: tuple[Problem, ...]
    block_sizes: BlockSizes | None
    gpu_block_sizes: tuple[int, ...]
    legal_block_sizes: tuple[int, ...]
    factor: int | None
    bytes_per_cpu_block: int | None
    cpu_blocks: int | None

    @property
    def is_legal(self) -> bool:
        """Whether the engine starts with this connector."""
        return not self.problems


def offload(plan: Plan, request: OffloadRequest | None = None) -> Offload:
    """The checks in vLLM's order, then the sizes. Errors: ValueError when the plan has no cache."""
    request = request or OffloadRequest()
    cache = plan.built_cache()
    sizes = tuple(g.spec.block_size * request.context_parallel for g in cache.groups)
    legal = tuple(sizes[0] * k for k in range(1, LEGAL_SIZES + 1)) if len(set(sizes)) == 1 else ()
    units = resolved_block_sizes(plan, request)
    problem = units if isinstance(units, Problem) else None
    found = None if isinstance(units, Problem) else units
    if found is not None:
        problem = (
            hash_problem(sizes, found.hash, plan.prefix_caching)
            or block_problem(sizes, request.block_size)
            or bytes_problem(request.cpu_bytes_to_use)
        )
    if problem is not None:
        return Offload((problem,), found, sizes, legal, None, None, None)
    factor = 1 if request.block_size is None else request.block_size // sizes[0]
    world = request.world_size or plan.settings.tensor_parallel
    block_bytes = _gpu_block_bytes(cache) * world * factor
    blocks = (request.cpu_bytes_to_use or 0) // block_bytes if block_bytes else None
    return Offload((), found, sizes, legal, factor, block_bytes, blocks)


def resolved_block_sizes(
    plan: Plan, request: OffloadRequest, connector: bool = True
) -> BlockSizes | Problem:
    """Scheduler and hash block size as `resolve_kv_cache_block_sizes` of 0.23 finds them.

    connector: hashes are in use even without prefix caching. One group (or none) counts by the
    configured block size, times the context-parallel ranks.
    """
    grouping = plan.built_cache().grouping
    groups, scheduler = grouping.groups, scheduler_block_size(plan, grouping)
    if len(groups) <= 1:
        size = scheduler * request.context_parallel
        return BlockSizes(size, size)
    if request.context_parallel != 1:
        return context_parallel_problem(
            request.decode_context_parallel, request.prefill_context_parallel, len(groups)
        )
    if not hashes_may_be_finer(plan, grouping, in_use=plan.prefix_caching or connector):
        return BlockSizes(scheduler, scheduler)
    sizes = [group.spec.block_size for group in groups]
    hashes = request.hash_block_size or gcd(*sizes)
    if any(size % hashes for size in sizes):
        return hash_size_problem(hashes, sizes)
    return BlockSizes(scheduler, hashes)


def offload_remedies(
    plan: Plan, problem: Problem, request: OffloadRequest | None = None, limit: int = 3
) -> tuple[Remedy, ...]:
    """Changes of the scenario after which this check passes and the plan has no new error."""
    before = {error.code for error in plan.errors}
    found: list[Remedy] = []
    for changes in problem.candidates:
        if any(remedy.changes.items() <= changes.items() for remedy in found):
            continue  # a part of it is enough
        try:
            other = resolve(plan.model, replace(plan.settings, **changes), type(plan))
        except WorkbenchError:
            continue
        if {error.code for error in other.errors} - before or other.cache is None:
            continue
        if problem.code not in {left.code for left in offload(other, request).problems}:
            found.append(Remedy(dict(changes), other))
    return tuple(found[:limit])


def request_remedies(
    plan: Plan, problem: Problem, request: OffloadRequest
) -> tuple[OffloadRequest, ...]:
    """Requests, nearest first, with which this check passes; empty when only the plan can help."""
    found = []
    for changes in _request_changes(problem):
        other = replace(request, **changes)
        if problem.code not in {left.code for left in offload(plan, other).problems}:
            found.append(other)
    return tuple(found)


def _request_changes(problem: Problem) -> tuple[dict[str, Any], ...]:
    operands = problem.operands
    match problem.code:
        case "context_parallel_with_groups":
            return ({"decode_context_parallel": 1, "prefill_context_parallel": 1},)
        case "hash_block_size_not_divisor":
            common, typed = gcd(*operands["group_block_sizes"]), operands["hash_block_size"]
            near = max((d for d in range(1, min(common, typed) + 1) if common % d == 0), default=1)
            return ({"hash_block_size": near}, {"hash_block_size": None})
        case "offload_groups_differ":
            return ({"block_size": None},)
        case "offload_block_not_multiple":
            size, typed = operands["gpu_block_size"], operands["block_size"]
            below = typed // size * size
            near_sizes = sorted({below, below + size} - {0}, key=lambda near: abs(near - typed))
            return tuple({"block_size": near} for near in near_sizes)
        case _:
            return ()


def _gpu_block_bytes(cache: CachePlan) -> int:
    """Bytes of one block id over the tensors of one rank: the sum of their sizes by num_blocks."""
    if cache.tensors is None or not cache.num_blocks:
        return cache.grouping.bytes_per_block
    return sum(tensor.size_bytes for tensor in cache.tensors) // cache.num_blocks
