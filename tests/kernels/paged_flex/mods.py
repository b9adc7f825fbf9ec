# ruff: noqa: B015, F821 - some are wrong on purpose
"""Custom mask_mods and score_mods, and kernels that read their results."""

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
def store_span(p_spans, i_row, span):
    """Store a span as row `i_row` of [rows, 5]."""
    near, low, full_low, full_high, high = span
    p_span = p_spans + i_row * 5
    tl.store(p_span, near)
    tl.store(p_span + 1, low)
    tl.store(p_span + 2, full_low)
    tl.store(p_span + 3, full_high)
    tl.store(p_span + 4, high)


@triton.jit
def picture_kernel(
    p_seen,
    p_spans,
    p_aux,
    seq_len,
    aux_stride,
    SIZE: tl.constexpr,
    TILE: tl.constexpr,
    MASK_MOD: tl.constexpr,
    SPAN: tl.constexpr,
    PARAM: tl.constexpr,
):
    """seen [SIZE, SIZE] of request 0, and the span of every tile of queries [tiles, 5]."""
    query = tl.arange(0, SIZE)
    key = tl.arange(0, SIZE)
    seen = MASK_MOD(0, 0, query[:, None], key[None, :], p_aux, PARAM)
    tl.store(p_seen + query[:, None] * SIZE + key[None, :], seen.to(tl.int8))
    for first in range(0, seq_len, TILE):
        last = tl.minimum(first + TILE, seq_len) - 1
        store_span(p_spans, first // TILE, SPAN(first, last, seq_len, p_aux, PARAM))


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


@triton.jit
def renamed_mask(request, head, query, key, p_aux, PARAM: tl.constexpr):
    distance = query - key
    far = distance
    if far > 3:
        return distance < 0
    return key <= query


@triton.jit
def added_mask(request, head, query, key, p_aux, PARAM: tl.constexpr):
    far = PARAM
    far += query
    return key <= query if far else key < query


@triton.jit
def assert_mask(request, head, query, key, p_aux, PARAM: tl.constexpr):
    assert key <= query
    return key <= query


@triton.jit
def min_mask(request, head, query, key, p_aux, PARAM: tl.constexpr):
    return min(query, key) == key


@triton.jit
def in_mask(request, head, query, key, p_aux, PARAM: tl.constexpr):
    return key in (0, query)


@triton.jit
def scalar_mask(request, head, query, key, p_aux, PARAM: tl.constexpr):
    wide = PARAM + 1
    if wide > 4:
        return (key <= query) & (query - key < wide)
    return key <= query


@triton.jit
def float_mask(request, head, query, key, p_aux, PARAM: tl.constexpr):
    return (query - key) * 1.0


@triton.jit
def int_mask(request, head, query, key, p_aux, PARAM: tl.constexpr):
    return query - key


@triton.jit
def nothing_mask(request, head, query, key, p_aux, PARAM: tl.constexpr):
    key <= query


@triton.jit
def typo_mask(request, head, query, key, p_aux, PARAM: tl.constexpr):
    return kye <= query


KEYS = 16


@triton.jit
def anywhere_kernel(
    p_seen,
    p_spans,
    p_queries,
    seq_len,
    p_aux,
    KEYS: tl.constexpr,
    MASK_MOD: tl.constexpr,
    SPAN: tl.constexpr,
    PARAM: tl.constexpr,
):
    """One query per program, at any position: seen [queries, KEYS], and its span [queries, 5]."""
    i_query = tl.program_id(0)
    query = tl.load(p_queries + i_query)
    key = query + tl.arange(0, KEYS)
    seen = MASK_MOD(0, 0, (query + key * 0)[:, None], key[None, :], p_aux, PARAM)
    seen = tl.max(seen.to(tl.int8), 0)
    tl.store(p_seen + i_query * KEYS + tl.arange(0, KEYS), seen)
    store_span(p_spans, i_query, SPAN(query, query, seq_len, p_aux, PARAM))


@triton.jit
def slope_kernel(p_out, p_heads, p_slopes, SCORE_MOD: tl.constexpr, PARAM: tl.constexpr):
    """The score of the next key for a head of any number, one per program."""
    i_head = tl.program_id(0)
    head = tl.load(p_heads + i_head)
    query = head * 0
    tl.store(p_out + i_head, SCORE_MOD(0.0, 0, head, query, query + 1, p_slopes, PARAM))


@triton.jit
def read_past_mask(request, head, query, key, p_aux, PARAM: tl.constexpr):
    return (key <= query) & (key >= tl.load(p_aux + PARAM))


@triton.jit
def write_past_mask(request, head, query, key, p_aux, PARAM: tl.constexpr):
    tl.store(p_aux + PARAM, 7)
    return key <= query


@triton.jit
def read_past_score(score, request, head, query, key, p_aux, PARAM: tl.constexpr):
    return score + tl.load(p_aux + head + PARAM)
