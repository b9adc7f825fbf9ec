"""Ownership of bytes: every byte of block b must be in page b, or blocks meet."""

from __future__ import annotations

from workbench.core.layouts.shapes import NUM_BLOCKS
from workbench.core.layouts.view import View


def block_ranges(view: View, block: int, blocks_per_page: int = 1) -> tuple[range, ...]:
    """Return the bytes of one manager block: of its `blocks_per_page` kernel blocks, ascending."""
    kernels = range(block * blocks_per_page, (block + 1) * blocks_per_page)
    ranges = [part for kernel in kernels for part in view.byte_ranges({NUM_BLOCKS: kernel})]
    return tuple(sorted(ranges, key=lambda part: part.start))


def bytes_outside_their_page(
    view: View, page_bytes: int, blocks_per_page: int = 1, first_byte: int = 0
) -> int:
    """Return the bytes of all blocks that are outside the block's own page of `page_bytes` bytes.

    first_byte: of page 0.
    """
    blocks = view.shape[view.block_axis] // blocks_per_page
    step_bytes = view.strides[view.block_axis] * view.itemsize * blocks_per_page
    page = (page_bytes, blocks_per_page, first_byte)
    if step_bytes == page_bytes or blocks == 1:
        # Every block is in its page as the first one does.
        return blocks * _outside(view, 0, *page)
    return sum(_outside(view, block, *page) for block in range(blocks))


def _outside(view: View, block: int, page_bytes: int, blocks_per_page: int, first_byte: int) -> int:
    start = first_byte + block * page_bytes
    end = start + page_bytes
    parts = block_ranges(view, block, blocks_per_page)
    inside = sum(max(0, min(part.stop, end) - max(part.start, start)) for part in parts)
    return sum(map(len, parts)) - inside
