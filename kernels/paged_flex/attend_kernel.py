"""Attention of one tile of queries over the pages of its request: one program's work."""

from workbench.kernels.language import tl, triton
from workbench.kernels.paged_flex.combine_kernel import folded
from workbench.kernels.paged_flex.tile_kernel import attend_piece


@triton.jit
def attend_keys(
    b_query, b_split, near_end, low, full_low, full_high, high,
    p_row, p_key, p_value, p_mask_aux, p_score_aux, kv_stride_block, kv_stride_token,
    i_request, o_head, o_position, m_row, seq_len, scale, factor,
    BLOCK_M: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_SIZE: tl.constexpr, RATIO: tl.constexpr, SPLIT: tl.constexpr, FOLD: tl.constexpr,
    MASK_MOD: tl.constexpr, MASK_PARAM: tl.constexpr, SCORE_MOD: tl.constexpr,
    SCORE_PARAM: tl.constexpr, ONE_PATH: tl.constexpr, CAREFUL: tl.constexpr,
):  # fmt: skip
    """Return a tile's softmax state over one split, over all splits in order, or without splits."""
    if FOLD:
        b_acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
        b_max = tl.full([BLOCK_M], float("-inf"), tl.float32)
        b_sum = tl.zeros([BLOCK_M], tl.float32)
        # splits without a visible key add exactly nothing
        # sinks are in the first split, so nothing can be skipped before them
        i_first = tl.where(near_end > 0, 0, tl.maximum(tl.minimum(low, high), 0) // SPLIT)
        for i_split in tl.range(i_first, tl.cdiv(high, SPLIT), num_stages=1):
            t_begin = i_split * (SPLIT // BLOCK_N)
            b_piece, b_piece_max, b_piece_sum = attend_piece(
                b_query, t_begin, t_begin + SPLIT // BLOCK_N,
                near_end, low, full_low, full_high, high,
                p_row, p_key, p_value, p_mask_aux, p_score_aux,
                kv_stride_block, kv_stride_token,
                i_request, o_head, o_position, m_row, seq_len, scale, factor,
                BLOCK_M, HEAD_DIM, BLOCK_D, BLOCK_N, BLOCK_SIZE, RATIO,
                MASK_MOD, MASK_PARAM, SCORE_MOD, SCORE_PARAM, ONE_PATH, CAREFUL,
            )  # fmt: skip
            b_acc, b_max, b_sum = folded(
                b_acc, b_max, b_sum, b_piece, b_piece_max, b_piece_sum, factor
            )
    else:
        t_begin = b_split * (SPLIT // BLOCK_N)
        t_end = t_begin + SPLIT // BLOCK_N if SPLIT > 0 else tl.cdiv(high, BLOCK_N)
        b_acc, b_max, b_sum = attend_piece(
            b_query, t_begin, t_end,
            near_end, low, full_low, full_high, high,
            p_row, p_key, p_value, p_mask_aux, p_score_aux,
            kv_stride_block, kv_stride_token,
            i_request, o_head, o_position, m_row, seq_len, scale, factor,
            BLOCK_M, HEAD_DIM, BLOCK_D, BLOCK_N, BLOCK_SIZE, RATIO,
            MASK_MOD, MASK_PARAM, SCORE_MOD, SCORE_PARAM, ONE_PATH, CAREFUL,
        )  # fmt: skip
    return b_acc, b_max, b_sum


@triton.jit
def attend_kernel(
    p_query, p_key, p_value, p_out, p_partial, p_partial_state, p_items, p_query_start, p_seq_lens,
    p_rows, p_table, p_mask_aux, p_score_aux, query_stride_token, query_stride_head,
    out_stride_token, out_stride_head, kv_stride_block, kv_stride_token, kv_stride_head,
    table_stride, mask_aux_stride, partial_rows, scale, factor,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, GROUP: tl.constexpr, BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_SIZE: tl.constexpr, RATIO: tl.constexpr, SPLIT: tl.constexpr,
    FOLD: tl.constexpr, MASK_MOD: tl.constexpr, SPAN: tl.constexpr, MASK_PARAM: tl.constexpr,
    SCORE_MOD: tl.constexpr, SCORE_PARAM: tl.constexpr, ONE_PATH: tl.constexpr,
):  # fmt: skip
    """Attend one tile of queries of one KV head per program. Grid: (items, kv_heads).

    query, out: [token, head, dim]; key, value: [block, token, kv_head, dim], dims contiguous.
    items [items, 3] int32: batch row, first token of the tile in its request, split. query_start
    [requests + 1], seq_lens, rows [requests] int32; table: [row, entry] -> physical block, int32,
    where an entry covers RATIO kernel blocks of BLOCK_SIZE tokens. mask_aux [request, ...].
    Row r of a tile is head r % GROUP of token first + r // GROUP.

    SPLIT = 0: all keys, and `out` is written. Else the keys SPLIT * split .., and the unnormalised
    state goes to partial [item, kv_head, partial_rows, BLOCK_D] and partial_state [item, kv_head,
    2, partial_rows] (max, sum), float32. FOLD: every split from 0 on, added in order as
    combine_kernel does, and `out` is written. SPLIT is a multiple of BLOCK_N. ONE_PATH masks full
    tiles too. factor: of the exponent, scale * log2(e), without the scale if there is a SCORE_MOD.
    """
    i_item = tl.program_id(0).to(tl.int64)
    i_kv_head = tl.program_id(1).to(tl.int64)
    i_request = tl.load(p_items + i_item * 3).to(tl.int64)
    b_first = tl.load(p_items + i_item * 3 + 1)
    b_split = tl.load(p_items + i_item * 3 + 2)
    b_start = tl.load(p_query_start + i_request)
    b_count = tl.load(p_query_start + i_request + 1) - b_start
    seq_len = tl.load(p_seq_lens + i_request)
    b_row = tl.load(p_rows + i_request).to(tl.int64)
    p_row = p_table + b_row * table_stride
    p_mask_row = p_mask_aux + i_request * mask_aux_stride

    o_row = tl.arange(0, BLOCK_M)
    o_dim = tl.arange(0, BLOCK_D)
    o_token = b_first + o_row // GROUP
    o_head = (i_kv_head * GROUP + o_row % GROUP).to(tl.int32)
    # a group that does not divide BLOCK_M leaves rows at the end of the tile unused
    m_row = (o_row < BLOCK_M // GROUP * GROUP) & (o_token < b_count)
    m_cell = m_row[:, None] & (o_dim < HEAD_DIM)[None, :]
    b_computed = seq_len - b_count
    o_position = b_computed + o_token
    # int64: token * stride exceeds 32 bits for long batches of many heads
    o_source = (b_start + o_token).to(tl.int64) * query_stride_token + o_head * query_stride_head
    b_query = tl.load(p_query + o_source[:, None] + o_dim[None, :], mask=m_cell, other=0.0)

    # queries of the tile, and the KV tiles that its mask lets them see
    # (a dummy request, of length 0, must not give a span before the start of its row)
    q_first = tl.maximum(b_computed + b_first, 0)
    q_last = tl.maximum(b_computed + tl.minimum(b_first + BLOCK_M // GROUP, b_count) - 1, 0)
    near_end, low, full_low, full_high, high = SPAN(
        q_first, q_last, seq_len, p_mask_row, MASK_PARAM
    )
    high = tl.minimum(high, seq_len)
    p_keys = p_key + i_kv_head * kv_stride_head
    p_values = p_value + i_kv_head * kv_stride_head
    b_acc, b_max, b_sum = attend_keys(
        b_query, b_split, near_end, low, full_low, full_high, high,
        p_row, p_keys, p_values, p_mask_row, p_score_aux,
        kv_stride_block, kv_stride_token,
        i_request, o_head, o_position, m_row, seq_len, scale, factor,
        BLOCK_M, HEAD_DIM, BLOCK_D, BLOCK_N, BLOCK_SIZE, RATIO, SPLIT, FOLD,
        MASK_MOD, MASK_PARAM, SCORE_MOD, SCORE_PARAM, ONE_PATH, False,
    )  # fmt: skip
    m_tame = tl.abs(b_acc) < float("inf")
    if tl.max(tl.where(m_tame, 0, 1)) > 0:
        # zero times a masked NaN is NaN: compute again and omit such values
        b_acc, b_max, b_sum = attend_keys(
            b_query, b_split, near_end, low, full_low, full_high, high,
            p_row, p_keys, p_values, p_mask_row, p_score_aux,
            kv_stride_block, kv_stride_token,
            i_request, o_head, o_position, m_row, seq_len, scale, factor,
            BLOCK_M, HEAD_DIM, BLOCK_D, BLOCK_N, BLOCK_SIZE, RATIO, SPLIT, FOLD,
            MASK_MOD, MASK_PARAM, SCORE_MOD, SCORE_PARAM, True, True,
        )  # fmt: skip

    if SPLIT > 0 and not FOLD:
        i_partial = i_item * tl.num_programs(1) + i_kv_head
        o_cell = o_row[:, None] * BLOCK_D + o_dim[None, :]
        tl.store(p_partial + i_partial * partial_rows * BLOCK_D + o_cell, b_acc, mask=m_cell)
        p_state = p_partial_state + i_partial * 2 * partial_rows + o_row
        tl.store(p_state, b_max, mask=m_row)
        tl.store(p_state + partial_rows, b_sum, mask=m_row)
    else:
        # a row without a visible key has sum 0 and acc 0: the result is 0, not NaN
        b_out = b_acc / tl.where(b_sum == 0.0, 1.0, b_sum)[:, None]
        o_target = (b_start + o_token).to(tl.int64) * out_stride_token + o_head * out_stride_head
        p_target = p_out + o_target[:, None] + o_dim[None, :]
        tl.store(p_target, b_out.to(p_out.dtype.element_ty), mask=m_cell)
