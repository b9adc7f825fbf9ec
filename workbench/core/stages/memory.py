"""Memory: whether one request of full length fits, and what vLLM prints about it."""

from __future__ import annotations

from workbench.core.capacity import CachePlan, longest_request
from workbench.core.run import Run
from workbench.core.trace import Rule

NUM_BLOCKS = Rule(
    "num_blocks",
    "Blocks in the pool",
    "available bytes // page // slots of a group",
    "blocks",
    "vLLM 0.23, get_kv_cache_config_from_groups",
)
GIB = 2**30


def memory(run: Run) -> None:
    """Blocks, capacity and the two memory refusals; nothing without a memory size."""
    settings = run.settings
    if settings.kv_cache_memory_bytes is None and settings.num_gpu_blocks_override is None:
        return
    cache = run.cache
    if cache is None:
        return
    available = cache.available_bytes
    assert available is not None
    run.step(
        NUM_BLOCKS,
        cache.num_blocks,
        cache.grouping.reason,
        available_bytes=available,
        page_size_bytes=cache.grouping.page_size_bytes,
        slots=cache.grouping.group_size,
        groups=len(cache.groups),
        blocks_per_request=cache.blocks_per_request,
    )
    _padding_layers(run, cache)
    if available <= 0:
        _no_memory(run, cache, available)
    elif cache.needed_bytes > available:
        _not_enough(run, cache, available)
    elif cache.max_concurrency is not None:
        run.log_lines.append(f"GPU KV cache size: {cache.printed_tokens:,} tokens")
        run.log_lines.append(
            f"Maximum concurrency for {run.max_model_len:,} tokens per request: "
            f"{cache.max_concurrency:.2f}x"
        )
        _null_block(run, cache)


def _padding_layers(run: Run, cache: CachePlan) -> None:
    grouping = cache.grouping
    by_spec: dict[object, list[int]] = {}
    for group in grouping.groups:
        found = by_spec.setdefault(group.spec, [0, 0])
        found[0] += group.padding_layers
        found[1] += len(group.layers)
    for padding, layers in by_spec.values():
        if padding:
            run.log_lines.append(
                f"Add {padding} padding layers, may waste at most "
                f"{100 * padding / layers:.2f}% KV cache memory"
            )


def _no_memory(run: Run, cache: CachePlan, available: int) -> None:
    run.problem(
        "no_memory_for_blocks",
        "kv_cache_memory_bytes",
        f"There is no memory for the cache: {available:,} bytes. One block takes "
        f"{cache.grouping.bytes_per_block:,} bytes, one request of {run.max_model_len:,} tokens "
        f"{cache.needed_bytes:,}.",
        operands={"available_bytes": available, "needed_bytes": cache.needed_bytes},
        vllm_text="No available memory for the cache blocks. Try increasing",
        candidates=({"kv_cache_memory_bytes": cache.needed_bytes},),
    )


def _not_enough(run: Run, cache: CachePlan, available: int) -> None:
    longest = longest_request(run, cache.grouping, available)
    enough = {"kv_cache_memory_bytes": cache.needed_bytes, "num_gpu_blocks_override": None}
    shorter = ({"max_model_len": longest},) if longest else ()
    run.problem(
        "not_enough_memory",
        "kv_cache_memory_bytes",
        f"One request of {run.max_model_len:,} tokens needs {cache.needed_bytes:,} bytes "
        f"({_gib(cache.needed_bytes)} GiB), and {available:,} ({_gib(available)} GiB) are there. "
        + (
            f"Longest request that fits: {longest:,} tokens."
            if longest
            else f"Not even one token fits; one block takes {cache.grouping.bytes_per_block:,} "
            "bytes."
        ),
        operands={
            "available_bytes": available,
            "needed_bytes": cache.needed_bytes,
            "estimated_max_model_len": longest,
        },
        vllm_text=f"To serve at least one request with the model's max seq len "
        f"({run.max_model_len}), ({_gib(cache.needed_bytes)} GiB KV cache is needed, which is "
        f"larger than the available KV cache memory ({_gib(available)} GiB).",
        candidates=(*shorter, enough, {"kv_cache_dtype": "fp8"}),
    )


def _null_block(run: Run, cache: CachePlan) -> None:
    """0.23 starts with exactly enough blocks, although block 0 is never given out."""
    if cache.num_blocks is not None and cache.num_blocks - 1 < cache.blocks_per_request:
        run.problem(
            "null_block_not_counted",
            "kv_cache_memory_bytes",
            f"The pool has {cache.num_blocks} blocks, one of them the null block; a request of "
            f"{run.max_model_len:,} tokens takes {cache.blocks_per_request}. vLLM 0.23 starts, "
            "but such a request never finishes (vllm#47272).",
            severity="warning",
            operands={
                "num_blocks": cache.num_blocks,
                "blocks_per_request": cache.blocks_per_request,
            },
            candidates=(
                {
                    "kv_cache_memory_bytes": cache.needed_bytes + cache.grouping.bytes_per_block,
                    "num_gpu_blocks_override": None,
                },
            ),
        )


def _gib(size: int) -> str:
    """Two decimals, trailing zeros dropped as Python drops them ("4.0", "0.3")."""
    return str(round(size / GIB, 2))
