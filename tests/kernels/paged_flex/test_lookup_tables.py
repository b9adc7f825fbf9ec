"""Lookup tables of masks and scores: long enough, of the right dtype, read only in their row."""

from dataclasses import replace

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.block_table.guards import GuardedMemory, GuardError
from tests.kernels.paged_flex import mods
from tests.kernels.paged_flex.cases import (
    DEVICE,
    FOLDED,
    ONE_PATH,
    SPLIT,
    Case,
    interpreted,
    live_memory,
    requests,
)
from workbench.kernels.block_table.traffic import OutOfBounds, counted_traffic
from workbench.kernels.errors import PagedFlexError
from workbench.kernels.paged_flex import mask_kernel, masks
from workbench.kernels.paged_flex.api import paged_attention
from workbench.kernels.paged_flex.engine import engine_attention
from workbench.kernels.paged_flex.masks import Mask, Score
from workbench.kernels.paged_flex.reference import agreement, dense_attention

SIZES = ((150, 33), (300, 1), (17, 17))
SHORT_DOCUMENTS = [[150], [20, 30], [17]]
TABLES = {
    "sinks": masks.sink_window([3, 70, 5], 20),
    "documents": masks.document([[10, 60, 80], [250, 50], [1, 7, 9]]),
    "long documents": masks.document([[150, 900], [1, 1, 800], [17]]),
    "prefix": masks.prefix_lm([[(3, 140)], [(0, 10), (280, 290)], [(9, 12), (14, 16)]]),
    "no prefix": masks.prefix_lm([[], [], []]),
}
BATCH = Case(requests(*SIZES), 16, poison=0.0)
CALLS = {"kernel": paged_attention, "engine": engine_attention, "reference": dense_attention}


def call(name, mask=None, score=None):
    mask = mask or masks.causal()
    return CALLS[name](BATCH.query, BATCH.cache, BATCH.batch, mask=mask, score=score)


@pytest.mark.parametrize("name", CALLS)
def test_documents_that_end_before_their_request_are_refused(name):
    with pytest.raises(
        PagedFlexError, match=r"add up to 50 tokens.*Expected at least 300"
    ) as caught:
        call(name, masks.document(SHORT_DOCUMENTS))
    error = caught.value
    assert (error.field, error.given, error.limit) == ("lengths", 50, 300)
    assert (error.index, error.request) == (1, 1)
    assert "Nearest valid value: 300" in str(error)


def test_nothing_is_written_by_a_call_whose_documents_are_too_short():
    out = torch.full_like(BATCH.query, 7.0)
    with pytest.raises(PagedFlexError):
        paged_attention(
            BATCH.query,
            BATCH.cache,
            BATCH.batch,
            mask=masks.document(SHORT_DOCUMENTS).on(DEVICE),
            out=out,
        )
    assert (out == 7.0).all()


documents = st.lists(st.integers(1, 120), max_size=4)


