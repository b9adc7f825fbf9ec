"""The checks that stop an engine with an offload connector, as problems with both operands.

Source: `OffloadingSpec.__init__` (`vllm/v1/kv_offload/base.py`), `CPUOffloadingSpec.__init__` and
`resolve_kv_cache_block_sizes` of 0.23; `build_offloading_config` of 0.33. The order is theirs.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from workbench.core.offload.rules import OffloadRules
from workbench.core.problems import ERROR, Problem

Changes = tuple[Mapping[str, Any], ...]
ENABLE_PREFIX_CACHING: Changes = (
    {"enable_prefix_caching": True},
    {"enable_prefix_caching": True, "mamba_cache_mode": "align"},
    # Align mode may need more than the default token budget.
    {"enable_prefix_caching": True, "max_num_batched_tokens": 16384},
)
"""Changes that make the blocks of mamba groups equal to those of attention."""


def stops(
    code: str,
    field: str,
    message: str,
    vllm_text: str | None = None,
    candidates: Changes = (),
    **operands: Any,
) -> Problem:
    """Return an error; operands: the numbers that clash."""
    return Problem(
        code,
        severity=ERROR,
        field=field,
        message=message,
        operands=operands,
        vllm_text=vllm_text,
        candidates=candidates,
    )


def no_group_problem() -> Problem:
    """Report that nothing could be offloaded (0.33)."""
    return stops(
        "offload_no_group",
        "model",
        "No layer keeps a cache that could be offloaded. Leave the connector out.",
        "KV offloading found no eligible cache groups.",
    )


def encoder_problem() -> Problem:
    """Report that no connector serves a model with an encoder (0.23 and 0.33)."""
    return stops(
        "connector_with_encoder",
        "model",
        "vLLM refuses every KV connector for a model with an encoder and a decoder. Leave the "
        "connector out.",
        # Raised by Scheduler.__init__
        "Encoder-decoder models are not currently supported with KV connectors",
    )


def chunk_problem(blocks_per_chunk: int | None, block_size: int | None) -> Problem | None:
    """Check the size of an offloaded block in GPU blocks (0.33): alone, and above 0."""
    if blocks_per_chunk is None:
        return None
    if block_size is not None:
        return stops(
            "offload_two_chunk_sizes",
            "block_size",
            f"An offloaded block has {block_size:,} tokens (block_size) or {blocks_per_chunk:,} "
            "GPU blocks (blocks_per_chunk), not both. Leave one of them out.",
            "Specify only one of 'block_size' or 'blocks_per_chunk' in kv_connector_extra_config.",
            block_size=block_size,
            blocks_per_chunk=blocks_per_chunk,
        )
    if blocks_per_chunk >= 1:
        return None
    return stops(
        "offload_chunk_below_1",
        "block_size",
        f"blocks_per_chunk must be at least 1; got {blocks_per_chunk}. Nearest valid: 1.",
        "'blocks_per_chunk' must be greater than 0.",
        blocks_per_chunk=blocks_per_chunk,
    )


def hash_problem(
    sizes: Sequence[int], hashes: int, enable_prefix_caching: bool, rules: OffloadRules
) -> Problem | None:
    """Return the groups whose block is not a multiple of the hash block; None when all are."""
    bad = [size for size in sizes if size % hashes]
    if not bad:
        return None
    block_word, hash_word = rules.unit_words
    shown = " and ".join(f"{size:,}" for size in sorted(set(bad)))
    why, candidates = "", ENABLE_PREFIX_CACHING[:0]
    if not enable_prefix_caching:
        why = " Without prefix caching a mamba block is as long as the longest request."
        candidates = ENABLE_PREFIX_CACHING
    return stops(
        "offload_hash_block_size",
        "enable_prefix_caching",
        f"Offload needs group blocks that are multiples of the hash block ({hashes:,} tokens); "
        f"{shown} tokens are not.{why}",
        # vLLM stops at the first in the order of the groups, and names only that one.
        f"{block_word}={bad[0]} not divisible by {hash_word}={hashes}.",
        candidates,
        gpu_block_size=bad[0],
        hash_block_size=hashes,
        gpu_block_sizes=sizes,
    )


def block_problem(
    sizes: Sequence[int], block_size: int | None, rules: OffloadRules
) -> Problem | None:
    """Check an explicit offloaded block: a multiple of the groups' block, which must be equal."""
    if block_size is None:
        return None
    if len(set(sizes)) != 1:
        return stops(
            "offload_groups_differ",
            "enable_prefix_caching",
            f"An offloaded block of {block_size:,} tokens needs groups of one block size; "
            f"these have {', '.join(f'{size:,}' for size in sorted(set(sizes))) or 'no group'}.",
            "If 'block_size' is specified in kv_connector_extra_config, there must be at least one",
            ENABLE_PREFIX_CACHING,
            block_size=block_size,
            gpu_block_sizes=tuple(sizes),
        )
    size = sizes[0]
    # 0.23 only asserts this, so its message is bare; 0.33 names the next multiple above.
    if block_size % size == 0:
        return None
    below, above = block_size // size * size, (block_size // size + 1) * size
    near = f"{below:,} or {above:,}" if below else f"{above:,}"
    return stops(
        "offload_block_not_multiple",
        "block_size",
        f"An offloaded block of {block_size:,} tokens is not a multiple of the GPU block of "
        f"{size:,}. Nearest: {near}.",
        f"'block_size'={block_size} in kv_connector_extra_config must be a multiple of the GPU KV "
        f"cache block size ({size} tokens). Use {above} instead, or set 'blocks_per_chunk' to "
        "express the chunk size in blocks."
        if rules.takes_blocks_per_chunk
        else "AssertionError",
        block_size=block_size,
        gpu_block_size=size,
    )


def bytes_problem(cpu_bytes_to_use: int | None) -> Problem | None:
    """Report a host pool whose size is not above 0."""
    # 0 counts as not given (CPUOffloadingSpec.__init__).
    if cpu_bytes_to_use:
        return None
    given = "is not given" if cpu_bytes_to_use is None else f"is {cpu_bytes_to_use}"
    return stops(
        "offload_bytes_missing",
        "kv_cache_memory_bytes",
        f"cpu_bytes_to_use {given}: the host pool has no size.",
        "cpu_bytes_to_use must be specified in kv_connector_extra_config",
        cpu_bytes_to_use=cpu_bytes_to_use,
    )
