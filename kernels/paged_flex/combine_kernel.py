"""Adding the splits of a tile of queries, in order: within one program, or by one of its own."""

from workbench.kernels.language import tl, triton


@triton.jit
def folded(b_acc, b_max, b_sum, b_split, b_split_max, b_split_sum, factor):
    """Merge the state of everything so far with that of the next split.

    acc, split [rows, BLOCK_D]; max, sum [rows]. A split in which a row saw nothing adds exactly
    nothing, and the first split is left as it is.
    """
    b_new = tl.maximum(b_max, b_split_max)
    b_safe = tl.where(b_new == float("-inf"), 0.0, b_new)
    b_shrink = tl.exp2((b_max - b_safe) * factor)
    b_weight = tl.exp2((b_split_max - b_safe) * factor)
    # explicit fma: the compiler must not choose which product is rounded, both kernels must agree
    b_sum = tl.fma(b_split_sum, b_weight, b_sum * b_shrink)
    b_acc = tl.fma(b_split, b_weight[:, None], b_acc * b_shrink[:, None])
    return b_acc, b_new, b_sum


@triton.jit
def combine_kernel(
    p_out, p_partial, p_partial_state, p_items, p_query_start, out_stride_token, out_stride_head,
    partial_rows, factor,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, GROUP: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    """Add the splits of one tile of queries in order per program. Grid: (items, kv_heads).

    items [items, 4] int32: batch row, first token of the tile in its request, its first partial,
    and how many follow. partial, partial_state: as attend_kernel leaves them, for the first
    partial_rows rows of a tile. factor: of the exponent.
    """
    i_item = tl.program_id(0).to(tl.int64)
    i_kv_head = tl.program_id(1).to(tl.int64)
    i_request = tl.load(p_items + i_item * 4).to(tl.int64)
    b_first = tl.load(p_items + i_item * 4 + 1)
    b_partial = tl.load(p_items + i_item * 4 + 2).to(tl.int64)
    b_splits = tl.load(p_items + i_item * 4 + 3)
    b_start = tl.load(p_query_start + i_request)
    b_count = tl.load(p_query_start + i_request + 1) - b_start

    o_row = tl.arange(0, BLOCK_M)
    o_dim = tl.arange(0, BLOCK_D)
    o_token = b_first + o_row // GROUP
    o_head = i_kv_head * GROUP + o_row % GROUP
    m_row = (o_row < BLOCK_M // GROUP * GROUP) & (o_token < b_count)
    m_cell = m_row[:, None] & (o_dim < HEAD_DIM)[None, :]
    o_cell = o_row[:, None] * BLOCK_D + o_dim[None, :]

    b_acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    b_max = tl.full([BLOCK_M], float("-inf"), tl.float32)
    b_sum = tl.zeros([BLOCK_M], tl.float32)
    # first to last, never a tree: the order of the sums fixes the bits
    for i_split in range(b_splits):
        i_partial = (b_partial + i_split) * tl.num_programs(1) + i_kv_head
        p_state = p_partial_state + i_partial * 2 * partial_rows + o_row
        b_split_max = tl.load(p_state, mask=m_row, other=float("-inf"))
        b_split_sum = tl.load(p_state + partial_rows, mask=m_row, other=0.0)
        p_split = p_partial + i_partial * partial_rows * BLOCK_D + o_cell
        b_split = tl.load(p_split, mask=m_cell, other=0.0)
        b_acc, b_max, b_sum = folded(b_acc, b_max, b_sum, b_split, b_split_max, b_split_sum, factor)
    b_out = b_acc / tl.where(b_sum == 0.0, 1.0, b_sum)[:, None]
    o_target = (b_start + o_token).to(tl.int64) * out_stride_token + o_head * out_stride_head
    p_target = p_out + o_target[:, None] + o_dim[None, :]
    tl.store(p_target, b_out.to(p_out.dtype.element_ty), mask=m_cell)
