"""The request to the offload connector, and its units: the scheduler's block and the hash block."""

from dataclasses import dataclass
from math import gcd, lcm

from workbench.core.capacity.blocks import hashes_may_be_finer, scheduler_block_size
from workbench.core.groups.cache_spec import CacheSpec
from workbench.core.offload.checks import stops
from workbench.core.offload.rules import OffloadRules
from workbench.core.plan import Plan
from workbench.core.problems import Problem

LEAST = {
    **dict.fromkeys(("block_size", "world_size", "hash_block_size"), 1),
    **dict.fromkeys(("decode_context_parallel", "prefill_context_parallel"), 1),
    "cpu_bytes_to_use": 0,
}


@dataclass(frozen=True, slots=True)
class OffloadRequest:
    """What a person types for the offload connector, and what no scenario has.

    Errors: ValueError for sizes below 1 (0.23 takes them and fails later, or never).
    """

    block_size: int | None = None
    """Tokens of an offloaded block (`block_size` in the connector's extra config)."""
    cpu_bytes_to_use: int | None = None
    """Host memory, over all ranks."""
    world_size: int | None = None
    """Number of ranks, None for the scenario's tensor parallelism."""
    decode_context_parallel: int = 1
    prefill_context_parallel: int = 1
    """vLLM's option, like `decode_context_parallel`."""
    hash_block_size: int | None = None
    """vLLM's option (`prefix_match_unit` since 0.33)."""
    blocks_per_chunk: int | None = None
    """GPU blocks in an offloaded one, an option of the extra config since 0.33, which may be set
    explicitly instead of block_size."""

    def __post_init__(self) -> None:
        for name, least in LEAST.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(
                    f"{name} must be at least {least}; got {value}. Nearest valid value: {least}."
                )

    @property
    def context_parallel(self) -> int:
        """Return the ranks over which the tokens of one block are spread."""
        return self.decode_context_parallel * self.prefill_context_parallel


@dataclass(frozen=True, slots=True)
class BlockSizes:
    """The units of the scheduler and of prefix hashes, in tokens."""

    scheduler: int
    hash: int


def block_over_ranks(plan: Plan, spec: CacheSpec, request: OffloadRequest) -> int:
    """Return the tokens of one block over all context-parallel ranks."""
    if not plan.rules.offload.context_parallel_with_groups:
        return spec.block_size * request.context_parallel
    # 0.33 does not spread states.
    return spec.block_size * (1 if spec.is_mamba else request.decode_context_parallel)


def resolved_block_sizes(
    plan: Plan, request: OffloadRequest, connector: bool = True
) -> BlockSizes | Problem:
    """Return the scheduler and hash block size as `resolve_kv_cache_block_sizes` finds them."""
    # A connector uses hashes even without prefix caching.
    in_use = plan.enable_prefix_caching or connector
    if plan.rules.offload.context_parallel_with_groups:
        return _units_by_group(plan, request, in_use=in_use)
    grouping = plan.built_cache().grouping
    groups, scheduler = grouping.groups, scheduler_block_size(plan, grouping)
    if len(groups) <= 1:
        # One group (or none) counts by the configured block size.
        size = scheduler * request.context_parallel
        return BlockSizes(size, size)
    decode, prefill = request.decode_context_parallel, request.prefill_context_parallel
    if request.context_parallel != 1:
        # resolve_kv_cache_block_sizes, 0.23; 0.33 spreads attention and leaves states whole.
        return stops(
            "context_parallel_with_groups",
            "tensor_parallel",
            f"Context parallelism ({decode} for decode, {prefill} for prefill) works with one "
            f"cache group only; this model has {len(groups)}.",
            "Hybrid KV cache groups with multiple block sizes do not support context parallelism",
            decode_context_parallel=decode,
            prefill_context_parallel=prefill,
            groups=len(groups),
        )
    if not hashes_may_be_finer(plan, grouping, in_use=in_use):
        return BlockSizes(scheduler, scheduler)
    sizes = [group.spec.block_size for group in groups]
    return _with_hashes(scheduler, sizes, request.hash_block_size, plan.rules.offload)


def _units_by_group(plan: Plan, request: OffloadRequest, *, in_use: bool) -> BlockSizes | Problem:
    """Return the units of 0.33: a block per group over the ranks; align mode may hash finer."""
    # All groups of the models known here can be found again by their hashes.
    groups, explicit = plan.built_cache().groups, request.hash_block_size
    if len(groups) <= 1:
        spread = not groups or not groups[0].spec.is_mamba
        size = plan.block_size * (request.decode_context_parallel if spread else 1)
        if explicit is None or explicit == size or not groups or not in_use:
            return BlockSizes(size, size)
        return stops(
            "single_group_hash_block",
            "block_size",
            f"With one cache group hits end on its block of {size:,} tokens; prefix_match_unit = "
            f"{explicit:,} is not supported. Omit it, or take {size:,}.",
            f"Invalid prefix_match_unit={explicit}; with a single KV cache group, prefix-cache "
            f"hits land on the block size ({size}). Unset it or set it to {size}.",
            hash_block_size=explicit,
            block_size=size,
        )
    sizes = [block_over_ranks(plan, group.spec, request) for group in groups]
    has_states = any(group.spec.is_mamba for group in groups)
    # Of models with states align mode alone lets hashes be finer than the scheduler's unit (0.33).
    if not in_use or (has_states and plan.mamba_cache_mode != "align"):
        return BlockSizes(lcm(*sizes), lcm(*sizes))
    return _with_hashes(lcm(*sizes), sizes, explicit, plan.rules.offload)


def _with_hashes(
    scheduler: int, sizes: list[int], explicit: int | None, rules: OffloadRules
) -> BlockSizes | Problem:
    """Return the units with a hash block that divides every group's block."""
    hashes, option = explicit or gcd(*sizes), rules.hash_option
    bad = next((size for size in sizes if size % hashes), None)
    if bad is None:
        return BlockSizes(scheduler, hashes)
    text = (
        f"Invalid {option}={hashes}; prefix-cacheable KV cache group block sizes must be divisible "
        f"by {option}. Got group block sizes={sizes}, prefix-cacheable={sizes}."
        if rules.checks_single_group
        else f"Invalid {option}={hashes}; all KV cache group block sizes must be divisible by "
        f"{option}."
    )
    return stops(
        "hash_block_size_not_divisor",
        "block_size",
        f"The hash block ({hashes:,} tokens) must divide the block of every group; it leaves "
        f"{bad % hashes:,} of {bad:,}.",
        text,
        hash_block_size=hashes,
        group_block_sizes=tuple(sizes),
    )
