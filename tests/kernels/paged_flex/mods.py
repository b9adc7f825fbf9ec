"""Device functions of a test's own."""

from workbench.kernels.language import tl, triton


@triton.jit
def blind_mask(request, head, query, key, p_aux, PARAM: tl.constexpr):
    return (query % 2 == 0) & (key <= query) & (request < 1)


@triton.jit
def by_head_mask(request, head, query, key, p_aux, PARAM: tl.constexpr):
    return (key <= query) & (key % PARAM == head % PARAM)


@triton.jit
def five_mask(request, head, query, key, p_aux):
    return key <= query


@triton.jit
def picture_kernel(
    p_seen,
    p_spans,
    p_aux,
    seq_len,
    aux_stride,
    SIZE: tl.constexpr,
    TILE: tl.constexpr,
    MASK: tl.constexpr,
    SPAN: tl.constexpr,
    PARAM: tl.constexpr,
):
    """seen [SIZE, SIZE] of request 0, and the span of every tile of queries [tiles, 5]."""
    query = tl.arange(0, SIZE)
    key = tl.arange(0, SIZE)
    seen = MASK(0, 0, query[:, None], key[None, :], p_aux, PARAM)
    tl.store(p_seen + query[:, None] * SIZE + key[None, :], seen.to(tl.int8))
    for first in range(0, seq_len, TILE):
        last = tl.minimum(first + TILE, seq_len) - 1
        near, low, full_low, full_high, high = SPAN(first, last, seq_len, p_aux, PARAM)
        p_span = p_spans + first // TILE * 5
        tl.store(p_span, near)
        tl.store(p_span + 1, low)
        tl.store(p_span + 2, full_low)
        tl.store(p_span + 3, full_high)
        tl.store(p_span + 4, high)


@triton.jit
def if_mask(request, head, q, k, p_aux, PARAM: tl.constexpr):
    if PARAM > 0:
        return k <= q
    if q > 3:
        return k < q
    return k == q


@triton.jit
def chained_mask(request, head, query, key, p_aux, PARAM: tl.constexpr):
    return 0 <= key <= query


@triton.jit
def and_score(score, request, head, query, key, p_aux, PARAM: tl.constexpr):
    return score * (key < query and key > 3)
