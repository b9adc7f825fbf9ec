# ruff: noqa: C901, PLR0912, PLR0915 - a kernel is one function to its compiler
"""Attention of one tile of queries over the pages of its request: one program's work."""

from workbench.kernels.language import tl, triton
from workbench.kernels.paged_flex.bundles import (
    Extras,
    Mods,
    Pages,
    Queries,
    ResultStrides,
    Scratch,
    Seen,
    Sizes,
    Step,
    Strides,
    Tensors,
)
from workbench.kernels.paged_flex.combine_kernel import (
    INTERPRETED,
    LOWEST,
    finished,
    folded,
    rounded,
)
from workbench.kernels.paged_flex.tile_kernel import attend_piece


@triton.jit
def attend_keys(
    begin, end, seen: Seen, queries: Queries, pages: Pages, mods: Mods, sizes: Sizes,
    FOLD: tl.constexpr, CAREFUL: tl.constexpr,
):  # fmt: skip
    """Return a tile's softmax state over the keys begin .. end, or over all splits in order.

    FOLD: the keys of a split; begin and end do not count then. 0: no splits.
    """
    if FOLD > 0:
        b_acc = tl.zeros([sizes.BLOCK_M, sizes.BLOCK_V], tl.float32)
        b_max = tl.full([sizes.BLOCK_M], LOWEST, tl.float32)
        b_sum = tl.zeros([sizes.BLOCK_M], tl.float32)
        # splits without a visible key add exactly nothing: those between sinks and window are
        # passed over, as they are not launched where splits are programs of their own
        i_first = tl.maximum(tl.minimum(seen.low, seen.high), 0) // FOLD
        i_near = tl.minimum(tl.cdiv(tl.maximum(seen.near_end, 0), FOLD), i_first)
        for i_visit in tl.range(0, i_near + tl.cdiv(seen.high, FOLD) - i_first, num_stages=1):
            i_split = tl.where(i_visit < i_near, i_visit, i_visit - i_near + i_first)
            begin = i_split * FOLD
            b_piece, b_piece_max, b_piece_sum = attend_piece(
                begin, begin + FOLD, seen, queries, pages, mods, sizes, CAREFUL
            )
            b_acc, b_max, b_sum = folded(b_acc, b_max, b_sum, b_piece, b_piece_max, b_piece_sum)
    else:
        b_acc, b_max, b_sum = attend_piece(begin, end, seen, queries, pages, mods, sizes, CAREFUL)
    return b_acc, b_max, b_sum


@triton.jit
def attend_carefully(
    begin, end, seen: Seen, queries: Queries, pages: Pages, mods: Mods, sizes: Sizes,
    FOLD: tl.constexpr,
):  # fmt: skip
    """Return `attend_keys`, without the values that are not finite and that nothing may see."""
    b_acc, b_max, b_sum = attend_keys(
        begin, end, seen, queries, pages, mods, sizes, FOLD, CAREFUL=False
    )
    m_tame = tl.abs(b_acc) < float("inf")
    if tl.max(tl.where(m_tame, 0, 1)) > 0:
        # zero times a masked NaN is NaN: compute again and omit such values
        b_acc, b_max, b_sum = attend_keys(
            begin, end, seen, queries, pages, mods, sizes, FOLD, CAREFUL=True
        )
    return b_acc, b_max, b_sum


