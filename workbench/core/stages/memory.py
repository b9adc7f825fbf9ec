"""Memory: what is left for the cache, how many blocks it makes, and what vLLM prints about it."""

from workbench.core.capacity.blocks import cache_plan, longest_request, measured_bytes, rank_bytes
from workbench.core.capacity.cache_plan import CachePlan
from workbench.core.capacity.memory_budget import NEEDED, MemoryBudget, explicit_bytes
from workbench.core.capacity.memory_estimate import budget_of, estimate_margin, estimates_of
from workbench.core.stages import memory_checks
from workbench.core.trace import Rule
from workbench.core.working_plan import WorkingPlan

BUDGET = Rule(
    "memory_budget",
    "Memory for the cache",
    "ceil(device * utilisation) - weights - activations - graph reserve",
    "bytes",
)
ESTIMATE = Rule(
    "memory_estimate",
    "Estimated memory for the cache",
    "ceil(device * utilisation) - weights - activations - graphs - outside torch",
    "bytes",
)
AUTO_FIT = Rule(
    "auto_fit_max_model_len",
    "Longest request that fits",
    "the largest L up to the model's whose request needs no more than the available bytes",
    "tokens",
)
NUM_BLOCKS = Rule(
    "num_blocks", "Blocks in the pool", "available bytes // page // slots of a group", "blocks"
)
IN_ONE_ALLOCATION = NUM_BLOCKS._replace(
    formula="available bytes // bytes of one block: the largest group's pages"
)
LEAST_OF_RANKS = Rule(
    "least_of_ranks",
    "Blocks of every rank",
    "the fewest that any rank has room for; every tensor shrinks to it",
    "blocks",
)

LEAST_OF_STAGES = Rule(
    "least_of_stages",
    "Blocks of every pipeline stage",
    "the fewest that any stage has room for: available bytes // bytes of the stage's layers",
    "blocks",
)
NOT_BUILT = frozenset({"backend_not_valid", "no_valid_backend", "layers_cannot_be_built"})
"""What stops the start before the memory is measured."""
AUTO = -1
"""What is set explicitly for max_model_len to have it fitted to the memory."""


def budget(run: WorkingPlan) -> None:
    """Set what the device leaves for the cache, if known; an incomplete budget is a warning."""
    # vLLM measures the same parts while it starts.
    settings = run.settings
    memory_checks.ranks_mismatch(run)
    memory_checks.above_device(run)
    if explicit_bytes(settings) or settings.num_gpu_blocks_override is not None:
        return
    given = [field for field in NEEDED if getattr(settings, field) is not None]
    found = budget_of(run)
    if found is None:
        if given:
            _half_a_budget(run, given[0])
        return
    if found.margin_bytes is not None:
        _estimated(run, found)
        return
    run.step(
        BUDGET,
        found.available_bytes,
        "" if settings.activation_bytes is not None else "activations not given: counted as 0",
        device_memory_bytes=found.device_bytes,
        gpu_memory_utilization=found.utilization,
        weights_bytes=found.weights_bytes,
        activation_bytes=found.activation_bytes,
        cuda_graph_bytes=found.cuda_graph_bytes,
    )
    run.log(f"Available KV cache memory: {memory_checks.gib(found.available_bytes)} GiB")


def _estimated(run: WorkingPlan, found: MemoryBudget) -> None:
    """Record the terms of an estimate, and what it may be off by."""
    least, most = found.range
    run.step(
        ESTIMATE,
        found.available_bytes,
        f"an estimate: between {memory_checks.gib(least)} and {memory_checks.gib(most)} GiB; "
        "vLLM measures it at the start",
        device_memory_bytes=found.device_bytes,
        gpu_memory_utilization=found.utilization,
        weights_bytes=found.weights_bytes,
        activation_bytes=found.activation_bytes,
        cuda_graph_bytes=found.cuda_graph_bytes,
        outside_torch_bytes=found.other_bytes,
        margin_bytes=found.margin_bytes,
    )


def requests(run: WorkingPlan) -> None:
    """Set what the cache is made of, and what a request takes of it."""
    run.cache = cache_plan(run)


def estimates(run: WorkingPlan) -> None:
    """Set what the device leaves for the cache by estimate: once, as vLLM measures it once."""
    run.estimates = estimates_of(run)


def capacity(run: WorkingPlan) -> None:
    """Set what the cache holds, as far as the memory is known."""
    cache = run.cache
    if cache is not None and (ranks := rank_bytes(run, cache)):
        run.cache = cache.sized(ranks)


def auto_fit(run: WorkingPlan) -> None:
    """Fit max_model_len = -1 to the longest request that the memory serves; block sizes stay."""
    cache = run.cache
    if run.settings.max_model_len != AUTO or cache is None or not cache.groups:
        return
    if any(problem.code in NOT_BUILT for problem in run.problems):
        return
    available, checked = cache.available_bytes, cache.checked_bytes
    # The length comes first, also where no memory is left: its refusal is what vLLM then shows
    # (get_kv_cache_configs).
    if available is None or checked is None or cache.needed_bytes <= checked:
        return
    longest = longest_request(run, cache.grouping, available)
    if not longest:
        memory_checks.cannot_auto_fit(run, cache, available)
        return
    before = run.max_model_len
    run.step(AUTO_FIT, longest, longest_of_the_model=before, available_bytes=available)
    if estimate_margin(run) is None:
        run.log(_auto_fit_line(run, before, longest, available, checked))
    # Blocks were sized for the longer length, also that of a state, and vLLM does not size them
    # again.
    run.max_model_len = longest
    requests(run)
    capacity(run)


