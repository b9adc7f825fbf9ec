# ruff: noqa: RET505 - of an if on what is known at compile time one branch is compiled
"""Boxes: keys that are copied at once, and where they and their values are in the pages.

A request's keys are visited in walks: those that descriptors copy, in whole boxes of their page,
and what is left of every page, by pointers. In a walk the keys of a box, and those of a tile, come
one after the other, with gaps between pages.
"""

from workbench.kernels.language import tl, triton
from workbench.kernels.paged_flex.bundles import Box, Pages, Sizes, Walk


@triton.jit
def no_boxes():
    """Return an empty tuple, to which something of each box is added."""
    return ()


@triton.jit
def keys_before(key, sizes: Sizes, walk: Walk):
    """Return how many keys of the walk come before a position of at least 0."""
    SIZE: tl.constexpr = sizes.BLOCK_SIZE
    count = key
    if walk.IN_PAGE < SIZE:
        within = tl.minimum(tl.maximum(key % SIZE - walk.AFTER, 0), walk.IN_PAGE)
        count = key // SIZE * walk.IN_PAGE + within
    return count


@triton.jit
def keys_of(i_box, sizes: Sizes, walk: Walk):
    """Return the positions [KEYS] of a box's keys in their request."""
    o_key = i_box * walk.KEYS + tl.arange(0, walk.KEYS)
    if walk.IN_PAGE < sizes.BLOCK_SIZE:
        if walk.IN_PAGE % walk.KEYS == 0:
            PER_PAGE: tl.constexpr = walk.IN_PAGE // walk.KEYS
            first = i_box // PER_PAGE * sizes.BLOCK_SIZE + i_box % PER_PAGE * walk.KEYS
            o_key = first + walk.AFTER + tl.arange(0, walk.KEYS)
        else:
            o_page = o_key // walk.IN_PAGE * sizes.BLOCK_SIZE
            o_key = o_page + walk.AFTER + o_key % walk.IN_PAGE
    return o_key


@triton.jit
def block_of(i_box, i_last, p_row, seq_len, m_any, sizes: Sizes, walk: Walk):
    """Return the kernel block of a box's keys: one, or one for each of its keys.

    i_last: the last box with keys; later ones are as that one. m_any: whether there is a box;
    without one the row is not read.
    """
    if walk.IN_PAGE % walk.KEYS == 0:
        # the box is in one kernel block: one table entry for all its keys
        b_part = tl.minimum(i_box, i_last) // (walk.IN_PAGE // walk.KEYS)
        b_entry = tl.load(p_row + b_part // sizes.RATIO, mask=m_any, other=0)
    else:
        o_key = keys_of(i_box, sizes, walk)
        b_part = o_key // sizes.BLOCK_SIZE
        m_entry = m_any & (o_key < seq_len)
        b_entry = tl.load(p_row + b_part // sizes.RATIO, mask=m_entry, other=0)
    return b_entry * sizes.RATIO + b_part % sizes.RATIO


@triton.jit
def blocks_of(i_tile, i_last, p_row, seq_len, m_any, sizes: Sizes, walk: Walk):
    """Return `block_of` for each box of a tile."""
    b_blocks = no_boxes()
    for i in tl.static_range(walk.BOXES):
        i_box = i_tile * walk.BOXES + i
        b_blocks += (block_of(i_box, i_last, p_row, seq_len, m_any, sizes, walk),)
    return b_blocks


@triton.jit
def box_of(i_box, b_block, pages: Pages, seq_len, sizes: Sizes, walk: Walk):
    """Return where a box's keys and values are."""
    o_key = keys_of(i_box, sizes, walk)
    # int64: block * stride exceeds 32 bits in large pools
    b_base = b_block.to(tl.int64) * pages.block
    if walk.IN_PAGE % walk.KEYS == 0:
        first = walk.AFTER + i_box % (walk.IN_PAGE // walk.KEYS) * walk.KEYS
        # one sum for the box, and distances that every box has in common
        o_slot = b_base + first * pages.token
        b_place = b_block * pages.block_rows + first
    else:
        o_slot = b_base + (o_key % sizes.BLOCK_SIZE) * pages.token
        b_place = 0
    return Box(key=o_key, in_request=o_key < seq_len, slot=o_slot, place=b_place)


@triton.jit
def box_at(boxes, i: tl.constexpr):
    """Return one box of a tuple of them."""
    # in a sum of tuples, Triton 3.6 loses the names of what a record has
    return Box(*boxes[i])


@triton.jit
def pointers_to(pointer, box: Box, pages: Pages, walk: Walk):
    """Return pointers [KEYS] to the first number of each of a box's keys or values."""
    if walk.IN_PAGE % walk.KEYS == 0:
        o_distance = tl.arange(0, walk.KEYS).to(tl.int64) * pages.token
        return (pointer + box.slot) + o_distance
    else:
        return pointer + box.slot


@triton.jit
def keys_in(box: Box, pages: Pages, sizes: Sizes, walk: Walk):
    """Return the first BLOCK_D dims of a box's keys: [KEYS, BLOCK_D] of a descriptor, else .T."""
    if walk.DESCRIBED:
        return pages.described_keys.load([box.place, 0])
    else:
        o_dim = tl.arange(0, sizes.BLOCK_D)
        p_keys = pointers_to(pages.key, box, pages, walk)[None, :] + o_dim[:, None]
        m_dim = o_dim < sizes.KEY_DIM
        return tl.load(p_keys, mask=box.in_request[None, :] & m_dim[:, None], other=0.0)


@triton.jit
def rest_in(box: Box, pages: Pages, sizes: Sizes, walk: Walk):
    """Return the dims [BLOCK_R, KEYS] of a box's keys after BLOCK_D."""
    if walk.DESCRIBED:
        return pages.described_rest.load([box.place, 0]).T
    else:
        o_dim = sizes.BLOCK_D + tl.arange(0, sizes.BLOCK_R)
        p_keys = pointers_to(pages.key, box, pages, walk)[None, :] + o_dim[:, None]
        m_dim = o_dim < sizes.KEY_DIM
        return tl.load(p_keys, mask=box.in_request[None, :] & m_dim[:, None], other=0.0)


@triton.jit
def values_in(box: Box, m_value, pages: Pages, sizes: Sizes, walk: Walk):
    """Return a box's values [KEYS, BLOCK_V] where they are not those of the keys."""
    if walk.DESCRIBED:
        return pages.described_values.load([box.place + pages.value_rows, 0])
    else:
        o_dim = tl.arange(0, sizes.BLOCK_V)
        p_values = pointers_to(pages.value, box, pages, walk)[:, None] + o_dim[None, :]
        m_dim = o_dim < sizes.VALUE_DIM
        return tl.load(p_values, mask=m_value[:, None] & m_dim[None, :], other=0.0)
