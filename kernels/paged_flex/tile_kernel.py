# ruff: noqa: C901, PLR0912, PLR0915 - what is known at compile time has a branch of its own
"""One tile of queries over KV tiles: the online softmax."""

from workbench.kernels.language import tl, triton
from workbench.kernels.paged_flex.box_kernel import (
    blocks_of,
    box_at,
    box_of,
    keys_before,
    keys_in,
    keys_of,
    no_boxes,
    rest_in,
    values_in,
)
from workbench.kernels.paged_flex.bundles import Box, Mods, Pages, Queries, Seen, Sizes, Walk
from workbench.kernels.paged_flex.combine_kernel import INTERPRETED, LOWEST, rounded

LARGEST_SUM = tl.constexpr(0x46000000)
"""2**13 as the bits of a float32: a row whose weights in a tile sum to more has its max raised.
float16 has room for eight times as much."""


@triton.jit
def tile_at(i_visit, near_count, near_shift, shift):
    """Return the tile of a visit: those at the start of the request (sinks), then the others."""
    i_tile = i_visit + tl.where(i_visit < near_count, near_shift, shift)
    # divided without a sign's corrections
    tl.assume(i_tile >= 0)
    return i_tile


@triton.jit
def visible_keys(queries: Queries, o_key, mods: Mods, begin, end):
    """Return [rows, keys], whether the row's query sees the key, of begin .. end."""
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
    m_key = (o_key >= begin) & (o_key < end)
    return m_visible & m_key[None, :] & queries.in_batch[:, None]


@triton.jit
def seen_by(queries: Queries, i_tile, begin, end, mods: Mods, sizes: Sizes, walk: Walk):
    """Return `visible_keys` for each box of a tile."""
    m_boxes = no_boxes()
    for i in tl.static_range(walk.BOXES):
        o_key = keys_of(i_tile * walk.BOXES + i, sizes, walk)
        m_boxes += (visible_keys(queries, o_key, mods, begin, end),)
    return m_boxes


@triton.jit
def hidden(b_scores, m_boxes):
    """Return the scores of boxes with -inf where a row does not see a key."""
    b_masked = no_boxes()
    for i in tl.static_range(len(b_scores)):
        b_masked += (tl.where(m_boxes[i], b_scores[i], float("-inf")),)
    return b_masked


@triton.jit
def scores_of(b_key, box: Box, queries: Queries, pages: Pages, mods: Mods, sizes: Sizes,
              walk: Walk):  # fmt: skip
    """Return the scores [rows, KEYS] of a box's keys [BLOCK_D, KEYS], without a mask."""
    DTYPE: tl.constexpr = queries.main.dtype
    # ieee: TF32 would round float32 operands to 10 bits of mantissa
    b_score = tl.dot(queries.main, b_key, input_precision="ieee")
    if sizes.BLOCK_R > 0:
        b_rest = rest_in(box, pages, sizes, walk).to(DTYPE)
        b_score = tl.dot(queries.rest, b_rest, b_score, input_precision="ieee")
    if mods.SCORE_MOD is not None:
        b_score = mods.SCORE_MOD(
            b_score * mods.scale,
            queries.request,
            queries.head[:, None],
            queries.position[:, None],
            box.key[None, :],
            mods.score_aux,
            mods.SCORE_PARAM,
        )
    return b_score


@triton.jit
def weights_of(b_scores, b_max, mods: Mods):
    """Return the weights of each box, and the bits and the value of each row's sum of them."""
    b_weights = no_boxes()
    for i in tl.static_range(len(b_scores)):
        b_exponent = b_scores[i] * mods.factor - b_max[:, None]
        if INTERPRETED:
            # numpy warns of an infinite weight, which is computed again; not of this one
            b_exponent = tl.where(b_exponent > 100.0, 100.0, b_exponent)
        b_weights += (tl.exp2(b_exponent),)
    b_total = b_weights[0]
    for i in tl.static_range(1, len(b_scores)):
        b_total += b_weights[i]
    b_total = tl.sum(b_total, 1)
    # integers of the same order, NaN is the largest of them
    return b_weights, b_total.to(tl.int32, bitcast=True), b_total


@triton.jit
def highest(b_scores, b_max, mods: Mods):
    """Return the exponent of each row's largest score, and of those before it."""
    b_top = b_scores[0]
    for i in tl.static_range(1, len(b_scores)):
        b_top = tl.maximum(b_top, b_scores[i])
    return tl.maximum(b_max, tl.max(b_top, 1) * mods.factor)


