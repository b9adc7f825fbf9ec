"""The checks that stop an engine with an offload connector, as problems with both operands.

Source: `OffloadingSpec.__init__` (`vllm/v1/kv_offload/base.py`), `CPUOffloadingSpec.__init__` and
`resolve_kv_cache_block_sizes` of 0.23; `build_offloading_config` of 0.33. The order is theirs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workbench.core.offload.rules import OffloadRules
from workbench.core.problems import ERROR, Problem

PLAIN = OffloadRules()
ENABLE_PREFIX_CACHING: tuple[Mapping[str, Any], ...] = (
    {"enable_prefix_caching": True},
    {"enable_prefix_caching": True, "mamba_cache_mode": "align"},
    {"enable_prefix_caching": True, "max_num_batched_tokens": 16384},
)
"""Changes that make the blocks of mamba groups equal to those of attention.

The last one also lifts the token budget that align mode may need.
"""


def context_parallel_problem(decode: int, prefill: int, groups: int) -> Problem:
    """Report several groups, which do not work with context parallelism."""
    return Problem(
        "context_parallel_with_groups",
        severity=ERROR,
        field="tensor_parallel",
        message=f"Context parallelism ({decode} for decode, {prefill} for prefill) works with one "
        f"cache group only; this model has {groups}.",
        operands={
            "decode_context_parallel": decode,
            "prefill_context_parallel": prefill,
            "groups": groups,
        },
        vllm_text="Hybrid KV cache groups with multiple block sizes do not support context "
        "parallelism",
    )


def hash_size_problem(
    hash_block_size: int, sizes: Sequence[int], rules: OffloadRules = PLAIN
) -> Problem:
    """Report a configured hash block that does not divide every group's block."""
    option = rules.hash_option
    text = (
        f"Invalid {option}={hash_block_size}; prefix-cacheable KV cache group block sizes must be "
        f"divisible by {option}. Got group block sizes={list(sizes)}, "
        f"prefix-cacheable={list(sizes)}."
        if rules.checks_single_group
        else f"Invalid {option}={hash_block_size}; all KV cache group block sizes must be "
        f"divisible by {option}."
    )
    bad = next(size for size in sizes if size % hash_block_size)
    return Problem(
        "hash_block_size_not_divisor",
        severity=ERROR,
        field="block_size",
        message=f"The hash block ({hash_block_size:,} tokens) must divide the block of every "
        f"group; it leaves {bad % hash_block_size:,} of {bad:,}.",
        operands={"hash_block_size": hash_block_size, "group_block_sizes": tuple(sizes)},
        vllm_text=text,
    )


def single_group_problem(hash_block_size: int, block_size: int) -> Problem:
    """Report an explicit unit of hashes that a single group cannot have (0.33)."""
    return Problem(
        "single_group_hash_block",
        severity=ERROR,
        field="block_size",
        message=f"With one cache group hits end on its block of {block_size:,} tokens; "
        "prefix_match_unit = "
        f"{hash_block_size:,} is not supported. Omit it, or take {block_size:,}.",
        operands={"hash_block_size": hash_block_size, "block_size": block_size},
        vllm_text=f"Invalid prefix_match_unit={hash_block_size}; with a single KV cache group, "
        "prefix-cache "
        f"hits land on the block size ({block_size}). Unset it or set it to {block_size}.",
    )


def no_group_problem() -> Problem:
    """Report that nothing could be offloaded (0.33)."""
    return Problem(
        "offload_no_group",
        severity=ERROR,
        field="model",
        message="No layer keeps a cache that could be offloaded. Leave the connector out.",
        operands={},
        vllm_text="KV offloading found no eligible cache groups.",
    )