@settings(max_examples=settings.default.max_examples // 4)
@given(st.lists(st.tuples(st.integers(1, 120), documents), min_size=1, max_size=3))
def test_documents_are_refused_exactly_where_they_end_before_their_request(batch):
    case = Case(requests(*((tokens, 1) for tokens, _ in batch)), 16, guarded=True)
    mask = masks.document([lengths for _, lengths in batch])
    missing = [i for i, (tokens, lengths) in enumerate(batch) if sum(lengths) < tokens]
    if not missing:
        case.check(mask)
        return
    with pytest.raises(PagedFlexError) as caught:
        case.attend(mask)
    assert caught.value.request == missing[0]
    assert caught.value.limit == batch[missing[0]][0]


def test_a_dummy_request_needs_no_documents():
    case = Case(requests((40, 3)), 16, dummies=(0,), guarded=True)
    case.check(masks.document([[], [40]]))


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(
    ("options", "match", "field", "given", "limit"),
    [
        ({"mask": masks.document([[150]])}, "values of 1 requests", "mask", 1, 3),
        ({"score": masks.alibi([0.5])}, "1 values for 2 heads", "score", 1, 2),
        (
            {"mask": replace(TABLES["sinks"], aux=torch.zeros(3, dtype=torch.int32))},
            r"\[requests, values\]",
            "mask",
            (3,),
            2,
        ),
        (
            {"mask": replace(TABLES["sinks"], aux=torch.zeros(3, 1))},
            "must hold integers",
            "mask",
            "torch.float32",
            None,
        ),
        (
            {"mask": replace(TABLES["prefix"], aux=TABLES["prefix"].aux[:, :3])},
            "reads 4 values",
            "mask",
            3,
            4,
        ),
        ({"mask": replace(TABLES["documents"], aux=None)}, "reads 512 values", "mask", 0, 512),
        ({"score": replace(masks.alibi([1.0, 2.0]), aux=None)}, "0 values", "score", 0, 2),
        (
            {"score": replace(masks.alibi([1.0, 2.0]), aux=torch.zeros(2, 2))},
            "flat",
            "score",
            (2, 2),
            1,
        ),
    ],
)
def test_tables_of_another_shape_are_refused(name, options, match, field, given, limit):
    with pytest.raises(PagedFlexError, match=match) as caught:
        call(name, **options)
    error = caught.value
    assert (error.field, error.given, error.limit) == (field, given, limit)


@pytest.mark.parametrize(
    ("make", "field", "match"),
    [
        (lambda: masks.sink_window(3, 4), "sinks", "Invalid sinks 3. Expected a list"),
        (lambda: masks.document(None), "lengths", "Invalid lengths None. Expected a list"),
        (lambda: masks.document([[5], 7]), "lengths[1]", r"lengths\[1\] 7. Expected a list"),
        (lambda: masks.prefix_lm([7]), "ranges[0]", r"ranges\[0\] 7. Expected a list"),
        (lambda: masks.alibi(0.5), "slopes", "Invalid slopes 0.5. Expected a list"),
        (lambda: masks.sink_window([1, 2**31], 4), "sinks", "Nearest valid value: 2147483646"),
        (lambda: masks.sink_window([1, 1.5], 4), "sinks", "Expected integers"),
        (lambda: masks.sink_window([True], 4), "sinks", "Expected integers"),
        (lambda: masks.prefix_lm([[(0, 2**31)]]), "ranges", "Nearest valid value: 2147483646"),
        (lambda: masks.prefix_lm([[(0, 2**31 - 1)]]), "ranges", "2147483646"),
        (lambda: masks.prefix_lm([[], [(-(2**40), 3)]]), "ranges", "-2147483648"),
        (lambda: masks.prefix_lm([[(1, 2, 3)]]), "ranges", "start, end"),
        (lambda: masks.prefix_lm([[(1, 2, 3), (4,)]]), "ranges", "start, end"),
        (lambda: masks.prefix_lm([[7]]), "ranges", "start, end"),
        (lambda: masks.document([[5], [2**31]]), "lengths[1]", "2147483646"),
        (lambda: masks.document([[5], [2**31 - 2, 1]]), "lengths", "2147483646"),
        (lambda: masks.sliding_window(2**31 - 1), "window", "Nearest valid value: 2147483646"),
        (lambda: masks.chunked(2**40), "chunk", "Nearest valid value: 2147483646"),
        (lambda: masks.sink_window([1], -(2**40)), "window", "Nearest valid value: 1"),
        (lambda: masks.soft_cap(float("inf")), "cap", "finite"),
        (lambda: masks.soft_cap(True), "cap", "numbers"),
        (lambda: masks.soft_cap(1e-40), "cap", "1.17549e-38"),
        (lambda: masks.alibi([1.0, "x"]), "slopes", "numbers"),
        (lambda: masks.alibi([1.0, float("nan")]), "slopes", r"slopes\[1\] nan.*finite"),
        (lambda: masks.alibi([-1e39]), "slopes", "Nearest valid value: -3.4028235e.38"),
    ],
)
def test_values_that_no_table_can_hold_are_refused(make, field, match):
    with pytest.raises(PagedFlexError, match=match) as caught:
        make()
    assert caught.value.field == field


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "mask",
    [
        masks.sliding_window(2**31 - 2),
        masks.chunked(2**31 - 2),
        masks.sink_window([2**31 - 2, 3, -5], 2**31 - 2),
        masks.prefix_lm([[(0, 2**31 - 2)], [(-(2**31), 2**31 - 2)], [(9, 2)]]),
    ],
    ids=lambda mask: mask.name,
)
def test_the_largest_values_are_computed_rightly(mask):
    Case(requests(*SIZES), 16, guarded=True).check(mask)


