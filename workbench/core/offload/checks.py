"""The checks that stop an engine with an offload connector, as problems with both operands.

Source: `OffloadingSpec.__init__` (`vllm/v1/kv_offload/base.py`), `CPUOffloadingSpec.__init__` and
`resolve_kv_cache_block_sizes` of 0.23; `build_offloading_config` of 0.33. The order is theirs.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from workbench.core.offload.rules import OffloadRules
from workbench.core.problems import Problem, declared

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
    words: Mapping[str, Any] = MappingProxyType({}),
    *,
    variant: str = "",
    candidates: Changes = (),
    **operands: Any,
) -> Problem:
    """Return the error that problems.json declares; operands: the numbers that clash.

    words: the others of its texts, and parts that depend on the plan.
    """
    found = declared(code, None, operands, variant=variant, candidates=candidates, **words)
    return Problem(code, **found)


def no_group_problem() -> Problem:
    """Report that nothing could be offloaded (0.33)."""
    return stops("offload_no_group")


def encoder_problem() -> Problem:
    """Report that no connector serves a model with an encoder (0.23 and 0.33)."""
    return stops("connector_with_encoder")


def chunk_problem(blocks_per_chunk: int | None, block_size: int | None) -> Problem | None:
    """Check the size of an offloaded block in GPU blocks (0.33): alone, and above 0."""
    if blocks_per_chunk is None:
        return None
    if block_size is not None:
        return stops(
            "offload_two_chunk_sizes", block_size=block_size, blocks_per_chunk=blocks_per_chunk
        )
    if blocks_per_chunk >= 1:
        return None
    return stops("offload_chunk_below_1", blocks_per_chunk=blocks_per_chunk)


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
        {"shown": shown, "why": why, "block_word": block_word, "hash_word": hash_word},
        candidates=candidates,
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
            {"group_sizes": ", ".join(f"{size:,}" for size in sorted(set(sizes))) or "no group"},
            candidates=ENABLE_PREFIX_CACHING,
            block_size=block_size,
            gpu_block_sizes=tuple(sizes),
        )
    size = sizes[0]
    if block_size % size == 0:
        return None
    below, above = block_size // size * size, (block_size // size + 1) * size
    near = f"{below:,} or {above:,}" if below else f"{above:,}"
    return stops(
        "offload_block_not_multiple",
        {"near": near, "above": above},
        variant="" if rules.takes_blocks_per_chunk else "bare",
        block_size=block_size,
        gpu_block_size=size,
    )


def bytes_problem(cpu_bytes_to_use: int | None) -> Problem | None:
    """Report a host pool whose size is not above 0."""
    # 0 counts as not given (CPUOffloadingSpec.__init__).
    if cpu_bytes_to_use:
        return None
    given = "is not given" if cpu_bytes_to_use is None else f"is {cpu_bytes_to_use}"
    return stops("offload_bytes_missing", {"given": given}, cpu_bytes_to_use=cpu_bytes_to_use)
