"""Sets of kernel block sizes that a backend supports, and the two predicates over them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True)
class MultipleOf:
    """Every positive multiple of `base` tokens."""

    base: int

    def __hash__(self) -> int:
        return self.base  # half the time of the hash that is made from the fields

    def __str__(self) -> str:
        return f"MultipleOf({self.base})"


BlockSize = int | MultipleOf
"""An exact kernel block size in tokens, or all multiples of one."""


def base_of(entry: BlockSize) -> int:
    """Return the exact size itself, or the base of a multiple."""
    return entry if isinstance(entry, int) else entry.base


def scaled(supported: Sequence[BlockSize], factor: int) -> tuple[BlockSize, ...]:
    """Return so many times each size."""
    return tuple(
        size * factor if isinstance(size, int) else MultipleOf(size.base * factor)
        for size in supported
    )


def smallest_base(supported: Sequence[BlockSize]) -> int:
    """Return the smallest base of a list (1 for an empty one, which supports everything)."""
    return min(map(base_of, supported), default=1)


def supports_block_size(supported: Sequence[BlockSize], block_size: int | None) -> bool:
    """Return whether some entry divides `block_size`; an exact size counts by modulo here."""
    # True for no size and for an empty list. Source: AttentionBackend.supports_block_size, 0.23.
    if block_size is None or not supported:
        return True
    # The runner cuts a manager block into kernel blocks, so a multiple of an exact size is as good.
    return any(block_size % base_of(entry) == 0 for entry in supported)


def accepts_kernel_block(supported: Sequence[BlockSize], size: int) -> bool:
    """Return whether a kernel may see blocks of `size`."""
    # An exact entry counts if it is equal, a multiple by modulo.
    return any(
        size == entry if isinstance(entry, int) else size % entry.base == 0 for entry in supported
    )


@lru_cache(maxsize=4096)
def common_kernel_block(
    supported: tuple[tuple[BlockSize, ...], ...], block_size: int
) -> int | None:
    """Return the kernel block that all entries of `supported` allow, or None without a common one.

    The manager block itself when all accept it, else the largest exact size that divides it and
    that all accept. Source: select_common_block_size, 0.23 (#38831 for its use in block tables).
    """
    if all(accepts_kernel_block(entries, block_size) for entries in supported):
        return block_size
    # A multiple that takes a divisor of the block takes the block, too: exact sizes are all that is
    # left to try (the same function).
    exact = {entry for entries in supported for entry in entries if isinstance(entry, int)}
    for size in sorted(exact, reverse=True):
        if block_size % size == 0 and all(
            accepts_kernel_block(entries, size) for entries in supported
        ):
            return size
    return None


def largest_block_within(supported: Sequence[BlockSize], tokens: int) -> int | None:
    """Return the largest supported block up to `tokens`, else the smallest; None for no list."""
    # Source: `_largest_kernel_block_within`, 0.33.
    # The block whose page fills the shared page best: what it does not fill is wasted in every
    # block.
    candidates = [
        entry if isinstance(entry, int) else max(entry.base, tokens // entry.base * entry.base)
        for entry in supported
    ]
    fitting = [size for size in candidates if size <= tokens]
    return max(fitting, default=min(candidates, default=None))


def describe(supported: Sequence[BlockSize]) -> list[int | str]:
    """Return the published form: exact sizes as numbers, multiples as "MultipleOf(n)"."""
    return [entry if isinstance(entry, int) else str(entry) for entry in supported]
