"""Sizes of a head's keys and values, and where both are in a cache."""

from dataclasses import dataclass
from typing import NamedTuple

import torch

from workbench.kernels.errors import PagedFlexError

WIDEST_KEY = 576
"""Of MLA: 512 compressed dims, and 64 of the rotary part."""
WIDEST_VALUE = 512
SMALLEST_DIMS = 16
"""What a matrix instruction takes at least."""

PAIRS = "[num_blocks, 2, block, kv_heads, head_dim]"
ROWS = "[num_blocks, block, kv_heads, row]"


def padded_head_dim(head_dim: int) -> int:
    """Return the power of two that holds a tile's dims; the rest is masked."""
    return max(SMALLEST_DIMS, 1 << (head_dim - 1).bit_length())


@dataclass(frozen=True, slots=True)
class HeadDims:
    """The dims of a key, which a query has, too, and of a value."""

    key: int
    value: int
    in_key: bool = False
    """A value is the first dims of its key."""

    @property
    def parts_of_key(self) -> tuple[int, int]:
        """Return the powers of two that hold a key: one, and 0, or two if they are shorter."""
        whole = padded_head_dim(self.key)
        first = max(SMALLEST_DIMS, 1 << self.key.bit_length() - 1)
        if self.key <= self.value or self.key <= first:
            return whole, 0
        rest = padded_head_dim(self.key - first)
        return (first, rest) if first + rest < whole else (whole, 0)

    @property
    def share_a_tile(self) -> bool:
        """Return whether the first part of a tile of keys is the tile of values."""
        return self.in_key and self.value == self.parts_of_key[0]

    @property
    def width(self) -> int:
        """Return what tiles are chosen by: the dims of a sum, or half of a key's if more."""
        return max(self.value, -(-self.key // 2))

    @property
    def buffered(self) -> tuple[int, int]:
        """Return the numbers that a key, and a value, take in a tile's buffers.

        A value has its own even where it is a part of its key: pointers load it again.
        """
        return sum(self.parts_of_key), padded_head_dim(self.value)


class Views(NamedTuple):
    """A cache's keys and values [num_blocks, block, kv_heads, dims], of the same strides."""

    keys: torch.Tensor
    values: torch.Tensor


def cache_views(
    kv_cache: torch.Tensor, head_dim: int, value_dim: int | None
) -> tuple[Views, HeadDims]:
    """Return where keys and values are. Errors: PagedFlexError for sizes that do not fit.

    [num_blocks, 2, block, kv_heads, head_dim]: keys, then values of the same size. [num_blocks,
    block, kv_heads, row]: a row is a key, then a value; or a key alone, whose first value_dim
    numbers are the value (MLA). value_dim None: what is left of the row.
    """
    width = kv_cache.shape[-1]
    if kv_cache.dim() == 5:
        views, dims = Views(*kv_cache.unbind(1)), HeadDims(head_dim, width)
        right = width == head_dim and value_dim in {None, head_dim}
        wanted = f"{PAIRS} holds keys and values of head_dim {head_dim} dims"
    elif width == head_dim and value_dim is not None:
        views = Views(kv_cache, kv_cache[..., :value_dim])
        dims, right = HeadDims(head_dim, value_dim, in_key=True), 1 <= value_dim <= head_dim
        wanted = f"value_dim, of the key's first dims, must be in 1..{head_dim}"
    else:
        dims = HeadDims(head_dim, width - head_dim)
        views = Views(kv_cache[..., :head_dim], kv_cache[..., head_dim:])
        right = width > head_dim and value_dim in {None, dims.value}
        wanted = (
            f"{PAIRS} holds keys and values of one size, {ROWS} a row of {head_dim} + value_dim "
            f"numbers, or a key of {head_dim}, the first value_dim of which are the value"
        )
    if not right:
        raise PagedFlexError(
            f"query has head_dim {head_dim}, kv_cache {width}, value_dim is {value_dim}: {wanted}",
            field="kv_cache",
            given=width,
            limit=head_dim,
        )
    for name, given, most in (
        ("head_dim", head_dim, WIDEST_KEY),
        ("value_dim", dims.value, WIDEST_VALUE),
    ):
        if not 1 <= given <= most:
            raise PagedFlexError(
                f"{name} must be in 1..{most}; got {given}",
                field="query" if name == "head_dim" else "kv_cache",
                given=given,
                limit=most,
            )
    return views, dims
