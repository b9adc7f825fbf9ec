"""Prefix hashes of blocks: a chain over small units, and what a larger block gets from it.

vLLM 0.23 joins the hashes of the units in a block; 0.33 takes the last one, which already covers
all before it. The chain here is vLLM's, its hash function is not (SHA-256 of the parent and the
tokens), so the bytes are an example and no key of a real store. Source:
`BlockHashListWithBlockSize` and `hash_block_tokens` in `vllm/v1/core/kv_cache_utils.py`.
"""

from collections.abc import Sequence
from hashlib import sha256

from workbench.core.offload.rules import CONCATENATED, OffloadRules

NO_PARENT = b"no parent"
TOKEN_BYTES = 4


def unit_hashes(tokens: Sequence[int], unit_tokens: int) -> tuple[bytes, ...]:
    """Return the hash of every full unit, chained to the one before it. Errors: ValueError."""
    if unit_tokens < 1:
        raise ValueError(f"unit_tokens must be at least 1; got {unit_tokens}.")
    found: list[bytes] = []
    parent = NO_PARENT
    for start in range(0, len(tokens) - unit_tokens + 1, unit_tokens):
        ids = tokens[start : start + unit_tokens]
        parent = sha256(parent + b"".join(t.to_bytes(TOKEN_BYTES, "big") for t in ids)).digest()
        found.append(parent)
    return tuple(found)


def block_hashes(
    units: Sequence[bytes], unit_tokens: int, block_tokens: int, rules: OffloadRules
) -> tuple[bytes, ...]:
    """Return the hash of every full block of `block_tokens` tokens, as a version joins the units.

    Errors: ValueError for a block that is not a multiple of the unit.
    """
    if block_tokens % unit_tokens or block_tokens < 1:
        raise ValueError(
            f"a block of {block_tokens:,} tokens is not a multiple of the unit of {unit_tokens:,}. "
            f"Nearest: {max(1, round(block_tokens / unit_tokens)) * unit_tokens:,}."
        )
    count = block_tokens // unit_tokens
    ends = range(count, len(units) + 1, count)
    if rules.large_block_hash == CONCATENATED:
        return tuple(b"".join(units[end - count : end]) for end in ends)
    return tuple(units[end - 1] for end in ends)