@triton.jit(do_not_specialize_on_alignment=["extras"])
def attend_kernel(
    tensors: Tensors, extras: Extras, scratch: Scratch, p_items, step: Step,
    result_strides: ResultStrides, strides: Strides, partial_rows, scale, factor,
    KEY_DIM: tl.constexpr, VALUE_DIM: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_R: tl.constexpr,
    BLOCK_V: tl.constexpr, IN_KEY: tl.constexpr, GROUP: tl.constexpr, PARTS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_SIZE: tl.constexpr, RATIO: tl.constexpr,
    FOLD: tl.constexpr, MASK_MOD: tl.constexpr, SPAN: tl.constexpr, MASK_PARAM: tl.constexpr,
    SCORE_MOD: tl.constexpr, SCORE_PARAM: tl.constexpr, BODY: tl.constexpr, BOX: tl.constexpr,
    REST: tl.constexpr, IN_ROWS: tl.constexpr, EACH_MAXIMUM: tl.constexpr,
):  # fmt: skip
    """Attend one tile of queries of one KV head per program. Grid: (items, kv_heads * PARTS).

    items [items, 5] int32: batch row, first token of the tile in its request, first key, key after
    the last, partial. Row r of a tile is head r % GROUP of token first + r // GROUP; the heads of a
    KV head are those of PARTS programs. A key has KEY_DIM dims, the first of them in BLOCK_D, what
    is after BLOCK_D in BLOCK_R (0: nothing); a value has VALUE_DIM, in BLOCK_V.

    A program with a partial of at least 0 leaves its unnormalised state in the scratch, in
    partial_rows rows; the others write `out`. FOLD > 0: all keys, in splits of FOLD keys, each
    added to the sum of those before it as combine_kernel does; a multiple of BLOCK_N, as is the
    first key. sinks: see `finished`. Scales are what numbers of a cache of 8 bits are multiplied
    with; as exact numbers of the queries' dtype they are multiplied first.

    BODY > 0: the first BODY keys and values of a page are copied by descriptors over a head's
    rows, BOX at once; 16 bytes divide addresses and strides. IN_ROWS: values are in the list of
    keys, `value_rows` further on. The rest is in `bundles`.
    """
    i_item = tl.program_id(0).to(tl.int64)
    # heads of one program: some or all of those that share a KV head
    i_heads = tl.program_id(1).to(tl.int64)
    i_kv_head = i_heads // PARTS
    i_request = tl.load(p_items + i_item * 5).to(tl.int64)
    b_first = tl.load(p_items + i_item * 5 + 1)
    begin = tl.load(p_items + i_item * 5 + 2)
    end = tl.load(p_items + i_item * 5 + 3)
    b_partial = tl.load(p_items + i_item * 5 + 4).to(tl.int64)
    b_start = tl.load(step.query_start + i_request)
    b_count = tl.load(step.query_start + i_request + 1) - b_start
    seq_len = tl.load(step.seq_lens + i_request)
    b_row = tl.load(step.rows + i_request).to(tl.int64)
    p_mask_row = step.mask_aux + i_request * strides.mask_aux

    o_row = tl.arange(0, BLOCK_M)
    o_dim = tl.arange(0, BLOCK_D)
    o_token = b_first + o_row // GROUP
    o_head = (i_heads * GROUP + o_row % GROUP).to(tl.int32)
    # a group that does not divide BLOCK_M leaves rows at the end of the tile unused
    m_row = (o_row < BLOCK_M // GROUP * GROUP) & (o_token < b_count)
    b_computed = seq_len - b_count
    # int64: token * stride exceeds 32 bits for long batches of many heads
    o_source = (b_start + o_token).to(tl.int64) * strides.query_token + o_head * strides.query_head
    p_source = tensors.query + o_source[:, None]
    m_source = m_row[:, None] & (o_dim < KEY_DIM)[None, :]
    b_query = tl.load(p_source + o_dim[None, :], mask=m_source, other=0.0)
    b_rest = None
    if BLOCK_R > 0:
        o_rest = BLOCK_D + tl.arange(0, BLOCK_R)
        m_rest = m_row[:, None] & (o_rest < KEY_DIM)[None, :]
        b_rest = tl.load(p_source + o_rest[None, :], mask=m_rest, other=0.0)

    if INTERPRETED and b_query.dtype == tl.bfloat16:
        # the interpreter multiplies their bits
        b_query = b_query.to(tl.float32)
        if BLOCK_R > 0:
            b_rest = b_rest.to(tl.float32)  # type: ignore[union-attr]
    if extras.key_scale is not None:
        b_key_scale = tl.load(extras.key_scale + i_kv_head * result_strides.key_scale)
        if SCORE_MOD is None:
            factor = factor * b_key_scale
        else:
            scale = scale * b_key_scale
    queries = Queries(
        pointer=tensors.query,
        main=b_query,
        rest=b_rest,
        request=i_request,
        head=o_head,
        position=b_computed + o_token,
        in_batch=m_row,
    )

    # queries of the tile, and the KV tiles that its mask lets them see
    # (a dummy request, of length 0, must not give a span before the start of its row)
    q_first = tl.maximum(b_computed + b_first, 0)
    q_last = tl.maximum(b_computed + tl.minimum(b_first + BLOCK_M // GROUP, b_count) - 1, 0)
    near_end, low, full_low, full_high, high = SPAN(
        q_first, q_last, seq_len, p_mask_row, MASK_PARAM
    )
    seen = Seen(
        near_end=near_end,
        low=low,
        full_low=full_low,
        full_high=full_high,
        high=tl.minimum(high, seq_len),
        seq_len=seq_len,
    )
    p_keys = tensors.key + i_kv_head * strides.head
    p_values = tensors.value + i_kv_head * strides.head
    d_key, d_rest, d_value = p_keys, p_keys, p_values
    if BODY > 0:
        # outside of the loop: a descriptor is written to memory before it is used
        d_key = tl.make_tensor_descriptor(
            p_keys,
            [strides.rows, KEY_DIM if BLOCK_R == 0 else BLOCK_D],
            [strides.token, 1],
            [BOX, BLOCK_D],
        )
        if BLOCK_R > 0:
            d_rest = tl.make_tensor_descriptor(
                p_keys + BLOCK_D,
                [strides.rows, KEY_DIM - BLOCK_D],
                [strides.token, 1],
                [BOX, BLOCK_R],
            )
        d_value = d_key
        if not IN_KEY and not IN_ROWS:
            d_value = tl.make_tensor_descriptor(
                p_values, [strides.rows, VALUE_DIM], [strides.token, 1], [BOX, BLOCK_V]
            )
    p_row = step.table + b_row * strides.table
    pages = Pages(
        row=p_row,
        key=p_keys,
        value=p_values,
        described_keys=d_key,
        described_rest=d_rest,
        described_values=d_value,
        block=strides.block,
        token=strides.token,
        block_rows=strides.block_rows,
        value_rows=strides.value_rows,
    )
    # in the call: what is assigned to a name is known at compile time no longer
    b_acc, b_max, b_sum = attend_carefully(
        begin,
        end,
        seen,
        queries,
        pages,
        Mods(
            MASK_MOD=MASK_MOD,
            MASK_PARAM=MASK_PARAM,
            mask_aux=p_mask_row,
            SCORE_MOD=SCORE_MOD,
            SCORE_PARAM=SCORE_PARAM,
            score_aux=step.score_aux,
            scale=scale,
            factor=factor,
        ),
        Sizes(
            BLOCK_M=BLOCK_M,
            BLOCK_N=BLOCK_N,
            KEY_DIM=KEY_DIM,
            BLOCK_D=BLOCK_D,
            BLOCK_R=BLOCK_R,
            VALUE_DIM=VALUE_DIM,
            BLOCK_V=BLOCK_V,
            IN_KEY=IN_KEY,
            BLOCK_SIZE=BLOCK_SIZE,
            RATIO=RATIO,
            BODY=BODY,
            BOX=BOX,
            REST=REST,
            EACH_MAXIMUM=EACH_MAXIMUM,
        ),
        FOLD,
    )

    # read again: what follows from them is not kept in registers through the loops
    b_first = tl.load(p_items + i_item * 5 + 1, volatile=True)
    b_start = tl.load(step.query_start + i_request, volatile=True)
    b_count = tl.load(step.query_start + i_request + 1, volatile=True) - b_start
    o_token = b_first + o_row // GROUP
    o_value_dim = tl.arange(0, BLOCK_V)
    m_row = (o_row < BLOCK_M // GROUP * GROUP) & (o_token < b_count)
    m_cell = m_row[:, None] & (o_value_dim < VALUE_DIM)[None, :]
    if b_partial >= 0:
        i_partial = b_partial * tl.num_programs(1) + i_heads
        o_cell = o_row[:, None] * BLOCK_V + o_value_dim[None, :]
        tl.store(scratch.partial + i_partial * partial_rows * BLOCK_V + o_cell, b_acc, mask=m_cell)
        p_state = scratch.state + i_partial * 2 * partial_rows + o_row
        tl.store(p_state, b_max, mask=m_row)
        tl.store(p_state + partial_rows, b_sum, mask=m_row)
    else:
        o_head = (i_heads * GROUP + o_row % GROUP).to(tl.int32)
        b_out, b_lse = finished(b_acc, b_max, b_sum, extras.sinks, o_head, m_row)
        if extras.value_scale is not None:
            b_out = b_out * tl.load(extras.value_scale + i_kv_head * result_strides.value_scale)
        o_place = (b_start + o_token).to(tl.int64)
        if extras.lse is not None:
            o_total = o_place * result_strides.lse_token + o_head * result_strides.lse_head
            tl.store(extras.lse + o_total, b_lse, mask=m_row)
        o_target = o_place * result_strides.out_token + o_head * result_strides.out_head
        p_target = tensors.out + o_target[:, None] + o_value_dim[None, :]
        tl.store(p_target, rounded(b_out, tensors.out.dtype.element_ty), mask=m_cell)
