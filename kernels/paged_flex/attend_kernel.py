# ruff: noqa: C901, PLR0912, PLR0915 - a kernel is one function to its compiler
"""Attention of one tile of queries over the pages of its request, and the combine of splits."""

from workbench.kernels.language import tl, triton

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def attend_tiles(
    b_acc,
    b_max,
    b_sum,
    b_query,
    near_end,
    near_shift,
    left_end,
    left_shift,
    tile_count,
    right_shift,
    p_row,
    p_key,
    p_value,
    p_mask_aux,
    p_score_aux,
    kv_stride_block,
    kv_stride_token,
    i_request,
    o_head,
    o_position,
    m_row,
    seq_len,
    scale,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    RATIO: tl.constexpr,
    MASK: tl.constexpr,
    MASK_PARAM: tl.constexpr,
    SCORE: tl.constexpr,
    SCORE_PARAM: tl.constexpr,
    MASKED: tl.constexpr,
    CAREFUL: tl.constexpr,
):
    """Fold tile_count KV tiles into the state of the online softmax.

    The i-th one is tile i + near_shift while i < near_end, i + left_shift while i < left_end, and
    then i + right_shift. A tile is BLOCK_N keys from a multiple of BLOCK_N on. acc [rows,
    BLOCK_D], max, sum [rows] are the state; max is of scores before the factor of the exponent.
    MASKED asks MASK; without it every row must see every key. CAREFUL leaves out keys whose value
    is not finite, and makes the rows that see one NaN.
    """
    o_dim = tl.arange(0, BLOCK_D)
    m_dim = o_dim < HEAD_DIM
    for i_visit in tl.range(0, tile_count, num_stages=2 if CAREFUL else None):
        i_tile = i_visit + right_shift
        if MASKED:
            i_tile = tl.where(i_visit < left_end, i_visit + left_shift, i_tile)
            i_tile = tl.where(i_visit < near_end, i_visit + near_shift, i_tile)
        o_key = i_tile * BLOCK_N + tl.arange(0, BLOCK_N)
        m_key = o_key < seq_len
        if BLOCK_SIZE % BLOCK_N == 0:
            # the tile lies in one kernel block
            b_part = i_tile * BLOCK_N // BLOCK_SIZE
            b_block = tl.load(p_row + b_part // RATIO).to(tl.int64)
            b_block = b_block * RATIO + b_part % RATIO
        else:
            b_part = o_key // BLOCK_SIZE
            b_block = tl.load(p_row + b_part // RATIO, mask=m_key, other=0).to(tl.int64)
            b_block = b_block * RATIO + b_part % RATIO
        o_slot = b_block * kv_stride_block + (o_key % BLOCK_SIZE) * kv_stride_token

        p_keys = p_key + o_slot[None, :] + o_dim[:, None]
        p_values = p_value + o_slot[:, None] + o_dim[None, :]
        m_value = m_key
        if CAREFUL:
            b_value = tl.load(p_values, mask=m_key[:, None] & m_dim[None, :], other=0.0)
            b_odd = tl.where(tl.abs(b_value.to(tl.float32)) < float("inf"), 0, 1)
            m_odd = tl.max(b_odd, 1) > 0
            m_value = m_key & ~m_odd
        if MASKED:
            b_key = tl.load(p_keys, mask=m_key[None, :] & m_dim[:, None], other=0.0)
        elif HEAD_DIM != BLOCK_D:
            b_key = tl.load(p_keys, mask=m_dim[:, None], other=0.0)
        else:
            b_key = tl.load(p_keys)
        b_score = tl.dot(b_query, b_key, input_precision="ieee")
        if SCORE is not None:
            b_score = SCORE(
                b_score * scale,
                i_request,
                o_head[:, None],
                o_position[:, None],
                o_key[None, :],
                p_score_aux,
                SCORE_PARAM,
            )
        if MASKED:
            m_seen = MASK(
                i_request,
                o_head[:, None],
                o_position[:, None],
                o_key[None, :],
                p_mask_aux,
                MASK_PARAM,
            )
            m_seen = m_seen & m_key[None, :] & m_row[:, None]
            b_score = tl.where(m_seen, b_score, float("-inf"))

        factor = LOG2_E if SCORE is not None else scale * LOG2_E
        b_new = tl.maximum(b_max, tl.max(b_score, 1))
        # a row that has seen nothing yet: -inf minus -inf would be NaN
        b_safe = tl.where(b_new == float("-inf"), 0.0, b_new)
        b_weight = tl.exp2(b_score * factor - (b_safe * factor)[:, None])
        b_shrink = tl.exp2((b_max - b_safe) * factor)
        b_sum = b_sum * b_shrink + tl.sum(b_weight, 1)
        b_acc = b_acc * b_shrink[:, None]
        b_max = b_new

        if CAREFUL:
            b_weight = tl.where(m_seen & m_odd[None, :], float("nan"), b_weight)
        if MASKED:
            b_value = tl.load(p_values, mask=m_value[:, None] & m_dim[None, :], other=0.0)
        elif HEAD_DIM != BLOCK_D:
            b_value = tl.load(p_values, mask=m_dim[None, :], other=0.0)
        else:
            b_value = tl.load(p_values)
        b_acc = tl.dot(b_weight.to(b_value.dtype), b_value, b_acc, input_precision="ieee")
    return b_acc, b_max, b_sum


@triton.jit
def attend_kernel(
    p_query,
    p_key,
    p_value,
    p_out,
    p_partial,
    p_partial_state,
    p_items,
    p_query_start,
    p_seq_lens,
    p_rows,
    p_table,
    p_mask_aux,
    p_score_aux,
    query_stride_token,
    query_stride_head,
    out_stride_token,
    out_stride_head,
    kv_stride_block,
    kv_stride_token,
    kv_stride_head,
    table_stride,
    mask_aux_stride,
    scale,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
    GROUP: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_SIZE: tl.constexpr,
    RATIO: tl.constexpr,
    SPLIT: tl.constexpr,
    MASK: tl.constexpr,
    SPAN: tl.constexpr,
    MASK_PARAM: tl.constexpr,
    SCORE: tl.constexpr,
    SCORE_PARAM: tl.constexpr,
    ONE_PATH: tl.constexpr,
):
    """One program attends one tile of queries, of one KV head. Grid: (items, kv_heads).

    query, out: [token, head, dim]; key, value: [block, token, kv_head, dim], dims contiguous.
    items [items, 3] int32: batch row, first token of the tile in its request, split. query_start
    [requests + 1], seq_lens, rows [requests] int32; table: [row, entry] -> physical block, int32,
    where an entry stands for RATIO kernel blocks of BLOCK_SIZE tokens. mask_aux [request, ...].
    Row r of a tile is head r % GROUP of token first + r // GROUP.

    SPLIT = 0: all keys, and `out` is written. Else the keys SPLIT * split .., and the unnormalised
    state goes to partial [item, kv_head, BLOCK_M, BLOCK_D] and partial_state [item, kv_head, 2,
    BLOCK_M] (max, sum), float32. SPLIT is a multiple of BLOCK_N. ONE_PATH masks full tiles too.
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
    m_row = (o_row < BLOCK_M // GROUP * GROUP) & (o_token < b_count)
    m_cell = m_row[:, None] & (o_dim < HEAD_DIM)[None, :]
    b_computed = seq_len - b_count
    o_position = b_computed + o_token
    o_source = (b_start + o_token).to(tl.int64) * query_stride_token + o_head * query_stride_head
    b_query = tl.load(p_query + o_source[:, None] + o_dim[None, :], mask=m_cell, other=0.0)

    # queries of the tile, and the KV tiles that its mask lets them see
    # (a dummy request, of length 0, must not lead a span in front of its row)
    q_first = tl.maximum(b_computed + b_first, 0)
    q_last = tl.maximum(b_computed + tl.minimum(b_first + BLOCK_M // GROUP, b_count) - 1, 0)
    near_end, low, full_low, full_high, high = SPAN(
        q_first, q_last, seq_len, p_mask_row, MASK_PARAM
    )
    high = tl.minimum(high, seq_len)
    t_high = tl.cdiv(high, BLOCK_N)
    t_low = tl.minimum(tl.maximum(low, 0) // BLOCK_N, t_high)
    t_full = tl.cdiv(tl.maximum(full_low, 0), BLOCK_N)
    t_full = tl.minimum(tl.maximum(t_full, t_low), t_high)
    t_full_end = tl.maximum(tl.minimum(full_high, high), 0) // BLOCK_N
    t_full_end = tl.maximum(t_full_end, t_full)
    t_near = 0
    t_near_end = tl.minimum(tl.cdiv(near_end, BLOCK_N), t_low)
    if SPLIT > 0:
        t_split = b_split * (SPLIT // BLOCK_N)
        t_split_end = t_split + SPLIT // BLOCK_N
        t_near = t_split
        t_near_end = tl.minimum(t_near_end, t_split_end)
        t_low = tl.minimum(tl.maximum(t_low, t_split), t_split_end)
        t_full = tl.minimum(tl.maximum(t_full, t_split), t_split_end)
        t_full_end = tl.minimum(tl.maximum(t_full_end, t_split), t_split_end)
        t_high = tl.minimum(tl.maximum(t_high, t_split), t_split_end)
    near_count = tl.maximum(t_near_end - t_near, 0)
    if ONE_PATH:
        t_full = t_high
        t_full_end = t_high

    p_keys = p_key + i_kv_head * kv_stride_head
    p_values = p_value + i_kv_head * kv_stride_head
    b_acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    b_max = tl.full([BLOCK_M], float("-inf"), tl.float32)
    b_sum = tl.zeros([BLOCK_M], tl.float32)
    # the edges first, then what lies between them
    left_end = near_count + t_full - t_low
    edge_count = left_end + t_high - t_full_end
    b_acc, b_max, b_sum = attend_tiles(
        b_acc, b_max, b_sum, b_query,
        near_count, t_near, left_end, t_low - near_count, edge_count, t_full_end - left_end,
        p_row, p_keys, p_values, p_mask_row, p_score_aux,
        kv_stride_block, kv_stride_token,
        i_request, o_head, o_position, m_row, seq_len, scale,
        HEAD_DIM, BLOCK_D, BLOCK_N, BLOCK_SIZE, RATIO,
        MASK, MASK_PARAM, SCORE, SCORE_PARAM, True, False,
    )  # fmt: skip
    if not ONE_PATH:
        b_acc, b_max, b_sum = attend_tiles(
            b_acc, b_max, b_sum, b_query,
            0, 0, 0, 0, t_full_end - t_full, t_full,
            p_row, p_keys, p_values, p_mask_row, p_score_aux,
            kv_stride_block, kv_stride_token,
            i_request, o_head, o_position, m_row, seq_len, scale,
            HEAD_DIM, BLOCK_D, BLOCK_N, BLOCK_SIZE, RATIO,
            MASK, MASK_PARAM, SCORE, SCORE_PARAM, False, False,
        )  # fmt: skip

    m_wild = tl.abs(b_acc) < float("inf")
    if tl.max(tl.where(m_wild, 0, 1)) > 0:
        # zero times a masked NaN is NaN: once more, with such values left out
        b_acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
        b_max = tl.full([BLOCK_M], float("-inf"), tl.float32)
        b_sum = tl.zeros([BLOCK_M], tl.float32)
        all_count = near_count + t_high - t_low
        b_acc, b_max, b_sum = attend_tiles(
            b_acc, b_max, b_sum, b_query,
            near_count, t_near, all_count, t_low - near_count, all_count, 0,
            p_row, p_keys, p_values, p_mask_row, p_score_aux,
            kv_stride_block, kv_stride_token,
            i_request, o_head, o_position, m_row, seq_len, scale,
            HEAD_DIM, BLOCK_D, BLOCK_N, BLOCK_SIZE, RATIO,
            MASK, MASK_PARAM, SCORE, SCORE_PARAM, True, True,
        )  # fmt: skip

    if SPLIT > 0:
        i_partial = i_item * tl.num_programs(1) + i_kv_head
        o_cell = o_row[:, None] * BLOCK_D + o_dim[None, :]
        tl.store(p_partial + i_partial * (BLOCK_M * BLOCK_D) + o_cell, b_acc, mask=m_cell)
        p_state = p_partial_state + i_partial * (2 * BLOCK_M) + o_row
        tl.store(p_state, b_max, mask=m_row)
        tl.store(p_state + BLOCK_M, b_sum, mask=m_row)
    else:
        b_out = b_acc / tl.where(b_sum == 0.0, 1.0, b_sum)[:, None]
        o_target = (b_start + o_token).to(tl.int64) * out_stride_token + o_head * out_stride_head
        p_target = p_out + o_target[:, None] + o_dim[None, :]
        tl.store(p_target, b_out.to(p_out.dtype.element_ty), mask=m_cell)


@triton.jit
def combine_kernel(
    p_out,
    p_partial,
    p_partial_state,
    p_items,
    p_query_start,
    out_stride_token,
    out_stride_head,
    factor,
    HEAD_DIM: tl.constexpr,
    BLOCK_D: tl.constexpr,
    GROUP: tl.constexpr,
    BLOCK_M: tl.constexpr,
):
    """One program adds the splits of one tile of queries, first to last. Grid: (items, kv_heads).

    items [items, 4] int32: batch row, first token of the tile in its request, its first partial,
    and how many follow. partial, partial_state: as attend_kernel leaves them. factor: of the
    exponent. A split in which a row saw nothing adds exactly nothing.
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
    for i_split in range(b_splits):
        i_partial = (b_partial + i_split) * tl.num_programs(1) + i_kv_head
        p_state = p_partial_state + i_partial * (2 * BLOCK_M) + o_row
        b_split_max = tl.load(p_state, mask=m_row, other=float("-inf"))
        b_split_sum = tl.load(p_state + BLOCK_M, mask=m_row, other=0.0)
        p_split = p_partial + i_partial * (BLOCK_M * BLOCK_D) + o_cell
        b_split = tl.load(p_split, mask=m_cell, other=0.0)
        b_new = tl.maximum(b_max, b_split_max)
        b_safe = tl.where(b_new == float("-inf"), 0.0, b_new)
        b_shrink = tl.exp2((b_max - b_safe) * factor)
        b_weight = tl.exp2((b_split_max - b_safe) * factor)
        b_sum = b_sum * b_shrink + b_split_sum * b_weight
        b_acc = b_acc * b_shrink[:, None] + b_split * b_weight[:, None]
        b_max = b_new
    b_out = b_acc / tl.where(b_sum == 0.0, 1.0, b_sum)[:, None]
    o_target = (b_start + o_token).to(tl.int64) * out_stride_token + o_head * out_stride_head
    p_target = p_out + o_target[:, None] + o_dim[None, :]
    tl.store(p_target, b_out.to(p_out.dtype.element_ty), mask=m_cell)