def chunk_problem(blocks_per_chunk: int | None, block_size: int | None) -> Problem | None:
    """Check the size of an offloaded block in GPU blocks (0.33): alone, and above 0."""
    if blocks_per_chunk is None:
        return None
    if block_size is not None:
        return Problem(
            "offload_two_chunk_sizes",
            severity=ERROR,
            field="block_size",
            message=f"block_size = {block_size:,} tokens and blocks_per_chunk = "
            f"{blocks_per_chunk:,} both "
            "say how large an offloaded block is. Leave one of them out.",
            operands={"block_size": block_size, "blocks_per_chunk": blocks_per_chunk},
            vllm_text="Specify only one of 'block_size' or 'blocks_per_chunk' in "
            "kv_connector_extra_config.",
        )
    if blocks_per_chunk >= 1:
        return None
    return Problem(
        "offload_chunk_below_1",
        severity=ERROR,
        field="block_size",
        message=f"blocks_per_chunk must be at least 1; got {blocks_per_chunk}. Nearest valid: 1.",
        operands={"blocks_per_chunk": blocks_per_chunk},
        vllm_text="'blocks_per_chunk' must be greater than 0.",
    )


def hash_problem(
    sizes: Sequence[int],
    hash_block_size: int,
    enable_prefix_caching: bool,
    rules: OffloadRules = PLAIN,
) -> Problem | None:
    """Return the groups whose block is not a multiple of the hash block; None when all are.

    vLLM stops at the first in the order of the groups, and names only that one.
    """
    bad = [size for size in sizes if size % hash_block_size]
    if not bad:
        return None
    block_word, hash_word = rules.unit_words
    shown = " and ".join(f"{size:,}" for size in sorted(set(bad)))
    why = (
        ""
        if enable_prefix_caching
        else " Without prefix caching a mamba block is as long as the longest request."
    )
    return Problem(
        "offload_hash_block_size",
        severity=ERROR,
        field="enable_prefix_caching",
        message="Offload needs group blocks that are multiples of the hash block "
        f"({hash_block_size:,} tokens); {shown} tokens are not.{why}",
        operands={
            "gpu_block_size": bad[0],
            "hash_block_size": hash_block_size,
            "gpu_block_sizes": sizes,
        },
        vllm_text=f"{block_word}={bad[0]} not divisible by {hash_word}={hash_block_size}.",
        candidates=() if enable_prefix_caching else ENABLE_PREFIX_CACHING,
    )


def block_problem(
    sizes: Sequence[int], block_size: int | None, rules: OffloadRules = PLAIN
) -> Problem | None:
    """Check an explicit offloaded block.

    It needs groups of one size, and must be a multiple of it.
    """
    if block_size is None:
        return None
    if len(set(sizes)) != 1:
        return Problem(
            "offload_groups_differ",
            severity=ERROR,
            field="enable_prefix_caching",
            message=f"An offloaded block of {block_size:,} tokens needs groups of one block size; "
            f"these have {', '.join(f'{size:,}' for size in sorted(set(sizes))) or 'no group'}.",
            operands={"block_size": block_size, "gpu_block_sizes": tuple(sizes)},
            vllm_text="If 'block_size' is specified in kv_connector_extra_config, there must be "
            "at least one",
            candidates=ENABLE_PREFIX_CACHING,
        )
    size = sizes[0]
    if block_size % size == 0:
        return None
    below, above = block_size // size * size, (block_size // size + 1) * size
    near = f"{below:,} or {above:,}" if below else f"{above:,}"
    return Problem(
        "offload_block_not_multiple",
        severity=ERROR,
        field="block_size",
        message=f"An offloaded block of {block_size:,} tokens is not a multiple of the GPU block "
        f"of {size:,}. Nearest: {near}.",
        operands={"block_size": block_size, "gpu_block_size": size},
        vllm_text=f"'block_size'={block_size} in kv_connector_extra_config must be a multiple of "
        "the GPU KV "
        f"cache block size ({size} tokens). Use {above} instead, or set 'blocks_per_chunk' to "
        "express the chunk size in blocks."
        if rules.takes_blocks_per_chunk
        else "AssertionError",
    )


def bytes_problem(cpu_bytes_to_use: int | None) -> Problem | None:
    """Report a host pool whose size is not above 0."""
    if cpu_bytes_to_use:
        return None
    given = "is not given" if cpu_bytes_to_use is None else f"is {cpu_bytes_to_use}"
    return Problem(
        "offload_bytes_missing",
        severity=ERROR,
        field="kv_cache_memory_bytes",
        message=f"cpu_bytes_to_use {given}: the host pool has no size.",
        operands={"cpu_bytes_to_use": cpu_bytes_to_use},
        vllm_text="cpu_bytes_to_use must be specified in kv_connector_extra_config",
    )
