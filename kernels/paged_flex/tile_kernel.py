# ruff: noqa: C901, PLR0912, PLR0915, SIM114 - what is known at compile time has a branch of its own
"""One tile of queries over KV tiles: the online softmax, and addresses in the pages."""

from workbench.kernels.language import tl, triton
from workbench.kernels.paged_flex.bundles import Mods, Pages, Queries, Seen, Sizes
from workbench.kernels.paged_flex.combine_kernel import rounded


@triton.jit
def tile_at(i_visit, near_count, near_shift, shift):
    """Return the tile of a visit: those at the start of the request (sinks), then the others."""
    return i_visit + tl.where(i_visit < near_count, near_shift, shift)


@triton.jit
def block_of(i_tile, p_row, seq_len, m_any, sizes: Sizes):
    """Return the kernel block of a tile's keys: one, or one for each of its keys.

    m_any: whether there is such a tile; without one the row is not read.
    """
    if sizes.BLOCK_SIZE % sizes.BLOCK_N == 0:
        # the tile is in one kernel block: one table entry for all its keys
        b_part = i_tile * sizes.BLOCK_N // sizes.BLOCK_SIZE
        b_entry = tl.load(p_row + b_part // sizes.RATIO, mask=m_any, other=0)
    else:
        o_key = i_tile * sizes.BLOCK_N + tl.arange(0, sizes.BLOCK_N)
        b_part = o_key // sizes.BLOCK_SIZE
        m_entry = m_any & (o_key < seq_len)
        b_entry = tl.load(p_row + b_part // sizes.RATIO, mask=m_entry, other=0)
    return b_entry * sizes.RATIO + b_part % sizes.RATIO


@triton.jit
def visible_keys(queries: Queries, o_key, mods: Mods, seq_len):
    """Return [rows, keys], whether the row's query sees the key."""
    m_visible = mods.MASK_MOD(
        queries.request,
        queries.head[:, None],
        queries.position[:, None],
        o_key[None, :],
        mods.mask_aux,
        mods.MASK_PARAM,
    )
    tl.static_assert(m_visible.dtype == tl.int1, "it does not return true or false")
    # what is after the request, and rows after the batch, are never visible
    return m_visible & (o_key < seq_len)[None, :] & queries.in_batch[:, None]


@triton.jit
def values_at(pages: Pages, p_values, b_place, m_value, sizes: Sizes, dtype: tl.constexpr):
    """Return a tile of values [keys, BLOCK_V] that are not those of the keys, in another dtype."""
    if sizes.DESCRIBED:
        b_value = pages.described_values.load([b_place, 0])
    else:
        m_dim = tl.arange(0, sizes.BLOCK_V) < sizes.VALUE_DIM
        b_value = tl.load(p_values, mask=m_value[:, None] & m_dim[None, :], other=0.0)
    return b_value.to(dtype)


@triton.jit
def attend_tiles(
    b_acc, b_max, b_sum, near_count, near_shift, shift, tile_count, t_full, t_full_end, seq_len,
    queries: Queries, pages: Pages, mods: Mods, sizes: Sizes, CAREFUL: tl.constexpr,
):  # fmt: skip
    """Fold tile_count KV tiles, in order, into the state of the online softmax.

    The i-th one is tile i + near_shift while i < near_count, then i + shift. A tile is BLOCK_N keys
    from a multiple of BLOCK_N on. acc [rows, BLOCK_V], max, sum [rows] are the state; max is of
    scores before `factor`, that of the exponent. Tiles t_full .. t_full_end are not masked: every
    row must see all of their keys. All others run the same instructions and MASK_MOD, so that bits
    do not depend on which tiles are full. CAREFUL masks all, omits keys with a value that is not
    finite, and makes the rows that see one NaN. What descriptors copy from after the request's end
    has a weight of zero.
    """
    DTYPE: tl.constexpr = queries.main.dtype
    o_dim = tl.arange(0, sizes.BLOCK_D)
    m_dim = o_dim < sizes.KEY_DIM
    o_value_dim = tl.arange(0, sizes.BLOCK_V)
    o_distance = tl.arange(0, sizes.BLOCK_N).to(tl.int64) * pages.token
    b_block = block_of(
        tile_at(0, near_count, near_shift, shift), pages.row, seq_len, tile_count > 0, sizes
    )
    STAGES: tl.constexpr = (1 if sizes.DESCRIBED else 2) if CAREFUL else None
    for i_visit in tl.range(0, tile_count, num_stages=STAGES):
        i_tile = tile_at(i_visit, near_count, near_shift, shift)
        o_key = i_tile * sizes.BLOCK_N + tl.arange(0, sizes.BLOCK_N)
        m_key = o_key < seq_len
        # int64: block * stride exceeds 32 bits in large pools
        b_base = b_block.to(tl.int64) * pages.block
        b_place = b_block * pages.block_rows + i_tile * sizes.BLOCK_N % sizes.BLOCK_SIZE
        if sizes.BLOCK_SIZE % sizes.BLOCK_N == 0:
            # one sum for the tile, and distances that every tile has in common
            b_base += i_tile * sizes.BLOCK_N % sizes.BLOCK_SIZE * pages.token
            p_keys = (pages.key + b_base) + o_distance[None, :]
            p_values = (pages.value + b_base) + o_distance[:, None] + o_value_dim[None, :]
        else:
            o_slot = b_base + (o_key % sizes.BLOCK_SIZE) * pages.token
            p_keys = pages.key + o_slot[None, :]
            p_values = pages.value + o_slot[:, None] + o_value_dim[None, :]
        # the next tile's block now: an address that waits for a load in its own iteration would
        # take a stage of the pipeline, and no keys or values would be on their way
        i_next = tile_at(tl.minimum(i_visit + 1, tile_count - 1), near_count, near_shift, shift)
        b_block = block_of(i_next, pages.row, seq_len, True, sizes)

        m_value = m_key
        if CAREFUL and not sizes.IN_KEY:
            b_value = values_at(pages, p_values, b_place, m_key, sizes, tl.float32)
            # false for NaN as well as for infinity
            m_odd = tl.max(tl.where(tl.abs(b_value) < float("inf"), 0, 1), 1) > 0
            m_value = m_key & ~m_odd
        if sizes.DESCRIBED:
            b_key = pages.described_keys.load([b_place, 0]).T
        else:
            p_main = p_keys + o_dim[:, None]
            b_key = tl.load(p_main, mask=m_key[None, :] & m_dim[:, None], other=0.0)
        b_key = b_key.to(DTYPE)
        # ieee: TF32 would round float32 operands to 10 bits of mantissa
        b_score = tl.dot(queries.main, b_key, input_precision="ieee")
        if sizes.BLOCK_R > 0:
            if sizes.DESCRIBED:
                b_rest = pages.described_rest.load([b_place, 0]).T
            else:
                o_rest = sizes.BLOCK_D + tl.arange(0, sizes.BLOCK_R)
                m_rest = m_key[None, :] & (o_rest < sizes.KEY_DIM)[:, None]
                b_rest = tl.load(p_keys + o_rest[:, None], mask=m_rest, other=0.0)
            b_score = tl.dot(queries.rest, b_rest.to(DTYPE), b_score, input_precision="ieee")
        if mods.SCORE_MOD is not None:
            b_score = mods.SCORE_MOD(
                b_score * mods.scale,
                queries.request,
                queries.head[:, None],
                queries.position[:, None],
                o_key[None, :],
                mods.score_aux,
                mods.SCORE_PARAM,
            )
        if CAREFUL:
            m_visible = visible_keys(queries, o_key, mods, seq_len)
            b_score = tl.where(m_visible, b_score, float("-inf"))
        elif (i_tile < t_full) | (i_tile >= t_full_end):
            m_visible = visible_keys(queries, o_key, mods, seq_len)
            b_score = tl.where(m_visible, b_score, float("-inf"))

        b_new = tl.maximum(b_max, tl.max(b_score, 1))
        # a row without a visible key so far: -inf minus -inf would be NaN
        b_safe = tl.where(b_new == float("-inf"), 0.0, b_new)
        b_weight = tl.exp2(b_score * mods.factor - (b_safe * mods.factor)[:, None])
        b_shrink = tl.exp2((b_max - b_safe) * mods.factor)
        b_sum = b_sum * b_shrink + tl.sum(b_weight, 1)
        b_acc = b_acc * b_shrink[:, None]
        b_max = b_new

        if sizes.IN_KEY:
            b_value = b_key.T
            if CAREFUL:
                m_odd = tl.max(tl.where(tl.abs(b_value.to(tl.float32)) < float("inf"), 0, 1), 1) > 0
                m_value = m_key & ~m_odd
        else:
            b_value = values_at(pages, p_values, b_place, m_value, sizes, DTYPE)
        if CAREFUL:
            b_weight = tl.where(m_visible & m_odd[None, :], float("nan"), b_weight)
            if sizes.DESCRIBED or sizes.IN_KEY:
                b_value = tl.where(m_value[:, None], b_value, 0.0)
        b_weight = rounded(b_weight, queries.pointer.dtype.element_ty).to(DTYPE)
        b_acc = tl.dot(b_weight, b_value, b_acc, input_precision="ieee")
    return b_acc, b_max, b_sum


@triton.jit
def attend_piece(
    t_begin, t_end, seen: Seen, queries: Queries, pages: Pages, mods: Mods, sizes: Sizes,
    CAREFUL: tl.constexpr,
):  # fmt: skip
    """Return the state of a tile of queries over KV tiles t_begin .. t_end, starting empty."""
    t_high = tl.cdiv(seen.high, sizes.BLOCK_N)
    t_low = tl.minimum(tl.maximum(seen.low, 0) // sizes.BLOCK_N, t_high)
    t_near_end = tl.minimum(tl.minimum(tl.cdiv(seen.near_end, sizes.BLOCK_N), t_low), t_end)
    t_full = tl.cdiv(tl.maximum(seen.full_low, 0), sizes.BLOCK_N)
    t_full_end = tl.maximum(tl.minimum(seen.full_high, seen.high), 0) // sizes.BLOCK_N
    t_low = tl.minimum(tl.maximum(t_low, t_begin), t_end)
    t_high = tl.minimum(tl.maximum(t_high, t_begin), t_end)
    # sinks: tiles from the start of the request, before the window
    near_count = tl.maximum(t_near_end - t_begin, 0)

    b_acc = tl.zeros([sizes.BLOCK_M, sizes.BLOCK_V], tl.float32)
    b_max = tl.full([sizes.BLOCK_M], float("-inf"), tl.float32)
    b_sum = tl.zeros([sizes.BLOCK_M], tl.float32)
    return attend_tiles(
        b_acc, b_max, b_sum, near_count, t_begin, t_low - near_count, near_count + t_high - t_low,
        t_full, t_full_end, seen.seq_len, queries, pages, mods, sizes, CAREFUL,
    )  # fmt: skip