def memory(run: WorkingPlan) -> None:
    """Compute blocks, capacity and the resulting refusals; skip most without a memory size."""
    cache = run.cache
    if cache is not None:
        memory_checks.whole_graphs(run, cache)
    if cache is None or cache.available_bytes is None:
        return
    if run.is_traced:  # its operands take longer than all the rest
        _record(run, cache)
    run.log(*cache.grouping.notes)
    _override(run, cache)
    before, margin = run.problems, estimate_margin(run)
    short = cache.short_stage
    if short is not None and (checked := short.checked_bytes or 0) <= 0:
        memory_checks.no_memory(run, short, checked)
    elif short is not None:
        memory_checks.not_enough_memory(run, short, short.checked_bytes or 0)
        # What is estimated may hold a request, and fewer states than there are sequences.
        if margin is not None and cache.with_more(margin).short_stage is None:
            memory_checks.too_many_sequences(run, cache)
    elif cache.max_concurrency is not None:
        if margin is None:  # what vLLM prints is not estimated
            run.log(*printed_lines(run, cache))
        memory_checks.null_block(run, cache)
        memory_checks.too_many_sequences(run, cache)
    if margin is not None:
        found = run.problems[len(before) :]
        run.problems = before + tuple(
            memory_checks.by_estimate(one, cache, margin) for one in found
        )


def _record(run: WorkingPlan, cache: CachePlan) -> None:
    """Record the blocks; every rank gets as many as the rank with the least memory."""
    grouping, one_allocation = cache.grouping, run.rules.groups.one_allocation
    run.step(
        IN_ONE_ALLOCATION if one_allocation else NUM_BLOCKS,
        cache.num_blocks,
        grouping.reason,
        available_bytes=cache.available_bytes,
        page_size_bytes=grouping.page_size_bytes,
        slots=grouping.group_size,
        groups=len(cache.groups),
        blocks_per_request=cache.blocks_per_request,
        **({"bytes_per_block": grouping.bytes_per_block} if one_allocation else {}),
    )
    if len(cache.rank_bytes) > 1 and cache.groups:
        blocks = [max(size, 0) // grouping.bytes_per_block for size in cache.rank_bytes]
        run.step(LEAST_OF_RANKS, min(blocks), blocks_of_ranks=blocks)
    if cache.stages:
        rooms = [one.room_blocks for one in cache.stages]
        run.step(LEAST_OF_STAGES, cache.num_blocks, blocks_of_stages=rooms)


def _override(run: WorkingPlan, cache: CachePlan) -> None:
    """Record the line that contains both numbers, where the memory is known as well."""
    override = run.settings.num_gpu_blocks_override
    measured = measured_bytes(run.settings)
    if override is None or measured is None:
        return
    blocks = max(measured, 0) // cache.grouping.bytes_per_block if cache.groups else 1
    run.log(f"Overriding num_gpu_blocks={blocks} with num_gpu_blocks_override={override}")


def _half_a_budget(run: WorkingPlan, given: str) -> None:
    [missing] = [field for field in NEEDED if field != given]
    what = {
        "weights_bytes": "the bytes of the checkpoint on one rank: about its safetensors divided "
        "by tensor_parallel",
        "device_memory_bytes": "the memory of one device, for example 80 GiB",
    }[missing]
    run.problem(
        "memory_budget_incomplete",
        operands={given: getattr(run.settings, given)},
        field=missing,
        given=given,
        value=getattr(run.settings, given),
        missing=missing,
        what=what,
    )


def printed_lines(run: WorkingPlan, cache: CachePlan) -> list[str]:
    """Return the lines that vLLM prints about the pool: two lines, one of them from 0.33 on."""
    size = f"KV cache size: {cache.printed_tokens:,} tokens"
    concurrency = (
        f"Maximum concurrency for {run.max_model_len:,} tokens per request: "
        f"{cache.max_concurrency:.2f}x"
    )
    if run.rules.groups.joins_printed_lines:
        return [f"{device_name(run)} {size}, {concurrency}"]
    return [f"GPU {size}", concurrency]


def device_name(run: WorkingPlan) -> str:
    """Return the device as 0.33 prints it: ROCm is a GPU as CUDA is."""
    platform = run.platform.name
    return "GPU" if platform in {"cuda", "rocm"} else platform.upper()


def _auto_fit_line(
    run: WorkingPlan, before: int, longest: int, available: int, checked: int
) -> str:
    start = f"Auto-fit max_model_len: reduced from {before} to {longest} to fit in available "
    if run.rules.groups.joins_printed_lines:
        return f"{start}KV cache memory ({memory_checks.gib(checked)} GiB {device_name(run)})"
    return f"{start}GPU memory ({memory_checks.gib(available)} GiB available for KV cache)"
