# ruff: noqa: ARG001 - every mask_mod has the same parameters
"""Device functions for every mask_mod and score_mod, and the span of each mask.

A mask is two functions. The mask_mod `*_mask(request, head, query, key, p_aux, PARAM)` returns, for
each element, whether the query at position `query` sees the key at position `key`; positions count
from the request's first token and broadcast against one another. `*_span(first, last, seq_len,
p_aux, PARAM)` bounds it for the queries first..last of one tile, as five scalars:

    near_end, low, full_low, full_high, high

No query of the tile sees a key outside of [0, near_end) and [low, high), and every one sees all
keys of [full_low, full_high). Tiles outside are never visited; tiles inside of the full part are
not masked. p_aux points to the request's own int32 row, PARAM is known at compile time.

Padding of a tile gives positions outside of the request, negative ones too: every lookup by
position goes through `within`, so that none leaves the row.

A score_mod is `*_score(score, request, head, query, key, p_aux, PARAM)` -> float32; its p_aux
points to float32 values of the whole batch.
"""

from workbench.kernels.language import tl, triton


@triton.jit
def within(place, COUNT: tl.constexpr):
    """Return the nearest of the places 0 .. COUNT - 1."""
    return tl.minimum(tl.maximum(place, 0), COUNT - 1)


@triton.jit
def full_mask(request, head, query, key, p_aux, PARAM: tl.constexpr):
    """Show every key."""
    return (key >= 0) & (query >= 0)


@triton.jit
def full_span(first, last, seq_len, p_aux, PARAM: tl.constexpr):
    """Mark every tile as full."""
    return 0, 0, 0, seq_len, seq_len


@triton.jit
def causal_mask(request, head, query, key, p_aux, PARAM: tl.constexpr):
    """Show keys up to the query's own."""
    return key <= query


@triton.jit
def causal_span(first, last, seq_len, p_aux, PARAM: tl.constexpr):
    """Mark tiles as full up to the first query, and as hidden after the last one."""
    return 0, 0, 0, first + 1, last + 1


@triton.jit
def window_mask(request, head, query, key, p_aux, PARAM: tl.constexpr):
    """Show the last PARAM keys up to the query's own."""
    return (key <= query) & (query - key < PARAM)


@triton.jit
def window_span(first, last, seq_len, p_aux, PARAM: tl.constexpr):
    """Mark tiles as full from the last query's first visible key to the first query's key."""
    # full: from where the last query's window begins to where the first query ends
    return 0, first - PARAM + 1, last - PARAM + 1, first + 1, last + 1


@triton.jit
def around_mask(request, head, query, key, p_aux, PARAM: tl.constexpr):
    """Show the query's own key and PARAM - 1 keys on each side of it."""
    return (query - key < PARAM) & (key - query < PARAM)


@triton.jit
def around_span(first, last, seq_len, p_aux, PARAM: tl.constexpr):
    """Extend from the first query's earliest key to the last one's latest."""
    return 0, first - PARAM + 1, last - PARAM + 1, first + PARAM, last + PARAM


@triton.jit
def sink_window_mask(request, head, query, key, p_aux, PARAM: tl.constexpr):
    """Show the request's first `p_aux[0]` keys and the last PARAM ones, up to the query."""
    return (key <= query) & ((key < tl.load(p_aux)) | (query - key < PARAM))


@triton.jit
def sink_window_span(first, last, seq_len, p_aux, PARAM: tl.constexpr):
    """Give a near end of p_aux[0] keys, then the span of a window."""
    # sinks after the last query are hidden from all of the tile
    near_end = tl.minimum(tl.load(p_aux), last + 1)
    return near_end, first - PARAM + 1, last - PARAM + 1, first + 1, last + 1


@triton.jit
def chunked_mask(request, head, query, key, p_aux, PARAM: tl.constexpr):
    """Show keys of the query's own chunk of PARAM tokens, up to the query's own."""
    return (key <= query) & (key // PARAM == query // PARAM)


@triton.jit
def chunked_span(first, last, seq_len, p_aux, PARAM: tl.constexpr):
    """Begin at the start of the first query's chunk."""
    # with two chunks in the tile full_low is past full_high: all of it is masked
    return 0, first // PARAM * PARAM, last // PARAM * PARAM, first + 1, last + 1


@triton.jit
def document_mask(request, head, query, key, p_aux, PARAM: tl.constexpr):
    """Show keys of the query's document, up to its own; t's document starts at p_aux[t].

    p_aux holds PARAM positions.
    """
    # one lookup of a query, instead of one of each key
    start = tl.load(p_aux + within(query, PARAM))
    return (key <= query) & (key >= start)


@triton.jit
def document_span(first, last, seq_len, p_aux, PARAM: tl.constexpr):
    """Use the first query's start as lowest, the last one's as highest: starts never fall."""
    start, last_start = tl.load(p_aux + within(first, PARAM)), tl.load(p_aux + within(last, PARAM))
    return 0, start, last_start, first + 1, last + 1


@triton.jit
def prefix_lm_mask(request, head, query, key, p_aux, PARAM: tl.constexpr):
    """Show causal keys, and all keys within PARAM ranges of p_aux (start, end inclusive)."""
    visible = key <= query
    for i in tl.static_range(PARAM):
        start, end = tl.load(p_aux + 2 * i), tl.load(p_aux + 2 * i + 1)
        visible = visible | ((query >= start) & (query <= end) & (key >= start) & (key <= end))
    return visible


@triton.jit
def prefix_lm_span(first, last, seq_len, p_aux, PARAM: tl.constexpr):
    """Extend the causal span to the end of every range that holds one of the queries."""
    high = last + 1
    for i in tl.static_range(PARAM):
        start, end = tl.load(p_aux + 2 * i), tl.load(p_aux + 2 * i + 1)
        # an empty range, (0, -1), never reaches the queries
        high = tl.where((start <= last) & (end >= first), tl.maximum(high, end + 1), high)
    return 0, 0, 0, first + 1, high


@triton.jit
def unknown_span(first, last, seq_len, p_aux, PARAM: tl.constexpr):
    """Visit and mask every tile: for a mask without a span."""
    return 0, 0, 0, 0, seq_len


@triton.jit
def soft_cap_score(score, request, head, query, key, p_aux, PARAM: tl.constexpr):
    """Return PARAM * tanh(score / PARAM), written with exp: the interpreter has no tanh."""
    # an overflow of exp is right too: 2 / inf is 0, and tanh is 1
    return PARAM * (1.0 - 2.0 / (tl.exp(score * (2.0 / PARAM)) + 1.0))


@triton.jit
def alibi_score(score, request, head, query, key, p_aux, PARAM: tl.constexpr):
    """Add a penalty that grows with distance, by p_aux[head]; p_aux holds PARAM heads."""
    # key - query is at most 0 under a causal mask
    return score + tl.load(p_aux + within(head, PARAM)) * (key - query).to(tl.float32)
