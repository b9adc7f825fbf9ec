"""The kernels of the path that works as vLLM 0.33's V2 runner does.

Tables hold manager blocks, each in its own allocation, reached through arrays of pointers on the
device. One launch writes what is staged for all groups; what an attention kernel reads as kernel
blocks is made of the gathered rows afterwards.
"""

from workbench.kernels.language import tl, triton


@triton.jit
def fused_apply_kernel(
    p_tables, p_strides, p_groups, p_requests, p_starts, p_ends, p_ids, BLOCK: tl.constexpr
):
    """Copy a part of one staged write of any group. Grid: (writes, BLOCK ids of the longest).

    tables, strides: [groups] int64 addresses and entries of a row; groups, requests, starts, ends
    [writes] int32: write w puts ids[ends[w - 1] : ends[w]] at its row, from starts[w] on.
    """
    i_write = tl.program_id(0)
    i_group = tl.load(p_groups + i_write)
    b_first = tl.load(p_ends + i_write - 1, mask=i_write > 0, other=0)
    b_count = tl.load(p_ends + i_write) - b_first
    p_row = tl.load(p_tables + i_group).to(tl.pointer_type(tl.int32))
    # int64: row * stride exceeds 32 bits in large tables
    p_row += tl.load(p_requests + i_write).to(tl.int64) * tl.load(p_strides + i_group)
    p_row += tl.load(p_starts + i_write)
    o_id = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    m_id = o_id < b_count
    tl.store(p_row + o_id, tl.load(p_ids + b_first + o_id, mask=m_id, other=0), mask=m_id)


@triton.jit
def windowed_gather_kernel(
    p_idx_mapping, p_query_start_loc, p_positions, p_sources, p_targets, p_strides, p_counts,
    p_reaches, p_sizes, max_requests, num_requests,
    WINDOWS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Copy, or zero, one batch row of one group per program. Grid: (groups, rows).

    Rows from num_requests on, and dummy requests, become 0. WINDOWS: blocks wholly below the
    window of a request's first token become the null block, where its group has a reach: they may
    belong to another request by now, whose NaN would pass through a tile that is masked in part.
    """
    i_group = tl.program_id(0)
    i_row = tl.program_id(1).to(tl.int64)
    b_stride = tl.load(p_strides + i_group)
    p_target = tl.load(p_targets + i_group).to(tl.pointer_type(tl.int32)) + i_row * b_stride
    b_request = tl.load(p_idx_mapping + i_row, mask=i_row < num_requests, other=-1).to(tl.int64)
    if b_request < 0:
        for i_zero in range(0, b_stride, BLOCK):
            o_zero = i_zero + tl.arange(0, BLOCK)
            tl.store(p_target + o_zero, tl.zeros([BLOCK], tl.int32), mask=o_zero < b_stride)
    else:
        p_source = tl.load(p_sources + i_group).to(tl.pointer_type(tl.int32))
        p_source += b_request * b_stride
        b_count = tl.load(p_counts + i_group * max_requests + b_request)
        b_null = 0
        if WINDOWS:
            b_reach = tl.load(p_reaches + i_group)
            b_first = tl.load(p_positions + tl.load(p_query_start_loc + i_row)).to(tl.int32)
            b_below = tl.maximum(b_first - b_reach, 0) // tl.load(p_sizes + i_group)
            b_null = tl.where(b_reach > 0, b_below, 0)
        for i_first in range(0, b_count, BLOCK):
            o_block = i_first + tl.arange(0, BLOCK)
            m_block = o_block < b_count
            b_block = tl.load(p_source + o_block, mask=m_block & (o_block >= b_null), other=0)
            tl.store(p_target + o_block, b_block, mask=m_block)


@triton.jit
def switched_slots_kernel(
    p_idx_mapping, p_query_start_loc, p_positions, p_tables, p_strides, p_sizes, p_counts,
    p_enabled, p_sharded, p_slots, slot_stride, max_requests, max_tokens,
    CP_SIZE: tl.constexpr, CP_RANK: tl.constexpr, CP_INTERLEAVE: tl.constexpr,
    PAD_SLOT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Map one request's tokens of one group per program; the last program pads.

    Grid: (groups, requests + 1). sizes: [groups] int32 *manager* block sizes; enabled, sharded:
    [groups] int32, whether a group has slots at all, and whether ranks share its tokens out. A
    token whose block its row does not have gets PAD_SLOT (vLLM reads whatever id is there).
    """
    i_group = tl.program_id(0)
    i_row = tl.program_id(1)
    b_start = tl.load(p_query_start_loc + i_row)
    p_slot = p_slots + i_group.to(tl.int64) * slot_stride
    if i_row == tl.num_programs(1) - 1:
        for i_pad in range(b_start, max_tokens, BLOCK):
            o_pad = i_pad + tl.arange(0, BLOCK)
            b_pad = tl.full([BLOCK], PAD_SLOT, tl.int64)
            tl.store(p_slot + o_pad, b_pad, mask=o_pad < max_tokens)
    else:
        b_end = tl.load(p_query_start_loc + i_row + 1)
        b_request = tl.load(p_idx_mapping + i_row).to(tl.int64)
        m_request = (b_request >= 0) & (tl.load(p_enabled + i_group) != 0)
        b_size = tl.load(p_sizes + i_group).to(tl.int64)
        b_count = tl.load(p_counts + i_group * max_requests + b_request, mask=m_request, other=0)
        p_row = tl.load(p_tables + i_group).to(tl.pointer_type(tl.int32))
        p_row += b_request * tl.load(p_strides + i_group)
        for i_first in range(b_start, b_end, BLOCK):
            o_token = i_first + tl.arange(0, BLOCK)
            m_token = o_token < b_end
            b_position = tl.load(p_positions + o_token, mask=m_token, other=0).to(tl.int64)
            m_here = m_token & m_request
            if CP_SIZE > 1:
                m_whole = tl.load(p_sharded + i_group) == 0
                b_offset = b_position % (b_size * CP_SIZE)
                b_local = b_position // (b_size * CP_SIZE) * b_size
                b_local += b_offset // (CP_INTERLEAVE * CP_SIZE) * CP_INTERLEAVE
                b_local += b_offset % CP_INTERLEAVE
                m_here &= m_whole | ((b_offset // CP_INTERLEAVE) % CP_SIZE == CP_RANK)
                b_position = tl.where(m_whole, b_position, b_local)
            b_logical = b_position // b_size
            m_here &= b_logical < b_count
            # int64: block * size exceeds 32 bits in large pools
            b_block = tl.load(p_row + b_logical, mask=m_here, other=0).to(tl.int64)
            b_slot = tl.where(m_here, b_block * b_size + b_position % b_size, PAD_SLOT)
            tl.store(p_slot + o_token, b_slot, mask=m_token)