@pytest.mark.parametrize("make", [masks.document, masks.prefix_lm])
def test_masks_of_an_empty_batch(make):
    case = Case(requests((5, 0)), 16, padding=2)
    assert not case.attend(make([[5]] if make is masks.document else [[]])).any()
    assert len(make([]).aux) == 0


def test_tables_with_strides_of_their_own():
    prefix, alibi = TABLES["prefix"], masks.alibi([0.3, 0.01])
    apart = torch.stack([alibi.aux, torch.full_like(alibi.aux, 9.0)], 1)[:, 0]
    mask, score = replace(prefix, aux=prefix.aux.T.contiguous().T), replace(alibi, aux=apart)
    assert (mask.aux.stride(1), score.aux.stride(0)) != (1, 1)
    BATCH.check(mask, score)


# ---- fences


@pytest.mark.sampled(2)
@interpreted
@pytest.mark.parametrize("settings", [SPLIT, ONE_PATH, FOLDED], ids=["split", "one path", "folded"])
@pytest.mark.parametrize("name", TABLES)
def test_every_mask_reads_its_own_row_only(name, settings):
    case = Case(requests(*SIZES), 48, dummies=(3,), padding=2, guarded=True)
    mask = with_a_row_for_the_dummy(TABLES[name])
    prepared = case.prepared(mask, masks.alibi([0.3, 0.01]), settings)
    with counted_traffic(allowed=live_memory(case, prepared.plan)):
        prepared.run()
    case.memory.check()
    assert agreement(
        case.out, case.query, case.cache, case.batch, mask, masks.alibi([0.3, 0.01])
    ).ok


def with_a_row_for_the_dummy(mask):
    aux = torch.cat([mask.aux, torch.zeros_like(mask.aux[:1])])
    return replace(
        mask,
        aux=aux,
        torch_mask_mod=mask.torch_mask_mod_of(aux),
        tokens=mask.tokens and (*mask.tokens, 0),
    )


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", TABLES)
def test_what_is_stored_around_a_table_changes_no_bit(name):
    """Rows apart, with poison before, between and after them; and contiguous rows with zeros."""
    case = Case(requests(*SIZES), 48, guarded=True)
    score = masks.alibi([0.3, 0.01])
    fenced = case.attend(TABLES[name], score).clone()
    plain = Case(requests(*SIZES), 48).attend(TABLES[name], score)
    assert torch.equal(fenced, plain)


def looked_up(mod, param, queries, row):
    """What `mod` says for queries anywhere, and the spans of such tiles, on a row of its own."""
    seen = torch.zeros((len(queries), mods.KEYS), dtype=torch.int8, device=DEVICE)
    spans = torch.zeros((len(queries), 5), dtype=torch.int32, device=DEVICE)
    places = torch.tensor(queries, dtype=torch.int32, device=DEVICE)
    span = getattr(mask_kernel, mod.__name__.replace("_mask", "_span"))
    arguments = (seen, spans, places, len(queries), row)
    with counted_traffic(allowed=[*arguments[:3], row]):
        mods.anywhere_kernel[(len(queries),)](
            *arguments, KEYS=mods.KEYS, MASK_MOD=mod, SPAN=span, PARAM=param
        )
    return seen, spans


