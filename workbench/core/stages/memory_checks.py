"""The refusals and warnings that come from the size of the pool.

Source: `check_enough_kv_cache_memory` and `resolve_cudagraph_mode_and_sizes` of 0.23.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from workbench.core.arithmetic import GIB
from workbench.core.batch_defaults import batch_sizes, depends_on_device, is_certain, possible_tiers
from workbench.core.capacity.blocks import longest_request
from workbench.core.capacity.cache_plan import CachePlan
from workbench.core.capacity.memory_budget import explicit_bytes
from workbench.core.capacity.memory_estimate import budget_of, loaded_weights
from workbench.core.graph_modes import FULL, NEVER, PIECEWISE, requested_mode
from workbench.core.groups.graph_support import WITH_GRAPHS, captures_states, graph_support
from workbench.core.problems import ERROR, WARNING, Problem
from workbench.core.ranks import ranks_of
from workbench.core.working_plan import WorkingPlan

OVERRIDE = "num_gpu_blocks_override"


def no_memory(run: WorkingPlan, cache: CachePlan, available: int) -> None:
    """Report that no memory is left for the cache."""
    over = f"the rest takes {-available:,} bytes more than vLLM may use"
    left = over if available < 0 else "0 bytes"
    run.problem(
        "no_memory_for_blocks",
        operands={"available_bytes": available, "needed_bytes": cache.needed_bytes},
        candidates=more_memory(run, cache.needed_bytes + cache.held_back_bytes),
        left=left,
        cache=cache,
        length=_tokens(run.max_model_len),
    )


def cannot_auto_fit(run: WorkingPlan, cache: CachePlan, available: int) -> None:
    """Report that max_model_len = -1 cannot be fitted: not one token fits."""
    run.problem(
        "cannot_auto_fit",
        operands={"available_bytes": available, "bytes_per_block": cache.grouping.bytes_per_block},
        candidates=more_memory(run, cache.needed_bytes + cache.held_back_bytes),
        left=max(available, 0),
    )


def not_enough_memory(run: WorkingPlan, cache: CachePlan, available: int) -> None:
    """Report that one request of full length does not fit into the checked memory."""
    longest = longest_request(run, cache.grouping, available + cache.held_back_bytes)
    # the null block is held back first (0.33)
    null = ", the null block omitted" if cache.held_back_bytes else ""
    # 0.23 starts without a block for the null block, and such a request then never finishes
    spare = 0 if run.rules.groups.counts_null_block else cache.grouping.bytes_per_block
    enough = cache.needed_bytes + cache.held_back_bytes + spare
    finishes = longest_request(run, cache.grouping, available + cache.held_back_bytes - spare)
    shorter = ({"max_model_len": finishes},) if finishes else ()
    run.problem(
        "not_enough_memory",
        operands={
            "available_bytes": available,
            "needed_bytes": cache.needed_bytes,
            "estimated_max_model_len": longest,
        },
        candidates=(*shorter, *_more_blocks(run, cache), *more_memory(run, enough)),
        length=_tokens(run.max_model_len),
        needed_gib=gib(cache.needed_bytes),
        available_gib=gib(available),
        null=null,
        outlook=(
            f"Longest request that fits: {_tokens(longest)}."
            if longest
            else f"Not even one token fits; one block takes {cache.grouping.bytes_per_block:,} "
            "bytes."
        ),
    )


def _more_blocks(run: WorkingPlan, cache: CachePlan) -> tuple[Mapping[str, Any], ...]:
    """Return an override that holds one request of full length, if an override is set."""
    if run.settings.num_gpu_blocks_override is None:
        return ()
    return ({OVERRIDE: cache.blocks_per_request + 1},)


def null_block(run: WorkingPlan, cache: CachePlan) -> None:
    """Warn that 0.23 starts with exactly enough blocks, although block 0 is never used."""
    if cache.num_blocks is None or cache.num_blocks - 1 >= cache.blocks_per_request:
        return
    # 0.33 subtracts the null block before it compares
    if run.rules.groups.counts_null_block:
        return
    # One block more than a request needs: block 0 is never handed out.
    enough = cache.needed_bytes + cache.grouping.bytes_per_block
    run.problem(
        "null_block_not_counted",
        operands={"num_blocks": cache.num_blocks, "blocks_per_request": cache.blocks_per_request},
        candidates=more_memory(run, enough),
    )


def ranks_mismatch(run: WorkingPlan) -> None:
    """Refuse a list of memory sizes that is neither of every rank nor one for all."""
    settings = run.settings
    ranks, wanted = settings.kv_cache_memory_bytes_by_rank, ranks_of(settings)
    if not ranks or len(ranks) in {1, wanted}:
        return
    run.problem(
        "memory_ranks_mismatch",
        operands={
            "sizes": len(ranks),
            "tensor_parallel": settings.tensor_parallel,
            "pipeline_parallel": settings.pipeline_parallel,
        },
        candidates=(
            {"kv_cache_memory_bytes_by_rank": (ranks + ranks[-1:] * wanted)[:wanted]},
            {"kv_cache_memory_bytes_by_rank": None, "kv_cache_memory_bytes": min(ranks)},
        ),
        wanted=wanted,
    )


def above_device(run: WorkingPlan) -> None:
    """Warn about an explicit cache that is, with the weights, larger than the whole device."""
    settings = run.settings
    device, ranks = run.device_memory_bytes, settings.kv_cache_memory_bytes_by_rank or ()
    field = "kv_cache_memory_bytes_by_rank" if ranks else "kv_cache_memory_bytes"
    cache = max(ranks) if ranks else settings.kv_cache_memory_bytes
    if device is None or cache is None:
        return
    weights = min(loaded_weights(run), default=0)
    if cache + weights <= device:
        return
    run.problem(
        "cache_above_device_memory",
        operands={"cache_bytes": cache, "device_memory_bytes": device, "weights_bytes": weights},
        candidates=({"device_memory_bytes": None}, {field: None}),
        field=field,
        name=field,
        cache_gib=gib(cache),
        device_gib=gib(device),
        besides=f" and the weights, {gib(weights)} GiB, are" if weights else " is",
    )


def whole_graphs(run: WorkingPlan, cache: CachePlan) -> None:
    """Refuse graphs of whole mixed batches where some backend has none of any batch."""
    if run.platform.name not in WITH_GRAPHS or requested_mode(run.settings) != FULL:
        return
    support = graph_support(run, cache)
    if support.level == NEVER:
        run.problem(
            "full_graphs_not_supported",
            operands={"cudagraph_mode": FULL, "backend": support.backend},
            candidates=({"cudagraph_mode": PIECEWISE},),
        )


def too_many_sequences(run: WorkingPlan, cache: CachePlan) -> None:
    """Report more sequences than mamba blocks, which graph capture refuses."""
    # A warning where that holds only for the defaults of some devices, and the device is not known.
    largest = run.rules.batch_tiers[0].defaults(run).max_num_seqs
    blocks, most = cache.num_blocks, max(run.max_num_seqs, largest)
    if blocks is None or most <= blocks:
        return
    # the default depends on the device: with an unknown one the largest default decides
    wanted, certain = sequences_wanted(run)
    if wanted <= blocks:
        return
    if not captures_states(run, cache):
        return
    run.problem(
        "max_num_seqs_above_blocks",
        operands={"max_num_seqs": wanted, "num_blocks": blocks},
        candidates=(
            {"max_num_seqs": blocks},
            *more_memory(run, wanted * cache.grouping.bytes_per_block),
        ),
        severity=ERROR if certain else WARNING,
        doubt=depends_on_device(run, "max_num_seqs"),
    )


def sequences_wanted(run: WorkingPlan) -> tuple[int, bool]:
    """Return the most sequences that vLLM may be started with, and whether that is certain."""
    # Not certain is a default that depends on a device memory that the scenario does not have.
    if is_certain(run, "max_num_seqs"):
        return run.max_num_seqs, True
    return batch_sizes(run, possible_tiers(run)[0]).max_num_seqs, False


def more_memory(run: WorkingPlan, cache_bytes: int) -> tuple[Mapping[str, Any], ...]:
    """Return the changes that give the cache `cache_bytes`."""
    # With a budget it is a higher utilisation.
    settings = run.settings
    found = budget_of(run)
    ranks = settings.kv_cache_memory_bytes_by_rank
    if found is None or explicit_bytes(settings):
        measured: dict[str, Any] = (
            {} if settings.num_gpu_blocks_override is None else {OVERRIDE: None}
        )
        if ranks:
            enough = tuple(max(size, cache_bytes) for size in ranks)
            return ({"kv_cache_memory_bytes_by_rank": enough, **measured},)
        return ({"kv_cache_memory_bytes": cache_bytes, **measured},)
    utilization = found.utilization_for(cache_bytes)
    return () if utilization is None else ({"gpu_memory_utilization": utilization},)


def by_estimate(problem: Problem, cache: CachePlan, margin: int) -> Problem:
    """Return a problem of an estimated pool: a warning if the most that may be left is enough."""
    available = cache.available_bytes or 0
    most, sequences = cache.with_more(margin), problem.operands.get("max_num_seqs", 0)
    enough = most.short_stage is None and sequences <= (most.num_blocks or 0)
    fits = problem.severity == WARNING or enough
    return replace(
        problem,
        severity=WARNING if fits else ERROR,
        message=f"{problem.message} This memory is an estimate, {gib(available - margin)} to "
        f"{gib(available + margin)} GiB; kv_cache_memory_bytes replaces it.",
    )


def gib(size: int) -> str:
    """Return GiB with two decimals, trailing zeros dropped as Python does ("4.0", "0.3")."""
    return str(round(size / GIB, 2))


def _tokens(count: int) -> str:
    return f"{count:,} token{'' if count == 1 else 's'}"
