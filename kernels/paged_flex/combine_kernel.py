"""Adding the splits of a tile of queries in order, within one program or by another kernel."""

from workbench.kernels.language import tl, triton
from workbench.kernels.mode import triton_mode
from workbench.kernels.paged_flex.bundles import Extras, ResultStrides, Scratch

INTERPRETED = tl.constexpr(triton_mode().mode == "interpreter")
LOWEST = tl.constexpr(-3.4028234663852886e38)
"""The least finite float32: what exponents are relative to in a row that has seen no key."""


@triton.jit
def rounded(b_values, DTYPE: tl.constexpr):
    """Return float32 values in another dtype, rounded to nearest, ties to even."""
    if INTERPRETED and tl.bfloat16 == DTYPE:
        # the interpreter cuts the bits off
        b_bits = b_values.to(tl.uint32, bitcast=True)
        b_bits = b_bits + 0x7FFF + ((b_bits >> 16) & 1)
        b_near = b_bits.to(tl.float32, bitcast=True)
        # of NaN and infinity nothing is cut off
        b_values = tl.where(tl.abs(b_values) < float("inf"), b_near, b_values)
    return b_values.to(DTYPE)


@triton.jit
def folded(b_acc, b_max, b_sum, b_split, b_split_max, b_split_sum):
    """Merge the state of everything so far with that of the next split.

    acc, split [rows, BLOCK_D]; max, sum [rows]; or all of them [dims], of one row. A split in which
    a row saw nothing adds exactly nothing, and the first split is left as it is.
    """
    b_new = tl.maximum(b_max, b_split_max)
    b_shrink = tl.exp2(b_max - b_new)
    b_weight = tl.exp2(b_split_max - b_new)
    # explicit fma: the compiler must not choose which product is rounded, both kernels must agree
    b_sum = tl.fma(b_split_sum, b_weight, b_sum * b_shrink)
    if len(b_acc.shape) > 1:
        b_weight = b_weight[:, None]
        b_shrink = b_shrink[:, None]
    b_acc = tl.fma(b_split, b_weight, b_acc * b_shrink)
    return b_acc, b_new, b_sum


@triton.jit
def finished(b_acc, b_max, b_sum, p_sink, o_head, m_head):
    """Return the result, and the log-sum-exp of what it was divided by, of a complete state.

    acc [rows, dims]; max, sum, head [rows]; or acc [dims] and the others of one row, [] or [dims].
    p_sink: a score for each head that takes part in the sum and has no value, or None. Without a
    visible key the result is 0, not NaN, and the log-sum-exp that of the sink alone, else -inf.
    """
    b_top = b_max
    if p_sink is not None:
        # log2(e): exponents are of 2
        b_sink = tl.load(p_sink + o_head, mask=m_head, other=0.0).to(tl.float32)
        b_sink = b_sink * 1.4426950408889634
        b_new = tl.maximum(b_top, b_sink)
        b_shrink = tl.exp2(b_top - b_new)
        b_sum = tl.fma(b_sum, b_shrink, tl.exp2(b_sink - b_new))
        b_acc = b_acc * (b_shrink[:, None] if len(b_acc.shape) > 1 else b_shrink)
        b_top = b_new
    # and ln(2)
    b_total = tl.where(b_sum == 0.0, 1.0, b_sum)
    b_lse = tl.where(b_sum == 0.0, float("-inf"), (b_top + tl.log2(b_total)) * 0.6931471805599453)
    return b_acc / (b_total[:, None] if len(b_acc.shape) > 1 else b_total), b_lse


@triton.jit(do_not_specialize_on_alignment=["extras"])
def combine_kernel(
    p_out, extras: Extras, scratch: Scratch, p_items, strides: ResultStrides, partial_rows,
    VALUE_DIM: tl.constexpr, BLOCK_V: tl.constexpr, GROUP: tl.constexpr, PARTS: tl.constexpr,
    BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Add the splits of one token and head in order, BLOCK_C dims per program.

    Grid: (items, query_heads, BLOCK_V / BLOCK_C). items [items, 5] int32: token in `out`, token in
    its tile, first partial, number of partials, and the partial that takes their sum, or -1 for
    the result in `out` and its log-sum-exp in lse. The scratch is as attend_kernel leaves it, rows
    of the tile's tokens times GROUP heads; the rest as there.
    """
    i_item = tl.program_id(0).to(tl.int64)
    i_head = tl.program_id(1).to(tl.int64)
    i_token = tl.load(p_items + i_item * 5).to(tl.int64)
    b_place = tl.load(p_items + i_item * 5 + 1)
    b_partial = tl.load(p_items + i_item * 5 + 2).to(tl.int64)
    b_splits = tl.load(p_items + i_item * 5 + 3)
    b_target = tl.load(p_items + i_item * 5 + 4).to(tl.int64)
    i_heads = i_head // GROUP
    i_kv_head = i_heads // PARTS
    programs = tl.num_programs(1) // GROUP
    i_row = b_place * GROUP + i_head % GROUP

    o_dim = tl.program_id(2) * BLOCK_C + tl.arange(0, BLOCK_C)
    m_dim = o_dim < VALUE_DIM
    # the same state for every dim: a scalar's load would not be pipelined
    o_same = o_dim * 0
    b_acc = tl.zeros([BLOCK_C], tl.float32)
    b_max = tl.full([BLOCK_C], LOWEST, tl.float32)
    b_sum = tl.zeros([BLOCK_C], tl.float32)
    # first to last, never a tree: the order of the sums fixes the bits
    for i_split in tl.range(0, b_splits, num_stages=4):
        i_partial = (b_partial + i_split) * programs + i_heads
        p_state = scratch.state + i_partial * 2 * partial_rows + i_row + o_same
        b_split_max = tl.load(p_state)
        b_split_sum = tl.load(p_state + partial_rows)
        p_split = scratch.partial + (i_partial * partial_rows + i_row) * BLOCK_V + o_dim
        b_split = tl.load(p_split, mask=m_dim, other=0.0)
        b_acc, b_max, b_sum = folded(b_acc, b_max, b_sum, b_split, b_split_max, b_split_sum)
    if b_target >= 0:
        i_target = b_target * programs + i_heads
        p_target = scratch.partial + (i_target * partial_rows + i_row) * BLOCK_V + o_dim
        tl.store(p_target, b_acc, mask=m_dim)
        p_state = scratch.state + i_target * 2 * partial_rows + i_row + o_same
        # every dim holds the same number; one part of the dims stores it
        m_first = o_dim == 0
        tl.store(p_state, b_max, mask=m_first)
        tl.store(p_state + partial_rows, b_sum, mask=m_first)
    else:
        b_out, b_lse = finished(b_acc, b_max, b_sum, extras.sinks, i_head + o_same, m_dim)
        if extras.value_scale is not None:
            b_out = b_out * tl.load(extras.value_scale + i_kv_head * strides.value_scale)
        if extras.lse is not None:
            o_total = i_token * strides.lse_token + i_head * strides.lse_head
            tl.store(extras.lse + o_total + o_same, b_lse, mask=o_dim == 0)
        p_result = p_out + i_token * strides.out_token + i_head * strides.out_head + o_dim
        tl.store(p_result, rounded(b_out, p_out.dtype.element_ty), mask=m_dim)
