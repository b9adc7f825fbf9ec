"""The checks that stop an engine with an offload connector, as problems with both operands (0.23).

Source: `OffloadingSpec.__init__` (`vllm/v1/kv_offload/base.py`), `CPUOffloadingSpec.__init__` and
`resolve_kv_cache_block_sizes` of 0.23; the order is theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workbench.core.problems import ERROR, Problem

ENABLE_PREFIX_CACHING: tuple[Mapping[str, Any], ...] = (
    {"enable_prefix_caching": True},
    {"enable_prefix_caching": True, "mamba_cache_mode": "align"},
    {"enable_prefix_caching": True, "max_num_batched_tokens": 16384},
)
"""Changes that make the blocks of mamba groups equal to those of attention.

The last one also lifts the token budget that align mode may need.
"""


def context_parallel_problem(decode: int, prefill: int, groups: int) -> Problem:
    """Several groups do not work with context parallelism."""
    return Problem(
        "context_parallel_with_groups",
        ERROR,
        "tensor_parallel",
        f"Context parallelism ({decode} for decode, {prefill} for prefill) works with one cache "
        f"group only; this model has {groups}.",
        {
            "decode_context_parallel": decode,
            "prefill_context_parallel": prefill,
            "groups": groups,
        },
        "Hybrid KV cache groups with multiple block sizes do not support context parallelism",
    )


def hash_size_problem(hash_block_size: int, sizes: Sequence[int]) -> Problem:
    """The configured hash block does not divide every group's block."""
    bad = next(size for size in sizes if size % hash_block_size)
    return Problem(
        "hash_block_size_not_divisor",
        ERROR,
        "block_size",
        f"The hash block ({hash_block_size:,} tokens) must divide the block of every group; it "
        f"leaves {bad % hash_block_size:,} of {bad:,}.",
        {"hash_block_size": hash_block_size, "group_block_sizes": tuple(sizes)},
        f"Invalid hash_block_size={hash_block_size}; all KV cache group block sizes must be "
        "divisible by hash_block_size.",
    )


def hash_problem(
    sizes: Sequence[int], hash_block_size: int, prefix_caching: bool
) -> Problem | None:
    """Groups whose block is no multiple of the hash block; None when all are.

    vLLM stops at the first in the order of the groups, and names only that one.
    """
    bad = [size for size in sizes if size % hash_block_size]
    if not bad:
        return None
    shown = " and ".join(f"{size:,}" for size in sorted(set(bad)))
    why = (
        ""
        if prefix_caching
        else " Without prefix caching a mamba block is as long as the longest request."
    )
    return Problem(
        "offload_hash_block_size",
        ERROR,
        "enable_prefix_caching",
        f"Offload needs group blocks that are multiples of the hash block ({hash_block_size:,} "
        f"tokens); {shown} tokens are not.{why}",
        {"gpu_block_size": bad[0], "hash_block_size": hash_block_size, "gpu_block_sizes": sizes},
        f"gpu_block_size={bad[0]} not divisible by hash_block_size={hash_block_size}.",
        () if prefix_caching else ENABLE_PREFIX_CACHING,
    )


def block_problem(sizes: Sequence[int], block_size: int | None) -> Problem | None:
    """A typed offloaded block: needs groups of one size, and must be a multiple of it."""
    if block_size is None:
        return None
    if len(set(sizes)) != 1:
        return Problem(
            "offload_groups_differ",
            ERROR,
            "enable_prefix_caching",
            f"An offloaded block of {block_size:,} tokens needs groups of one block size; these "
            f"have {', '.join(f'{size:,}' for size in sorted(set(sizes))) or 'no group'}.",
            {"block_size": block_size, "gpu_block_sizes": tuple(sizes)},
            "If 'block_size' is specified in kv_connector_extra_config, there must be at least one",
            ENABLE_PREFIX_CACHING,
        )
    size = sizes[0]
    if block_size % size == 0:
        return None
    below, above = block_size // size * size, (block_size // size + 1) * size
    near = f"{below:,} or {above:,}" if below else f"{above:,}"
    return Problem(
        "offload_block_not_multiple",
        ERROR,
        "block_size",
        f"An offloaded block of {block_size:,} tokens is no multiple of the GPU block of "
        f"{size:,}. Nearest: {near}.",
        {"block_size": block_size, "gpu_block_size": size},
        "AssertionError",
    )


def bytes_problem(cpu_bytes_to_use: int | None) -> Problem | None:
    """The host pool needs a size above 0."""
    if cpu_bytes_to_use:
        return None
    given = "is not given" if cpu_bytes_to_use is None else f"is {cpu_bytes_to_use}"
    return Problem(
        "offload_bytes_missing",
        ERROR,
        "kv_cache_memory_bytes",
        f"cpu_bytes_to_use {given}: the host pool has no size.",
        {"cpu_bytes_to_use": cpu_bytes_to_use},
        "cpu_bytes_to_use must be specified in kv_connector_extra_config",
    )
