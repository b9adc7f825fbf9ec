"""The fast path's first launch: everything staged, for all groups, and each token's row."""

from workbench.kernels.block_table.fast_fields import (
    HEADER,
    LAYOUT_FIELDS,
    REQUESTS,
    SOURCE_BASE,
    SOURCE_STRIDE,
)
from workbench.kernels.language import tl, triton


@triton.jit
def apply_kernel(
    p_batch,
    p_query_start_loc,
    p_staged,
    p_layout,
    p_sources,
    p_counts,
    max_requests,
    p_token_rows,
    IDS: tl.constexpr,
    STEPS: tl.constexpr,
    APPLY: tl.constexpr,
    FILL: tl.constexpr,
):
    """Write everything staged, for all groups (APPLY), and the row of every token (FILL).

    Any grid: programs share ids and rows out.

    staged: int32, header (writes, ids, words of a plane), then the planes group, request, start,
    offset, then the ids. Entry i belongs to the last write whose offset is <= i. sources: the
    arena of [group][request, manager_block]; counts: [group, request] manager blocks. batch: the
    header of gather_and_slots_kernel; token_rows: [tokens] -> batch row, int32.
    """
    if FILL:
        for i_row in range(tl.program_id(0), tl.load(p_batch + REQUESTS), tl.num_programs(0)):
            i_start = tl.load(p_query_start_loc + i_row)
            i_end = tl.load(p_query_start_loc + i_row + 1)
            for i_first in range(i_start, i_end, IDS):
                o_token = i_first + tl.arange(0, IDS)
                b_row = tl.zeros([IDS], tl.int32) + i_row
                tl.store(p_token_rows + o_token, b_row, mask=o_token < i_end)
    if APPLY:
        write_staged(p_staged, p_layout, p_sources, p_counts, max_requests, IDS, STEPS)


@triton.jit
def write_staged(
    p_staged,
    p_layout,
    p_sources,
    p_counts,
    max_requests,
    IDS: tl.constexpr,
    STEPS: tl.constexpr,
):
    """Write ids and counts, as apply_kernel says."""
    num_writes = tl.load(p_staged)
    num_ids = tl.load(p_staged + 1)
    plane_words = tl.load(p_staged + 2)
    p_group = p_staged + HEADER
    p_request = p_group + plane_words
    p_start = p_request + plane_words
    p_offset = p_start + plane_words
    p_ids = p_offset + plane_words
    # programs share writes and ids with one loop: entry i is both write i and id i
    i_begin = tl.program_id(0) * IDS
    for i_first in range(i_begin, tl.maximum(num_writes, num_ids), tl.num_programs(0) * IDS):
        o_entry = i_first + tl.arange(0, IDS)

        m_write = o_entry < num_writes
        b_group = tl.load(p_group + o_entry, mask=m_write, other=0)
        b_request = tl.load(p_request + o_entry, mask=m_write, other=0)
        b_first = tl.load(p_offset + o_entry, mask=m_write, other=0)
        # the last write has no successor: it ends with the ids
        b_next = tl.load(p_offset + o_entry + 1, mask=o_entry + 1 < num_writes, other=0)
        b_length = tl.where(o_entry + 1 < num_writes, b_next, num_ids) - b_first
        b_start = tl.load(p_start + o_entry, mask=m_write, other=0)
        o_count = b_group.to(tl.int64) * max_requests + b_request
        # counts are read by the next launch of the stream, never by this one
        tl.store(p_counts + o_count, b_start + b_length, mask=m_write)

        m_id = o_entry < num_ids
        # binary search for the last write whose offset is at or before the entry
        b_write = tl.zeros([IDS], tl.int32)
        for i_step in tl.static_range(STEPS):
            b_candidate = b_write + (1 << (STEPS - 1 - i_step))
            m_candidate = m_id & (b_candidate < num_writes)
            b_offset = tl.load(p_offset + b_candidate, mask=m_candidate, other=0)
            b_write = tl.where(m_candidate & (b_offset <= o_entry), b_candidate, b_write)
        b_group = tl.load(p_group + b_write, mask=m_id, other=0).to(tl.int64)
        b_request = tl.load(p_request + b_write, mask=m_id, other=0).to(tl.int64)
        # column = start of the write + place of the id within it
        b_column = tl.load(p_start + b_write, mask=m_id, other=0) + o_entry
        b_column -= tl.load(p_offset + b_write, mask=m_id, other=0)
        p_field = p_layout + b_group * LAYOUT_FIELDS
        b_base = tl.load(p_field + SOURCE_BASE, mask=m_id, other=0)
        b_stride = tl.load(p_field + SOURCE_STRIDE, mask=m_id, other=0)
        b_id = tl.load(p_ids + o_entry, mask=m_id, other=0)
        tl.store(p_sources + b_base + b_request * b_stride + b_column, b_id, mask=m_id)
