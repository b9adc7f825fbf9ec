"""Offload to host memory: the checks at start, legal block sizes, and the host pool.

Source: `OffloadingSpec` (`vllm/v1/kv_offload/base.py`), `CPUOffloadingSpec`
(`vllm/v1/kv_offload/cpu/spec.py`), `resolve_kv_cache_block_sizes` and the connector's
`register_kv_caches` of 0.23; the number of blocks since #38554. 0.33: `build_offloading_config` of
the connector; what differs is `OffloadRules`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd, lcm
from typing import Any

from workbench.core.arithmetic import cdiv
from workbench.core.capacity.blocks import CachePlan, hashes_may_be_finer, scheduler_block_size
from workbench.core.errors import ScenarioError, WorkbenchError
from workbench.core.groups.cache_spec import MLA_KINDS, CacheSpec
from workbench.core.offload.checks import (
    block_problem,
    bytes_problem,
    chunk_problem,
    context_parallel_problem,
    hash_problem,
    hash_size_problem,
    no_group_problem,
    single_group_problem,
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
    parallelism. decode_context_parallel, prefill_context_parallel: vLLM's own; hash_block_size: too
    (`prefix_match_unit` since 0.33). blocks_per_chunk: GPU blocks in an offloaded one, an option of
    the extra config since 0.33, which may be typed instead of block_size.
    Errors: ValueError for sizes below 1 (0.23 takes them and fails later, or never).
    """

    block_size: int | None = None
    cpu_bytes_to_use: int | None = None
    world_size: int | None = None
    decode_context_parallel: int = 1
    prefill_context_parallel: int = 1
    hash_block_size: int | None = None
    blocks_per_chunk: int | None = None

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
                raise ValueError(f"{name} must be at least 1; got {value}. Nearest valid value: 1.")
        if self.cpu_bytes_to_use is not None and self.cpu_bytes_to_use < 0:
            raise ValueError(
                f"cpu_bytes_to_use must not be negative; got {self.cpu_bytes_to_use}. Nearest "
                "valid value: 0."
            )

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
    the GPU plays no part in it. window_chunks: per group, how many offloaded blocks of a request
    are kept, None for all (0.33; empty in 0.23). unread: options that this version does not know.
    """

    problems: tuple[Problem, ...]
    block_sizes: BlockSizes | None
    gpu_block_sizes: tuple[int, ...]
    legal_block_sizes: tuple[int, ...]
    factor: int | None
    bytes_per_cpu_block: int | None
    cpu_blocks: int | None
    window_chunks: tuple[int | None, ...] = ()
    unread: tuple[str, ...] = ()

    @property
    def is_legal(self) -> bool:
        """Whether the engine starts with this connector."""
        return not self.problems


def offload(plan: Plan, request: OffloadRequest | None = None) -> Offload:
    """The checks in vLLM's order, then the sizes.

    Errors: ValueError when the plan has no cache, ScenarioError for a world size that no engine
    with this tensor parallelism has.
    """
    request = request or OffloadRequest()
    _check_world(plan, request.world_size)
    rules, cache = plan.rules.offload, plan.built_cache()
    sizes = tuple(block_over_ranks(plan, g.spec, request) for g in cache.groups)
    unread = () if rules.takes_blocks_per_chunk or not request.blocks_per_chunk else _CHUNK
    legal = tuple(sizes[0] * k for k in range(1, LEGAL_SIZES + 1)) if len(set(sizes)) == 1 else ()
    units = resolved_block_sizes(plan, request)
    problem = units if isinstance(units, Problem) else None
    found = None if isinstance(units, Problem) else units
    chunk = request.blocks_per_chunk if rules.takes_blocks_per_chunk else None
    if rules.takes_blocks_per_chunk and not sizes:
        problem = no_group_problem()
    elif found is not None:
        problem = (
            hash_problem(sizes, found.hash, plan.prefix_caching, rules)
            or chunk_problem(chunk, request.block_size)
            or block_problem(sizes, request.block_size, rules)
            or bytes_problem(request.cpu_bytes_to_use)
        )
    if problem is not None:
        return Offload((problem,), found, sizes, legal, None, None, None, unread=unread)
    factor = chunk or (1 if request.block_size is None else request.block_size // sizes[0])
    world = request.world_size or plan.settings.tensor_parallel
    copies = 1 if _stores_one_copy(plan, request, world) else world
    alignment = rules.host_block_alignment_bytes
    block_bytes = cdiv(_gpu_block_bytes(cache) * copies * factor, alignment) * alignment
    blocks = (request.cpu_bytes_to_use or 0) // block_bytes if block_bytes else None
    windows = tuple(
        window_chunks(group.spec, size * factor)
        for group, size in zip(cache.groups, sizes, strict=True)
        if rules.takes_blocks_per_chunk
    )
    return Offload((), found, sizes, legal, factor, block_bytes, blocks, windows, unread)


_CHUNK = ("blocks_per_chunk",)


def _check_world(plan: Plan, world_size: int | None) -> None:
    """Other kinds of parallelism multiply the tensor-parallel ranks."""
    ranks = plan.settings.tensor_parallel
    if world_size is None or world_size % ranks == 0:
        return
    nearest = max(1, round(world_size / ranks)) * ranks
    raise ScenarioError(
        "out_of_range",
        f"world_size is a multiple of tensor_parallel = {ranks}; got {world_size}. Nearest valid "
        f"value: {nearest}.",
        field="world_size",
    )


def block_over_ranks(plan: Plan, spec: CacheSpec, request: OffloadRequest) -> int:
    """Tokens of one block over all context-parallel ranks; 0.33 does not spread states."""
    if not plan.rules.offload.context_parallel_with_groups:
        return spec.block_size * request.context_parallel
    return spec.block_size * (1 if spec.is_mamba else request.decode_context_parallel)


def window_chunks(spec: CacheSpec, chunk_tokens: int) -> int | None:
    """Offloaded blocks of a request that its attention or state reaches back to; None for all.

    Source: `get_sliding_window_size_in_chunks`, 0.33.
    """
    if spec.is_mamba:
        return 1
    if spec.window_tokens is None:
        return None
    return cdiv(spec.window_tokens, chunk_tokens)


def _stores_one_copy(plan: Plan, request: OffloadRequest, world: int) -> bool:
    """Whether ranks hold the same latents and the host keeps them once (0.33).

    One node and no other kind of parallelism are taken for granted.
    """
    specs = [spec for group in plan.built_cache().groups for spec in group.layer_specs]
    ranks = plan.settings.tensor_parallel
    alike = bool(specs) and all(spec.kind in MLA_KINDS for spec in specs)
    alone = request.context_parallel == 1 and ranks > 1 and world == ranks
    shared = plan.settings.platform in {"cuda", "xpu"}
    return plan.rules.offload.one_copy_of_latents and alike and alone and shared


def resolved_block_sizes(
    plan: Plan, request: OffloadRequest, connector: bool = True
) -> BlockSizes | Problem:
    """Scheduler and hash block size as `resolve_kv_cache_block_sizes` finds them.

    connector: hashes are in use even without prefix caching. One group (or none) counts by the
    configured block size, times the context-parallel ranks.
    """
    if plan.rules.offload.context_parallel_with_groups:
        return _units_by_group(plan, request, in_use=plan.prefix_caching or connector)
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
        return hash_size_problem(hashes, sizes, plan.rules.offload)
    return BlockSizes(scheduler, hashes)


def _units_by_group(plan: Plan, request: OffloadRequest, *, in_use: bool) -> BlockSizes | Problem:
    """0.33: every group has a block of its own over the ranks, and align mode may hash finer.

    All groups of the models known here can be found again by their hashes.
    """
    groups, typed = plan.built_cache().groups, request.hash_block_size
    if len(groups) <= 1:
        spread = not groups or not groups[0].spec.is_mamba
        size = plan.block_size * (request.decode_context_parallel if spread else 1)
        if typed not in {None, size} and groups and in_use:
            assert typed is not None
            return single_group_problem(typed, size)
        return BlockSizes(size, size)
    sizes = [block_over_ranks(plan, group.spec, request) for group in groups]
    scheduler = lcm(*sizes)
    has_states = any(group.spec.is_mamba for group in groups)
    if not in_use or (has_states and plan.mamba_cache_mode != "align"):
        return BlockSizes(scheduler, scheduler)
    hashes = typed or gcd(*sizes)
    if any(size % hashes for size in sizes):
        return hash_size_problem(hashes, sizes, plan.rules.offload)
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
        case "hash_block_size_not_divisor":
            common, typed = gcd(*operands["group_block_sizes"]), operands["hash_block_size"]
            near = max((d for d in range(1, min(common, typed) + 1) if common % d == 0), default=1)
            return ({"hash_block_size": near}, {"hash_block_size": None})
        case "single_group_hash_block":
            return ({"hash_block_size": operands["block_size"]}, {"hash_block_size": None})
        case "offload_block_not_multiple":
            size, typed = operands["gpu_block_size"], operands["block_size"]
            below = typed // size * size
            near_sizes = sorted({below, below + size} - {0}, key=lambda near: abs(near - typed))
            return tuple({"block_size": near} for near in near_sizes)
        case code:
            return _WITHOUT.get(code, ())


_WITHOUT: dict[str, tuple[dict[str, Any], ...]] = {
    "context_parallel_with_groups": (
        {"decode_context_parallel": 1, "prefill_context_parallel": 1},
    ),
    "offload_groups_differ": ({"block_size": None},),
    "offload_two_chunk_sizes": ({"block_size": None}, {"blocks_per_chunk": None}),
    "offload_chunk_below_1": ({"blocks_per_chunk": 1}, {"blocks_per_chunk": None}),
}
"""Code -> the changes that need no number of the problem."""


def _gpu_block_bytes(cache: CachePlan) -> int:
    """Bytes of one block id over the tensors of one rank: the sum of their sizes by num_blocks."""
    if cache.tensors is None or not cache.num_blocks:
        return cache.grouping.bytes_per_block
    return sum(tensor.size_bytes for tensor in cache.tensors) // cache.num_blocks
