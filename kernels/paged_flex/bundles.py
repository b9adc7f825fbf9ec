"""Arguments of the kernels in bundles: tuples with names, each of them one argument.

Their fields are pointers and numbers of the device; the host fills them with tensors, or with
addresses, and numbers. Those in capitals are known at compile time. None can be called `values` or
`type`: Triton's own tuples have these.
"""

from typing import Any, NamedTuple


class Tensors(NamedTuple):
    """Of a layer: query, out [token, head, dim]; key, value [block, token, kv_head, dim]."""

    query: Any
    key: Any
    value: Any
    out: Any


class Extras(NamedTuple):
    """What only some layers have, else None; addresses need not be multiples of 16."""

    lse: Any = None
    """[tokens, query_heads] float32: takes the log-sum-exp of every token's scores."""
    sinks: Any = None
    """[query_heads]: a learned score of each head, in the sum, without a value."""
    key_scale: Any = None
    """[kv_heads] or of one number, float32: a cache's keys are multiplied with it."""
    value_scale: Any = None


class Step(NamedTuple):
    """What a step gives to all of its layers; int32, but score_aux float32."""

    query_start: Any
    """[requests + 1]."""
    seq_lens: Any
    """[requests]."""
    rows: Any
    """[requests]: row of `table`."""
    table: Any
    """[row, entry] -> physical block; an entry covers RATIO kernel blocks of BLOCK_SIZE tokens."""
    mask_aux: Any
    """[request, ...]."""
    score_aux: Any


class Scratch(NamedTuple):
    """Unnormalised sums of splits, float32."""

    partial: Any
    """[partial, kv_head, rows, BLOCK_V]."""
    state: Any
    """[partial, kv_head, 2, rows]: what exponents are relative to, and the sum."""


class ResultStrides(NamedTuple):
    """Distances in what the results are stored with."""

    out_token: int
    out_head: int
    lse_token: int
    lse_head: int
    key_scale: int
    value_scale: int


class Strides(NamedTuple):
    """Distances in what an attend reads."""

    query_token: int
    query_head: int
    block: int
    token: int
    head: int
    rows: int
    """Rows of a head's keys, as a list."""
    block_rows: int
    """How many of them are from block to block."""
    value_rows: int
    """How many of them are from a token's key to its value, in one list; 0: values have another."""
    table: int
    mask_aux: int


class Queries(NamedTuple):
    """A tile's queries: row r is head r % GROUP of a token."""

    pointer: Any
    """Its dtype is what weights are rounded to."""
    main: Any
    """[rows, BLOCK_D]."""
    rest: Any
    """[rows, BLOCK_R]: dims after BLOCK_D; None without."""
    request: Any
    head: Any
    position: Any
    in_batch: Any


class Seen(NamedTuple):
    """The span of a tile's mask, as in `mask_kernel`, and its request's length, in keys."""

    near_end: Any
    low: Any
    full_low: Any
    full_high: Any
    high: Any
    seq_len: Any


class Pages(NamedTuple):
    """The keys and values of one request and head."""

    row: Any
    """Its row of the block table."""
    key: Any
    value: Any
    described_keys: Any
    """Descriptors of a head's keys and values as rows of the cache; `key` without."""
    described_rest: Any
    described_values: Any
    block: Any
    """Distances: from block to block, from token to token, and from block to block in rows."""
    token: Any
    block_rows: Any
    value_rows: Any
    """Rows from a token's key to its value, if `described_values` lists both."""


class Walk(NamedTuple):
    """Some of every page's keys, in order: see `box_kernel`. All is known at compile time."""

    DESCRIBED: Any
    """They are copied by descriptors."""
    KEYS: Any
    """Keys of a box."""
    BOXES: Any
    """Boxes of a tile."""
    IN_PAGE: Any
    """Keys of a page."""
    AFTER: Any
    """Keys of a page before them."""


class Box(NamedTuple):
    """Keys that are copied at once."""

    key: Any
    """[KEYS] positions in the request."""
    in_request: Any
    slot: Any
    """Distance of the keys from the first one in the pages: one, or one for each."""
    place: Any
    """Row of the first key in the descriptors' list."""


class Mods(NamedTuple):
    """The functions of a mask and a score, and what the score is multiplied with."""

    MASK_MOD: Any
    MASK_PARAM: Any
    mask_aux: Any
    SCORE_MOD: Any
    SCORE_PARAM: Any
    score_aux: Any
    scale: Any
    factor: Any
    """Of the exponent: scale * log2(e), without the scale if there is a SCORE_MOD."""


class Sizes(NamedTuple):
    """Of a tile, its heads and pages, at compile time."""

    BLOCK_M: Any
    BLOCK_N: Any
    KEY_DIM: Any
    BLOCK_D: Any
    BLOCK_R: Any
    """Dims of keys after BLOCK_D, padded; 0 without."""
    VALUE_DIM: Any
    BLOCK_V: Any
    IN_KEY: Any
    """Values are the first BLOCK_D dims of the keys, read once."""
    BLOCK_SIZE: Any
    RATIO: Any
    BODY: Any
    """Keys of a page that descriptors copy, a multiple of BOX; 0 without."""
    BOX: Any
    """Keys that they copy at once, which divide BLOCK_N."""
    REST: Any
    """Keys of a tile whose keys are copied by pointers."""
    EACH_MAXIMUM: Any
    """Every tile takes the maximum of its scores."""
