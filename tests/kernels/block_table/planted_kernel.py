"""Kernels with planted mistakes: the checks have to find them."""

from workbench.kernels.language import tl, triton


@triton.jit
def apply_one_too_many_kernel(
    p_table,
    row_stride,
    p_requests,
    p_starts,
    p_offsets,
    p_ids,
    BLOCK: tl.constexpr,
):
    """apply_group_kernel with <= for <."""
    i_write = tl.program_id(0)
    b_request = tl.load(p_requests + i_write).to(tl.int64)
    b_first = tl.load(p_offsets + i_write)
    b_count = tl.load(p_offsets + i_write + 1) - b_first
    o_id = tl.arange(0, BLOCK)
    b_id = tl.load(p_ids + b_first + o_id, mask=o_id < b_count, other=0)
    p_row = p_table + b_request * row_stride + tl.load(p_starts + i_write)
    tl.store(p_row + o_id, b_id, mask=o_id <= b_count)


@triton.jit
def apply_32_bit_kernel(
    p_table,
    row_stride,
    p_requests,
    p_starts,
    p_offsets,
    p_ids,
    BLOCK: tl.constexpr,
):
    """apply_group_kernel whose row offset stays in 32 bits."""
    i_write = tl.program_id(0)
    b_request = tl.load(p_requests + i_write)
    b_first = tl.load(p_offsets + i_write)
    b_count = tl.load(p_offsets + i_write + 1) - b_first
    o_id = tl.arange(0, BLOCK)
    b_id = tl.load(p_ids + b_first + o_id, mask=o_id < b_count, other=0)
    p_row = p_table + b_request * row_stride + tl.load(p_starts + i_write)
    tl.store(p_row + o_id, b_id, mask=o_id < b_count)
