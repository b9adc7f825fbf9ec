"""Masks: the device function is torch's, and the span keeps its word."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch.nn.attention.flex_attention import create_mask

from tests.kernels.paged_flex.cases import DEVICE
from tests.kernels.paged_flex.mods import picture_kernel
from workbench.kernels.errors import PagedFlexError
from workbench.kernels.paged_flex import masks

SIZE = 64
EXAMPLES = settings.default.max_examples
lengths = st.lists(st.integers(1, 30), max_size=8).map(lambda tokens: [*tokens, SIZE])


def a_range():
    return st.tuples(st.integers(0, SIZE), st.integers(-1, SIZE + 5))


one_interval = st.one_of(
    st.builds(masks.causal),
    st.builds(masks.full),
    st.builds(masks.sliding_window, st.integers(1, 80)),
    st.builds(masks.window_around, st.integers(1, 80)),
    st.builds(masks.chunked, st.integers(1, 80)),
)
any_mask = st.one_of(
    one_interval,
    st.builds(lambda sink, w: masks.sink_window([sink], w), st.integers(0, 70), st.integers(1, 70)),
    st.builds(lambda tokens: masks.document([tokens]), lengths),
    st.builds(lambda ranges: masks.prefix_lm([ranges]), st.lists(a_range(), max_size=3)),
)


def picture(mask, seq_len, tile):
    """(what each query sees, the span of each tile) as the device functions say."""
    seen = torch.zeros((SIZE, SIZE), dtype=torch.int8, device=DEVICE)
    spans = torch.zeros((SIZE // tile, 5), dtype=torch.int32, device=DEVICE)
    aux = torch.zeros((1, 1), dtype=torch.int32) if mask.aux is None else mask.aux
    picture_kernel[(1,)](
        seen,
        spans,
        aux.to(DEVICE),
        seq_len,
        aux.stride(0),
        SIZE=SIZE,
        TILE=tile,
        MASK_MOD=mask.mask_mod,
        SPAN=mask.span,
        PARAM=mask.param,
    )
    return seen.bool().cpu(), spans.tolist()


def tiles_of(mask, seq_len, tile):
    """The span of each tile of queries, and which of the request's keys its rows see."""
    seen, spans = picture(mask, seq_len, tile)
    for i in range(-(-seq_len // tile)):
        yield spans[i], seen[i * tile : min((i + 1) * tile, seq_len), :seq_len]


@settings(max_examples=EXAMPLES // 2)
@given(any_mask, st.integers(1, SIZE), st.sampled_from([1, 4, 16, 64]))
@example(masks.prefix_lm([[(3, 9), (20, 60)]]), SIZE, 16)
@example(masks.sliding_window(5), SIZE, 4)
@example(masks.window_around(5), SIZE, 4)
@example(masks.sink_window([3], 5), SIZE, 4)
@example(masks.chunked(6), SIZE, 4)
@example(masks.document([[10, 20, 34]]), SIZE, 4)
def test_a_span_holds_what_is_seen_and_its_full_part_is_full(mask, seq_len, tile):
    keys = torch.arange(seq_len)
    for (near, low, full_low, full_high, high), rows in tiles_of(mask, seq_len, tile):
        outside = ~((keys < near) | ((keys >= low) & (keys < high)))
        assert not rows[:, outside].any()
        inside = (keys >= full_low) & (keys < full_high) & (keys >= low) & (keys < high)
        assert rows[:, inside].all()


@settings(max_examples=EXAMPLES // 2)
@given(one_interval, st.integers(1, SIZE), st.sampled_from([1, 4, 16, 64]))
@example(masks.sliding_window(5), SIZE, 16)
@example(masks.window_around(5), SIZE, 16)
@example(masks.chunked(5), SIZE, 16)
@example(masks.causal(), SIZE, 16)
@example(masks.full(), SIZE - 3, 16)
def test_where_a_query_sees_one_interval_spans_waste_no_tile(mask, seq_len, tile):
    """No wider than what some query sees; full from the first to the last key that all see."""
    keys = torch.arange(seq_len)
    for (near, low, full_low, full_high, high), rows in tiles_of(mask, seq_len, tile):
        assert near == 0
        assert torch.equal((keys >= low) & (keys < high), rows.any(0))
        assert torch.equal((keys >= full_low) & (keys < full_high), rows.all(0))


def test_spans_of_several_parts_by_hand():
    """(end of the near part, then of the far part: first key, full from, full until, end)."""

    def spans(mask, length=SIZE):
        return picture(mask, length, 16)[1]

    assert spans(masks.prefix_lm([[(3, 9), (20, 60)]])) == [
        [0, 0, 0, 1, 16],
        [0, 0, 0, 17, 61],
        [0, 0, 0, 33, 61],
        [0, 0, 0, 49, 64],
    ]
    assert spans(masks.document([[10, 30, 24]])) == [
        [0, 0, 10, 1, 16],
        [0, 10, 10, 17, 32],
        [0, 10, 40, 33, 48],
        [0, 40, 40, 49, 64],
    ]
    assert [(near, low, high) for near, low, _, _, high in spans(masks.sink_window([3], 5))] == [
        (3, -4, 16),
        (3, 12, 32),
        (3, 28, 48),
        (3, 44, 64),
    ]
    # sinks end with the tile's last query
    assert [part[0] for part in spans(masks.sink_window([40], 5))] == [16, 32, 40, 40]
    # a tile from its last query's window to its first query sees all
    assert [part[2:4] for part in spans(masks.sink_window([3], 20))] == [
        [-4, 1],
        [12, 17],
        [28, 33],
        [44, 49],
    ]
    own = masks.Mask("own", masks.causal().mask_mod, masks.causal().torch_mask_mod)
    assert spans(own, 50) == [[0, 0, 0, 0, 50]] * 4


@settings(max_examples=EXAMPLES // 4)
@given(any_mask)
@example(masks.causal())
@example(masks.full())
@example(masks.sliding_window(5))
@example(masks.window_around(5))
@example(masks.sink_window([3], 5))
@example(masks.chunked(6))
@example(masks.document([[10, 20, 34]]))
@example(masks.prefix_lm([[(3, 9), (20, 60)]]))
def test_the_device_function_is_torchs(mask):
    """M7: against create_mask, which maps the torch function element by element."""
    seen, _ = picture(mask, SIZE, 64)
    expected = create_mask(mask.torch_mask_mod, 1, 1, SIZE, SIZE, device="cpu")[0, 0]
    assert torch.equal(seen, expected)


def test_the_pictures_are_what_the_names_say():
    def row(mask, query):
        return picture(mask, SIZE, 64)[0][query].nonzero().flatten().tolist()

    assert row(masks.causal(), 5) == [*range(6)]
    assert row(masks.full(), 5) == [*range(SIZE)]
    assert row(masks.sliding_window(3), 10) == [8, 9, 10]
    assert row(masks.sink_window([2], 3), 10) == [0, 1, 8, 9, 10]
    assert row(masks.chunked(7), 16) == [14, 15, 16]
    assert row(masks.document([[5, 20, 40]]), 8) == [5, 6, 7, 8]
    assert row(masks.prefix_lm([[(4, 9)]]), 6) == [*range(10)]
    assert row(masks.prefix_lm([[(4, 9)]]), 9) == [*range(10)]
    assert row(masks.prefix_lm([[(4, 9)]]), 3) == [*range(4)]


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda: masks.sliding_window(0), "window"),
        (lambda: masks.sliding_window(2.5), "window"),
        (lambda: masks.chunked(-1), "chunk"),
        (lambda: masks.sink_window([1, "x"], 4), "sinks"),
        (lambda: masks.document([[5, 0]]), "lengths[0]"),
        (lambda: masks.prefix_lm([[("a", 3)]]), "ranges"),
        (lambda: masks.soft_cap(0.0), "cap"),
    ],
)
def test_masks_that_cannot_be(make, field):
    with pytest.raises(PagedFlexError) as caught:
        make()
    assert caught.value.field == field
