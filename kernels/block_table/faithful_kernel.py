"""The faithful path's kernels: the work split of vLLM 0.23's V2 runner (#38831).

Tables hold kernel blocks, expanded on the host. Every group's table is its own allocation, reached
through arrays of pointers and strides on the device, so no load knows how its row is aligned.
Positions and slots are divided in 64 bits. Kept as it is: this is what the fast path is held to.
"""

from workbench.kernels.language import tl, triton


@triton.jit
def apply_group_kernel(
    p_table,
    row_stride,
    p_requests,
    p_starts,
    p_offsets,
    p_ids,
    BLOCK: tl.constexpr,
):
    """Copy one staged write per program into one group's table. Grid: (writes,).

    table: [request, kernel_block] int32; requests, starts [writes] and offsets [writes + 1] int32;
    ids: packed kernel blocks, int32. Write w puts ids[offsets[w] : offsets[w+1]] at
    table[requests[w], starts[w] :].
    """
    i_write = tl.program_id(0)
    # int64: row * stride exceeds 32 bits in large tables
    b_request = tl.load(p_requests + i_write).to(tl.int64)
    b_first = tl.load(p_offsets + i_write)
    b_count = tl.load(p_offsets + i_write + 1) - b_first
    p_row = p_table + b_request * row_stride + tl.load(p_starts + i_write)
    for i_first in range(0, b_count, BLOCK):
        o_id = i_first + tl.arange(0, BLOCK)
        m_id = o_id < b_count
        b_id = tl.load(p_ids + b_first + o_id, mask=m_id, other=0)
        tl.store(p_row + o_id, b_id, mask=m_id)


@triton.jit
def gather_kernel(
    p_idx_mapping,
    p_sources,
    p_targets,
    p_strides,
    p_counts,
    max_requests,
    num_requests,
    BLOCK: tl.constexpr,
):
    """Copy, or zero, one batch row of one group per program. Grid: (groups, padded requests).

    sources, targets: [groups] int64 addresses of [request, kernel_block] int32 tables; strides:
    [groups] int64 entries between rows, the group's own; counts: [group, request] kernel blocks.
    Rows from num_requests on, and dummy requests (-1), become 0 over the group's whole stride.
    Entries after a live row's last block are left as they were.
    """
    i_group = tl.program_id(0)
    i_row = tl.program_id(1).to(tl.int64)
    # each group has its own width; one stride for all was the bug in the review of vllm#38831
    b_stride = tl.load(p_strides + i_group)
    p_target = tl.load(p_targets + i_group).to(tl.pointer_type(tl.int32)) + i_row * b_stride
    # other=-1: padded rows take the dummy branch, which zeroes them
    b_request = tl.load(p_idx_mapping + i_row, mask=i_row < num_requests, other=-1).to(tl.int64)
    if b_request < 0:
        for i_zero in range(0, b_stride, BLOCK):
            o_zero = i_zero + tl.arange(0, BLOCK)
            tl.store(p_target + o_zero, tl.zeros([BLOCK], tl.int32), mask=o_zero < b_stride)
    else:
        p_source = tl.load(p_sources + i_group).to(tl.pointer_type(tl.int32))
        p_source += b_request * b_stride
        b_count = tl.load(p_counts + i_group * max_requests + b_request)
        for i_first in range(0, b_count, BLOCK):
            o_block = i_first + tl.arange(0, BLOCK)
            m_block = o_block < b_count
            b_block = tl.load(p_source + o_block, mask=m_block, other=0)
            tl.store(p_target + o_block, b_block, mask=m_block)


@triton.jit
def slot_mapping_kernel(
    p_idx_mapping, p_query_start_loc, p_positions, p_tables, p_strides, p_block_sizes, p_counts,
    p_slots, slot_stride, max_requests, max_tokens,
    CP_SIZE: tl.constexpr, CP_RANK: tl.constexpr, CP_INTERLEAVE: tl.constexpr,
    PAD_SLOT: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Map one request's tokens of one group per program; the last program pads.

    Grid: (groups, requests + 1). tables, strides as in gather_kernel; block_sizes: [groups] int32,
    the *kernel* block sizes; positions: [tokens] int64; slots: [group, max_tokens] int64. A token
    whose block its row does not have gets PAD_SLOT (vLLM reads whatever id is there).
    """
    i_group = tl.program_id(0)
    i_row = tl.program_id(1)
    b_start = tl.load(p_query_start_loc + i_row)
    p_slot = p_slots + i_group.to(tl.int64) * slot_stride
    if i_row == tl.num_programs(1) - 1:
        # from the actual tokens on: slots of an earlier batch may still be in the padding
        for i_pad in range(b_start, max_tokens, BLOCK):
            o_pad = i_pad + tl.arange(0, BLOCK)
            b_pad = tl.full([BLOCK], PAD_SLOT, tl.int64)
            tl.store(p_slot + o_pad, b_pad, mask=o_pad < max_tokens)
    else:
        b_end = tl.load(p_query_start_loc + i_row + 1)
        b_request = tl.load(p_idx_mapping + i_row).to(tl.int64)
        m_request = b_request >= 0
        b_stride = tl.load(p_strides + i_group)
        b_size = tl.load(p_block_sizes + i_group).to(tl.int64)
        # other=0: a dummy request owns no block, so all its tokens become PAD_SLOT
        b_count = tl.load(p_counts + i_group * max_requests + b_request, mask=m_request, other=0)
        p_row = tl.load(p_tables + i_group).to(tl.pointer_type(tl.int32)) + b_request * b_stride
        for i_first in range(b_start, b_end, BLOCK):
            o_token = i_first + tl.arange(0, BLOCK)
            m_token = o_token < b_end
            b_position = tl.load(p_positions + o_token, mask=m_token, other=0).to(tl.int64)
            b_logical = b_position // (b_size * CP_SIZE)
            b_offset = b_position % (b_size * CP_SIZE)
            m_here = m_token & (b_logical < b_count)
            if CP_SIZE > 1:
                m_here &= (b_offset // CP_INTERLEAVE) % CP_SIZE == CP_RANK
                b_offset = (
                    b_offset // (CP_INTERLEAVE * CP_SIZE) * CP_INTERLEAVE + b_offset % CP_INTERLEAVE
                )
            # int64: block * size exceeds 32 bits in large pools
            b_block = tl.load(p_row + b_logical, mask=m_here, other=0).to(tl.int64)
            b_slot = tl.where(m_here, b_block * b_size + b_offset, PAD_SLOT)
            tl.store(p_slot + o_token, b_slot, mask=m_token)