@triton.jit
def raised(b_scores, b_new, b_acc, b_max, b_sum, mods: Mods):
    """Return the weights of each box relative to b_new, and the state with them in its sum."""
    # LOWEST is finite: -inf less -inf, before a row sees a key, would be NaN
    b_shrink = tl.exp2(b_max - b_new)
    b_weights, _b_bits, b_total = weights_of(b_scores, b_new, mods)
    # explicit fma: the compiler must not choose whether the product is rounded
    return b_weights, b_acc * b_shrink[:, None], b_new, tl.fma(b_sum, b_shrink, b_total)


@triton.jit
def attend_tiles(
    b_acc, b_max, b_sum, begin, end, seen: Seen, queries: Queries, pages: Pages, mods: Mods,
    sizes: Sizes, walk: Walk, CAREFUL: tl.constexpr,
):  # fmt: skip
    """Fold a walk's visible keys of begin .. end, in order, into the state of the online softmax.

    acc [rows, BLOCK_V], max [rows], sum [rows] are the state. max is the exponent that a row's
    weights are relative to: the largest of its first tile, and raised where the weights of a later
    tile would be large, which is rare; other tiles need no maximum, and the state no new scale.
    EACH_MAXIMUM raises it in every tile: narrow ones compute a maximum more quickly than all
    threads can agree that they need none. A tile is BOXES boxes, from a multiple of it on.
    Tiles of which every row sees all keys are not masked. All others run the same instructions
    and MASK_MOD, so that bits do not depend on which tiles are full. CAREFUL masks all, omits
    keys with a value that is not finite, and makes the rows that see one NaN. What descriptors
    copy from after the request's end has a weight of zero.
    """
    DTYPE: tl.constexpr = queries.main.dtype
    WEIGHT: tl.constexpr = queries.pointer.dtype.element_ty
    KEYS: tl.constexpr = walk.KEYS
    N: tl.constexpr = KEYS * walk.BOXES
    tl.assume(begin >= 0)
    seq_len = seen.seq_len
    high = tl.minimum(seen.high, end)
    t_begin = keys_before(begin, sizes, walk) // N
    t_end = tl.cdiv(keys_before(end, sizes, walk), N)
    t_high = tl.cdiv(keys_before(high, sizes, walk), N)
    t_low = tl.minimum(keys_before(tl.maximum(seen.low, 0), sizes, walk) // N, t_high)
    t_near_end = tl.cdiv(keys_before(seen.near_end, sizes, walk), N)
    # sinks that reach the window are part of it: no tile is visited twice
    t_near_end = tl.minimum(tl.minimum(t_near_end, t_low), t_end)
    full_low, full_high = tl.maximum(seen.full_low, begin), tl.minimum(seen.full_high, high)
    t_full = tl.cdiv(keys_before(full_low, sizes, walk), N)
    t_full_end = keys_before(tl.maximum(full_high, 0), sizes, walk) // N
    t_low = tl.minimum(tl.maximum(t_low, t_begin), t_end)
    t_high = tl.minimum(tl.maximum(t_high, t_begin), t_end)
    # sinks: tiles from the start of the request, before the window
    near_count = tl.maximum(t_near_end, t_begin) - t_begin
    shift = t_low - near_count
    tile_count = near_count + t_high - t_low
    # as visits: a tile's number would be kept from where its keys are copied to its mask
    v_full, v_full_end = tl.maximum(t_full - shift, near_count), t_full_end - shift

    i_last = tl.cdiv(keys_before(seq_len, sizes, walk), KEYS) - 1
    i_tile = tile_at(0, near_count, t_begin, shift)
    b_blocks = blocks_of(i_tile, i_last, pages.row, seq_len, tile_count > 0, sizes, walk)
    STAGES: tl.constexpr = (1 if walk.DESCRIBED else 2) if CAREFUL else None
    # with no way around the loop, numbers that all threads share have registers that they share
    if tile_count > 0:
        for i_visit in tl.range(0, tile_count, num_stages=STAGES):
            i_tile = tile_at(i_visit, near_count, t_begin, shift)
            boxes = no_boxes()
            for i in tl.static_range(walk.BOXES):
                i_box = i_tile * walk.BOXES + i
                boxes += (box_of(i_box, b_blocks[i], pages, seq_len, sizes, walk),)
            # the next tile's blocks now: an address that waits for a load in its own iteration
            # would take a stage of the pipeline, and no keys or values would be on their way
            i_next = tile_at(i_visit + 1, near_count, t_begin, shift)
            b_blocks = blocks_of(i_next, i_last, pages.row, seq_len, True, sizes, walk)

            # copies that come one after the other are awaited together
            b_copies = no_boxes()
            for i in tl.static_range(walk.BOXES):
                b_copies += (keys_in(box_at(boxes, i), pages, sizes, walk),)
            b_keys = no_boxes()
            b_scores = no_boxes()
            for i in tl.static_range(walk.BOXES):
                b_key = (b_copies[i].T if walk.DESCRIBED else b_copies[i]).to(DTYPE)
                b_keys += (b_key,)
                b_scores += (scores_of(b_key, box_at(boxes, i), queries, pages, mods, sizes, walk),)
            if CAREFUL:
                m_boxes = seen_by(queries, i_tile, begin, high, mods, sizes, walk)
                b_scores = hidden(b_scores, m_boxes)
            elif (i_visit < v_full) | (i_visit >= v_full_end):
                # not i_tile, which would be kept from where its keys are copied until here
                i_seen = tl.where(i_visit < near_count, i_visit + t_begin, i_visit + shift)
                m_boxes = seen_by(queries, i_seen, begin, high, mods, sizes, walk)
                b_scores = hidden(b_scores, m_boxes)

            if sizes.EACH_MAXIMUM:
                b_new = highest(b_scores, b_max, mods)
                b_weights, b_acc, b_max, b_sum = raised(b_scores, b_new, b_acc, b_max, b_sum, mods)
            else:
                b_weights, b_bits, b_total = weights_of(b_scores, b_max, mods)
                if tl.max(b_bits) > LARGEST_SUM:
                    # each row for itself: the others are multiplied with 1, and keep their bits
                    b_new = tl.where(b_bits > LARGEST_SUM, highest(b_scores, b_max, mods), b_max)
                    b_weights, b_acc, b_max, b_sum = raised(
                        b_scores, b_new, b_acc, b_max, b_sum, mods
                    )
                else:
                    b_sum = b_sum + b_total

            b_values = no_boxes()
            for i in tl.static_range(walk.BOXES):
                if sizes.IN_KEY:
                    b_values += (b_keys[i].T,)
                else:
                    box = box_at(boxes, i)
                    b_values += (values_in(box, box.in_request, pages, sizes, walk),)
            for i in tl.static_range(walk.BOXES):
                b_value, b_weight = b_values[i].to(DTYPE), b_weights[i]
                if CAREFUL:
                    m_tame = tl.abs(b_value.to(tl.float32)) < float("inf")
                    m_odd = tl.max(tl.where(m_tame, 0, 1), 1) > 0
                    # a row that sees a NaN becomes NaN, and no other: zero times NaN would be NaN
                    b_weight = tl.where(m_boxes[i] & m_odd[None, :], float("nan"), b_weight)
                    m_value = box_at(boxes, i).in_request & ~m_odd
                    b_value = tl.where(m_value[:, None], b_value, 0.0)
                b_weight = rounded(b_weight, WEIGHT).to(DTYPE)
                b_acc = tl.dot(b_weight, b_value, b_acc, input_precision="ieee")
    return b_acc, b_max, b_sum


@triton.jit
def attend_piece(
    begin, end, seen: Seen, queries: Queries, pages: Pages, mods: Mods, sizes: Sizes,
    CAREFUL: tl.constexpr,
):  # fmt: skip
    """Return the state of a tile of queries over the keys begin .. end, starting empty.

    begin is a multiple of BLOCK_N.
    """
    b_acc = tl.zeros([sizes.BLOCK_M, sizes.BLOCK_V], tl.float32)
    b_max = tl.full([sizes.BLOCK_M], LOWEST, tl.float32)
    b_sum = tl.zeros([sizes.BLOCK_M], tl.float32)
    # in the calls: what is assigned to a name is known at compile time no longer
    if sizes.BODY > 0:
        b_acc, b_max, b_sum = attend_tiles(
            b_acc, b_max, b_sum, begin, end, seen, queries, pages, mods, sizes,
            Walk(
                DESCRIBED=True,
                KEYS=sizes.BOX,
                BOXES=sizes.BLOCK_N // sizes.BOX,
                IN_PAGE=sizes.BODY,
                AFTER=0,
            ),
            CAREFUL,
        )  # fmt: skip
    if sizes.BODY < sizes.BLOCK_SIZE:
        b_acc, b_max, b_sum = attend_tiles(
            b_acc, b_max, b_sum, begin, end, seen, queries, pages, mods, sizes,
            Walk(
                DESCRIBED=False,
                KEYS=sizes.REST,
                BOXES=1,
                IN_PAGE=sizes.BLOCK_SIZE - sizes.BODY,
                AFTER=sizes.BODY,
            ),
            CAREFUL,
        )  # fmt: skip
    return b_acc, b_max, b_sum
