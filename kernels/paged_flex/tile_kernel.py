# ruff: noqa: C901, PLR0912, PLR0915 - a kernel is one function to its compiler
"""One tile of queries over KV tiles: the online softmax, and addresses in the pages."""

from workbench.kernels.language import tl, triton


@triton.jit
def attend_tiles(
    b_acc, b_max, b_sum, b_query,
    near_end, near_shift, left_end, left_shift, tile_count, right_shift,
    p_row, p_key, p_value, p_mask_aux, p_score_aux, kv_stride_block, kv_stride_token,
    i_request, o_head, o_position, m_row, seq_len, scale, factor,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_SIZE: tl.constexpr,
    RATIO: tl.constexpr, MASK_MOD: tl.constexpr, MASK_PARAM: tl.constexpr, SCORE_MOD: tl.constexpr,
    SCORE_PARAM: tl.constexpr, MASKED: tl.constexpr, CAREFUL: tl.constexpr,
):  # fmt: skip
    """Fold tile_count KV tiles into the state of the online softmax.

    The i-th one is tile i + near_shift while i < near_end, i + left_shift while i < left_end, and
    then i + right_shift. A tile is BLOCK_N keys from a multiple of BLOCK_N on. acc [rows,
    BLOCK_D], max, sum [rows] are the state; max is of scores before `factor`, that of the exponent.
    MASKED evaluates MASK_MOD; without it every row must see every key. CAREFUL omits keys with a
    value that is not finite, and makes the rows that see one NaN.
    """
    o_dim = tl.arange(0, BLOCK_D)
    m_dim = o_dim < HEAD_DIM
    for i_visit in tl.range(0, tile_count, num_stages=2 if CAREFUL else None):
        # edges before and after the full part, in one loop: the compiler sees one body
        i_tile = i_visit + right_shift
        if MASKED:
            i_tile = tl.where(i_visit < left_end, i_visit + left_shift, i_tile)
            i_tile = tl.where(i_visit < near_end, i_visit + near_shift, i_tile)
        o_key = i_tile * BLOCK_N + tl.arange(0, BLOCK_N)
        m_key = o_key < seq_len
        if BLOCK_SIZE % BLOCK_N == 0:
            # the tile is in one kernel block: one table entry for all its keys
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
            # false for NaN as well as for infinity
            b_odd = tl.where(tl.abs(b_value.to(tl.float32)) < float("inf"), 0, 1)
            m_odd = tl.max(b_odd, 1) > 0
            m_value = m_key & ~m_odd
        if MASKED:
            b_key = tl.load(p_keys, mask=m_key[None, :] & m_dim[:, None], other=0.0)
        elif HEAD_DIM != BLOCK_D:
            b_key = tl.load(p_keys, mask=m_dim[:, None], other=0.0)
        else:
            b_key = tl.load(p_keys)
        # ieee: TF32 would round float32 operands to 10 bits of mantissa
        b_score = tl.dot(b_query, b_key, input_precision="ieee")
        if SCORE_MOD is not None:
            b_score = SCORE_MOD(
                b_score * scale,
                i_request,
                o_head[:, None],
                o_position[:, None],
                o_key[None, :],
                p_score_aux,
                SCORE_PARAM,
            )
        if MASKED:
            m_visible = MASK_MOD(
                i_request,
                o_head[:, None],
                o_position[:, None],
                o_key[None, :],
                p_mask_aux,
                MASK_PARAM,
            )
            tl.static_assert(m_visible.dtype == tl.int1, "it does not return true or false")
            # what is after the request, and rows after the batch, are never visible
            m_visible = m_visible & m_key[None, :] & m_row[:, None]
            b_score = tl.where(m_visible, b_score, float("-inf"))

        b_new = tl.maximum(b_max, tl.max(b_score, 1))
        # a row without a visible key so far: -inf minus -inf would be NaN
        b_safe = tl.where(b_new == float("-inf"), 0.0, b_new)
        b_weight = tl.exp2(b_score * factor - (b_safe * factor)[:, None])
        b_shrink = tl.exp2((b_max - b_safe) * factor)
        b_sum = b_sum * b_shrink + tl.sum(b_weight, 1)
        b_acc = b_acc * b_shrink[:, None]
        b_max = b_new

        if CAREFUL:
            b_weight = tl.where(m_visible & m_odd[None, :], float("nan"), b_weight)
        if MASKED:
            b_value = tl.load(p_values, mask=m_value[:, None] & m_dim[None, :], other=0.0)
        elif HEAD_DIM != BLOCK_D:
            b_value = tl.load(p_values, mask=m_dim[None, :], other=0.0)
        else:
            b_value = tl.load(p_values)
        b_acc = tl.dot(b_weight.to(b_value.dtype), b_value, b_acc, input_precision="ieee")
    return b_acc, b_max, b_sum