@interpreted
@given(
    st.sampled_from([name for name in TABLES if name != "no prefix"]),
    st.lists(st.integers(-600, 5000), min_size=1, max_size=4),
)
def test_no_position_leads_a_lookup_out_of_its_row(name, queries):
    mask, memory = TABLES[name], GuardedMemory(DEVICE)
    row = memory.rows(len(mask.aux), mask.aux.shape[1]).copy_(mask.aux)[1]
    _seen, spans = looked_up(mask.mask_mod, mask.param, queries, row)
    memory.check()
    assert_equal_on_the_host(mask, queries, spans)


def assert_equal_on_the_host(mask, queries, spans):
    """Programs are planned with host spans: they bound the same keys, past the table as well."""
    places = np.array(queries, dtype=np.int64)
    rows, length = np.ones_like(places), np.full_like(places, len(queries))
    near, low, high = mask.host_span(places, places, length, rows, mask.aux.numpy(), mask.param)
    kernel = spans.numpy().astype(np.int64)
    assert np.array_equal(np.minimum(near, places + 1), np.minimum(kernel[:, 0], places + 1))
    assert np.array_equal(low, kernel[:, 1])
    assert np.array_equal(high, kernel[:, 4])


@interpreted
@given(st.lists(st.integers(-600, 5000), min_size=1, max_size=4), st.integers(1, 5))
def test_no_head_leads_a_slope_out_of_its_table(heads, count):
    score = masks.alibi([0.5] * count)
    slopes = GuardedMemory(DEVICE).allocate((count,), torch.float32).copy_(score.aux)
    places = torch.tensor(heads, dtype=torch.int32)
    found = torch.zeros(len(heads))
    with counted_traffic(allowed=[places, found, slopes]):
        mods.slope_kernel[(len(heads),)](
            found, places, slopes, SCORE_MOD=score.score_mod, PARAM=score.param
        )
    assert (found == 0.5).all()


def own(mod, **fields):
    """A mask of a test's own with a table of one value for each request."""
    aux = torch.zeros((3, 1), dtype=torch.int32)
    causal = masks.causal()
    return Mask(
        mod.__name__,
        mod,
        causal.torch_mask_mod,
        aux=aux,
        torch_mask_mod_of=lambda _: causal.torch_mask_mod,
        **fields,
    )


@interpreted
def test_a_read_past_a_table_is_noticed():
    case = Case(requests(*SIZES), 48, guarded=True)
    mask = own(mods.read_past_mask, param=1)
    prepared = case.prepared(mask)
    with pytest.raises(OutOfBounds), counted_traffic(allowed=live_memory(case, prepared.plan)):
        prepared.run()


def test_a_read_past_a_table_finds_poison():
    """On a GPU too: the value read there is not in any table."""
    case = Case(requests(*SIZES), 48, guarded=True)
    result = case.attend(own(mods.read_past_mask, param=1))
    assert not agreement(result, case.query, case.cache, case.batch, masks.causal()).ok


@pytest.mark.sampled(1)
@pytest.mark.parametrize("param", [1, -1])
def test_a_write_next_to_a_row_is_noticed(param):
    case = Case(requests(*SIZES), 48, guarded=True)
    with pytest.raises(GuardError):
        case.attend(own(mods.write_past_mask, param=param))


@interpreted
def test_a_score_that_reads_past_its_values_is_noticed():
    case = Case(requests(*SIZES), 48, guarded=True)
    alibi = masks.alibi([0.5, 0.25])
    score = Score("past", mods.read_past_score, alibi.torch_score_mod, 2, alibi.aux)
    prepared = case.prepared(score=score)
    with pytest.raises(OutOfBounds), counted_traffic(allowed=live_memory(case, prepared.plan)):
        prepared.run()


@pytest.mark.parametrize(
    ("lengths", "width"), [([[3, 2]], 8), ([[4]], 4), ([[1], [9]], 16), ([], 1)]
)
def test_a_table_of_documents_is_as_wide_as_the_next_power_of_two(lengths, width):
    # a constant of the compiled kernel: no kernel for every length
    assert masks.document(lengths).host_aux.shape == (len(lengths), width)
