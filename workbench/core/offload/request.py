"""The request to the offload connector, and its units: the scheduler's block and the hash block."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, lcm

from workbench.core.arithmetic import GIB, LARGEST_INT32, LARGEST_INT64
from workbench.core.capacity.blocks import hashes_may_be_finer, scheduler_block_size
from workbench.core.errors import check_integer
from workbench.core.groups.cache_spec import CacheSpec
from workbench.core.groups.grouping import Group
from workbench.core.offload.checks import stops
from workbench.core.offload.rules import OffloadRules
from workbench.core.plan import Plan
from workbench.core.problems import Problem
from workbench.core.sizes import bytes_of

UNITS = ("block_size", "world_size", "hash_block_size", "prefill_context_parallel")
RANGES = {
    **dict.fromkeys(UNITS, (1, LARGEST_INT32, "the largest integer of vLLM")),
    "blocks_per_chunk": (-LARGEST_INT32, LARGEST_INT32, "the largest integer of vLLM"),
    "cpu_bytes_to_use": (0, LARGEST_INT64, "the largest size"),
}
"""Input -> what `check_integer` accepts; vLLM itself refuses `blocks_per_chunk` below 1."""
USUAL_BYTES = 64 * GIB
"""Host memory that is shown while none is given."""


@dataclass(frozen=True, slots=True)
class OffloadRequest:
    """What a person types for the offload connector, and what no scenario has.

    Errors: ScenarioError for sizes below 1 (0.23 takes them and fails later, or never), and for
    integers that vLLM cannot hold.
    """

    block_size: int | None = None
    """Tokens of an offloaded block (`block_size` in the connector's extra config)."""
    cpu_bytes_to_use: int | None = None
    """Host memory, over all ranks; a text with its unit, such as "64 GiB", is read."""
    world_size: int | None = None
    """Number of ranks, None for the scenario's tensor parallelism."""
    prefill_context_parallel: int = 1
    """Ranks of vLLM's option, which no scenario has; 0.33 keeps every token on all of them."""
    hash_block_size: int | None = None
    """vLLM's option (`prefix_match_unit` since 0.33)."""
    blocks_per_chunk: int | None = None
    """GPU blocks in an offloaded one, an option of the extra config since 0.33, which may be set
    explicitly instead of block_size."""

    def __post_init__(self) -> None:
        memory = "cpu_bytes_to_use"
        object.__setattr__(self, memory, bytes_of(self.cpu_bytes_to_use, memory))
        for name, limits in RANGES.items():
            if (value := getattr(self, name)) is not None:
                check_integer(name, value, *limits)


@dataclass(frozen=True, slots=True)
class BlockSizes:
    """The units of the scheduler and of prefix hashes, in tokens."""

    scheduler: int
    hash: int


def offloaded_groups(plan: Plan) -> tuple[Group, ...]:
    """Return the groups whose blocks go to a store: without rings, and windows computed again."""
    # prefix_cacheable_group_ids, 0.33; 0.23 has none of the others.
    return tuple(group for group in plan.built_cache().groups if group.is_found_again)


def block_over_ranks(plan: Plan, spec: CacheSpec, request: OffloadRequest) -> int:
    """Return the tokens of one block over all context-parallel ranks."""
    if plan.rules.groups.spreads_by_layer:
        return spec.span_tokens
    return spec.block_size * context_parallel(plan, request)


def context_parallel(plan: Plan, request: OffloadRequest) -> int:
    """Return the ranks over which 0.23 spreads the tokens of one block."""
    return plan.settings.decode_context_parallel * request.prefill_context_parallel


def resolved_block_sizes(plan: Plan, request: OffloadRequest) -> BlockSizes | Problem:
    """Return the scheduler and hash block size as `resolve_kv_cache_block_sizes` finds them."""
    if plan.rules.groups.spreads_by_layer:
        return _units_by_group(plan, request)
    grouping = plan.built_cache().grouping
    groups, scheduler = grouping.groups, scheduler_block_size(plan, grouping)
    if len(groups) <= 1:
        # One group (or none) counts by the configured block size.
        size = scheduler * request.prefill_context_parallel
        return BlockSizes(size, size)
    decode, prefill = plan.settings.decode_context_parallel, request.prefill_context_parallel
    if decode * prefill != 1:
        # resolve_kv_cache_block_sizes, 0.23; 0.33 spreads attention and leaves states whole.
        return stops(
            "context_parallel_with_groups",
            decode_context_parallel=decode,
            prefill_context_parallel=prefill,
            groups=len(groups),
        )
    # A connector uses hashes even without prefix caching.
    if not hashes_may_be_finer(plan, grouping, in_use=True):
        return BlockSizes(scheduler, scheduler)
    sizes = [group.spec.block_size for group in groups]
    return _with_hashes(scheduler, sizes, request.hash_block_size, plan.rules.offload)


def _units_by_group(plan: Plan, request: OffloadRequest) -> BlockSizes | Problem:
    """Return the units of 0.33: a block per group over the ranks; align mode may hash finer."""
    groups, explicit = plan.built_cache().groups, request.hash_block_size
    if len(groups) <= 1:
        size = scheduler_block_size(plan, plan.built_cache().grouping)
        if explicit is None or explicit == size or not groups:
            return BlockSizes(size, size)
        return stops("single_group_hash_block", hash_block_size=explicit, block_size=size)
    sizes = [block_over_ranks(plan, group.spec, request) for group in groups]
    has_states = any(group.spec.is_mamba for group in groups)
    # Of models with states align mode alone lets hashes be finer than the scheduler's unit (0.33).
    if has_states and plan.mamba_cache_mode != "align":
        return BlockSizes(lcm(*sizes), lcm(*sizes))
    kept = [block_over_ranks(plan, group.spec, request) for group in offloaded_groups(plan)]
    return _with_hashes(lcm(*sizes), sizes, explicit, plan.rules.offload, kept)


def _with_hashes(
    scheduler: int,
    sizes: list[int],
    explicit: int | None,
    rules: OffloadRules,
    kept: Sequence[int] = (),
) -> BlockSizes | Problem:
    """Return the units with a hash block that divides the blocks that are hashed.

    kept: those of them, where it is not all.
    """
    hashed = list(kept) or sizes
    hashes, option = explicit or gcd(*hashed), rules.hash_option
    bad = next((size for size in hashed if size % hashes), None)
    if bad is None:
        return BlockSizes(scheduler, hashes)
    text = (
        f"Invalid {option}={hashes}; prefix-cacheable KV cache group block sizes must be divisible "
        f"by {option}. Got group block sizes={sizes}, prefix-cacheable={hashed}."
        if rules.checks_single_group
        else f"Invalid {option}={hashes}; all KV cache group block sizes must be divisible by "
        f"{option}."
    )
    return stops(
        "hash_block_size_not_divisor",
        {"vllm_text": text, "left": bad % hashes, "bad": bad},
        hash_block_size=hashes,
        group_block_sizes=tuple(hashed),
    )