@triton.jit
def attend_piece(
    b_query, t_begin, t_end, near_end, low, full_low, full_high, high,
    p_row, p_key, p_value, p_mask_aux, p_score_aux, kv_stride_block, kv_stride_token,
    i_request, o_head, o_position, m_row, seq_len, scale, factor,
    BLOCK_M: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_SIZE: tl.constexpr, RATIO: tl.constexpr, MASK_MOD: tl.constexpr, MASK_PARAM: tl.constexpr,
    SCORE_MOD: tl.constexpr, SCORE_PARAM: tl.constexpr, ONE_PATH: tl.constexpr,
    CAREFUL: tl.constexpr,
):  # fmt: skip
    """Return the state of a tile of queries over KV tiles t_begin .. t_end, starting empty.

    near_end, low, full_low, full_high, high: the span of its mask, as in `mask_kernel`, in keys.
    ONE_PATH masks full tiles too, so that tiles are visited in order by one and the same loop;
    CAREFUL needs it.
    """
    t_near_end = tl.cdiv(near_end, BLOCK_N)
    t_high = tl.cdiv(high, BLOCK_N)
    t_low = tl.minimum(tl.maximum(low, 0) // BLOCK_N, t_high)
    t_near_end = tl.minimum(tl.minimum(t_near_end, t_low), t_end)
    t_full = tl.cdiv(tl.maximum(full_low, 0), BLOCK_N)
    t_full = tl.minimum(tl.maximum(t_full, t_low), t_high)
    t_full_end = tl.maximum(tl.minimum(full_high, high), 0) // BLOCK_N
    t_full_end = tl.maximum(t_full_end, t_full)
    if ONE_PATH:
        # bitwise: no tile skips the mask, so all run the same instructions
        t_full = t_high
        t_full_end = t_high
    t_low = tl.minimum(tl.maximum(t_low, t_begin), t_end)
    t_full = tl.minimum(tl.maximum(t_full, t_begin), t_end)
    t_full_end = tl.minimum(tl.maximum(t_full_end, t_begin), t_end)
    t_high = tl.minimum(tl.maximum(t_high, t_begin), t_end)
    # sinks: tiles from the start of the request, before the window
    near_count = tl.maximum(t_near_end - t_begin, 0)

    b_acc = tl.zeros([BLOCK_M, BLOCK_D], tl.float32)
    b_max = tl.full([BLOCK_M], float("-inf"), tl.float32)
    b_sum = tl.zeros([BLOCK_M], tl.float32)
    # the edges first, then the full tiles between them, without a mask
    left_end = near_count + t_full - t_low
    edge_count = left_end + t_high - t_full_end
    b_acc, b_max, b_sum = attend_tiles(
        b_acc, b_max, b_sum, b_query,
        near_count, t_begin, left_end, t_low - near_count, edge_count, t_full_end - left_end,
        p_row, p_key, p_value, p_mask_aux, p_score_aux,
        kv_stride_block, kv_stride_token,
        i_request, o_head, o_position, m_row, seq_len, scale, factor,
        HEAD_DIM, BLOCK_D, BLOCK_N, BLOCK_SIZE, RATIO,
        MASK_MOD, MASK_PARAM, SCORE_MOD, SCORE_PARAM, True, CAREFUL,
    )  # fmt: skip
    if not ONE_PATH:
        b_acc, b_max, b_sum = attend_tiles(
            b_acc, b_max, b_sum, b_query,
            0, 0, 0, 0, t_full_end - t_full, t_full,
            p_row, p_key, p_value, p_mask_aux, p_score_aux,
            kv_stride_block, kv_stride_token,
            i_request, o_head, o_position, m_row, seq_len, scale, factor,
            HEAD_DIM, BLOCK_D, BLOCK_N, BLOCK_SIZE, RATIO,
            MASK_MOD, MASK_PARAM, SCORE_MOD, SCORE_PARAM, False, False,
        )  # fmt: skip
    return b_acc, b_max, b_sum
