"""The same bits alone and in a batch; and settings that break it, on purpose."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.paged_flex import trials as trial_runs
from tests.kernels.paged_flex.cases import (
    FOLDED,
    INTERPRETED,
    ONE_PATH,
    SPLIT,
    Case,
    requests,
)
from tests.kernels.paged_flex.trials import batch_trials
from workbench.kernels.paged_flex import bitwise, masks
from workbench.kernels.paged_flex.bitwise import KINDS, compare_bits, promised
from workbench.kernels.paged_flex.layout import random_request
from workbench.kernels.paged_flex.settings import BITWISE, FAST, SPLIT_BY_BATCH, Tile

BY_BATCH = replace(SPLIT, by_batch=4)
COMPANIONS = requests((90, 9), (40, 1), (300, 1), dim=16)


HOWS = {"split": SPLIT, "one path": ONE_PATH, "folded": FOLDED, "bitwise": BITWISE}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("size", [(300, 1), (150, 33), (65, 3)], ids=str)
@pytest.mark.parametrize("how", HOWS.values(), ids=HOWS)
def test_a_request_has_the_same_bits_however_it_is_served(how, size):
    kinds = [kind for kind in promised(how) if kind != "chunks"]
    assert kinds == ["batch", "padding", "pages", "page size"]
    subject = random_request(*size)
    trials = batch_trials(subject, COMPANIONS, settings=how, kinds=kinds, repeats=1)
    assert [trial.kind for trial in trials] == kinds
    assert all(trial.equal for trial in trials), trials
    assert trials[0].elements == size[1] * 2 * 16


def test_a_split_chosen_by_the_batch_changes_bits():
    subject = random_request(300, 1)
    trials = batch_trials(subject, COMPANIONS, settings=BY_BATCH, kinds=("batch",), repeats=3)
    broken = [trial for trial in trials if not trial.equal]
    assert broken
    assert all(trial.first is not None and 0 < trial.largest < 1e-5 for trial in broken)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("how", [SPLIT, FOLDED, BITWISE], ids=["split", "folded", "bitwise"])
def test_tiles_chosen_by_the_size_of_the_batch_change_bits(how, monkeypatch):
    """What the promise rests on: the same trials find the request's bits elsewhere."""

    def by_batch(query, cache, batch, *, settings, **others):
        tile = replace(settings.decode, block_n=settings.decode.block_n // 2)
        chosen = settings if batch.num_requests == 1 else replace(settings, decode=tile)
        return bitwise_attention(query, cache, batch, settings=chosen, **others)

    bitwise_attention = trial_runs.paged_attention
    monkeypatch.setattr(trial_runs, "paged_attention", by_batch)
    how = replace(how, decode=Tile(16, 64), as_given=True)
    subject = random_request(300, 1)
    trials = batch_trials(subject, COMPANIONS, settings=how, kinds=("batch", "pages"))
    batched, alone = trials
    assert not batched.equal
    assert alone.equal


def test_a_bitwise_split_chosen_by_the_batch_changes_bits():
    subject = random_request(300, 1)
    how = replace(FOLDED, by_batch=4)
    trials = batch_trials(subject, COMPANIONS, settings=how, kinds=("batch",), repeats=3)
    assert not all(trial.equal for trial in trials)


def test_splits_change_nothing_that_a_request_of_one_split_computes():
    whole, split = (
        Case(requests((60, 1), (60, 33)), 16).attend(settings=how)
        for how in (replace(FOLDED, decode=None, split_tokens=0), FOLDED)
    )
    assert torch.equal(whole.view(torch.int32), split.view(torch.int32))


@pytest.mark.thorough
@pytest.mark.parametrize("tokens", [300, 256, 65])
@pytest.mark.parametrize("mask", [masks.causal(), masks.sliding_window(70)], ids=["all", "window"])
def test_decodes_and_chunks_have_a_prefills_bits_where_rows_keep_their_place(mask, tokens):
    """numpy's products change with a row's place, so steps begin where a tile does: every 32nd.

    One prefill adds its splits within a program; short steps are combined by another kernel.
    """
    whole = random_request(tokens, tokens)
    expected = Case([whole], 16).attend(mask, settings=FOLDED).clone()
    start = tokens - 1 - (tokens - 1) % 32
    for end, begin in ((start + 1, start), (tokens, start), (tokens, start - 32), (start, 0)):
        step = whole.cut(end, end - begin)
        found = Case([step], 48, seed=3).attend(mask, settings=FOLDED)
        same = found.view(torch.int32) == expected[begin:end].view(torch.int32)
        assert same.all(), (end, begin)


def test_what_the_shipped_settings_promise():
    assert not FAST.depends_on_batch
    assert FAST.depends_on_chunks
    assert SPLIT_BY_BATCH.depends_on_batch
    assert not BITWISE.depends_on_batch | BITWISE.depends_on_chunks
    # descriptors, which only a GPU has, copy whole boxes of a page first
    sizes = {"page size"} if INTERPRETED else set()
    assert set(promised(SPLIT_BY_BATCH)) == {"pages"} | sizes
    assert set(promised(BITWISE)) == set(KINDS) - ({"chunks"} if INTERPRETED else set())


def test_chunks_agree_to_rounding_in_the_interpreter_and_to_the_bit_on_a_gpu():
    subject = random_request(80, 20)
    trials = batch_trials(subject, (), settings=ONE_PATH, kinds=("chunks",), repeats=2)
    for trial in trials:
        assert trial.largest < 1e-5
        if not INTERPRETED:
            assert trial.equal, trial


def test_masks_follow_their_requests_through_the_batch():
    lengths = [[30, 270], [90], [10, 30], [100, 200]]
    subject = random_request(300, 1)

    def mask_of(rows):
        return masks.document([lengths[row] for row in rows])

    kinds = ("batch", "padding")
    trials = batch_trials(subject, COMPANIONS, settings=SPLIT, mask_of=mask_of, kinds=kinds)
    assert all(trial.equal for trial in trials), trials


def test_bits_are_counted_and_located():
    alone = torch.tensor([[1.0, 2.0], [float("nan"), 0.0]])
    same = compare_bits("batch", "", alone, alone.clone())
    assert (same.equal, same.elements, same.first) == (True, 4, None)
    other = compare_bits("batch", "", alone, torch.tensor([[1.0, 2.5], [float("nan"), -0.0]]))
    assert (other.differing, other.first, other.largest) == (2, (0, 1), 0.5)


def test_the_order_of_requests_does_not_matter():
    batch = requests((150, 33), (300, 1), (17, 17), (40, 3))
    forward, backward = Case(batch, 16), Case(batch[::-1], 48, seed=5)
    one, other = forward.attend(), backward.attend()
    for i in range(len(batch)):
        ours, theirs = forward.paged.tokens_of(i), backward.paged.tokens_of(len(batch) - 1 - i)
        assert torch.equal(one[ours].view(torch.int32), other[theirs].view(torch.int32))


@pytest.mark.thorough
@pytest.mark.slow
@settings(max_examples=settings.default.max_examples // 20 if INTERPRETED else 500)
@given(
    st.integers(1, 300),
    st.integers(1, 40),
    st.lists(st.tuples(st.integers(1, 300), st.integers(0, 40)), min_size=1, max_size=4),
    st.sampled_from([SPLIT, ONE_PATH, FOLDED, FAST, BITWISE]),
    st.integers(0, 10**6),
)
def test_random_compositions(tokens, queries, others, how, seed):
    """M3."""
    companions = requests(*((n, min(n, q)) for n, q in others))
    subject = random_request(tokens, min(tokens, queries), seed=99)
    kinds = ("batch", "padding", "page size")
    trials = batch_trials(subject, companions, settings=how, kinds=kinds, seed=seed)
    assert all(trial.equal for trial in trials), trials


@pytest.mark.parametrize(
    ("settings", "mode", "kinds"),
    [
        (BITWISE, "gpu", "batch, padding, pages, page size, chunks"),
        (BITWISE, "interpreter", "batch, padding, pages, page size"),
        (FAST, "gpu", "batch, padding, pages"),
        (FAST, "interpreter", "batch, padding, pages, page size"),
        (replace(FAST, path="descriptors"), "interpreter", "batch, padding, pages"),
        (replace(FAST, path="pointers"), "gpu", "batch, padding, pages, page size"),
        (SPLIT_BY_BATCH, "gpu", "pages"),
        (SPLIT_BY_BATCH, "interpreter", "pages, page size"),
    ],
)
def test_what_is_promised_depends_on_settings_and_where_kernels_run(
    monkeypatch, settings, mode, kinds
):
    monkeypatch.setattr(bitwise, "triton_mode", lambda: SimpleNamespace(mode=mode))
    assert promised(settings) == tuple(kinds.split(", "))


def test_bits_are_compared_and_not_values():
    alone = torch.tensor([[0.0, 1.0], [float("nan"), 2.0]], dtype=torch.float16)
    same = compare_bits("batch", "alone", alone, alone.clone())
    assert same.equal
    assert (same.elements, same.differing, same.first, same.largest) == (4, 0, None, 0.0)
    other = alone.clone()
    other[0, 0], other[1, 1] = -0.0, -2.5
    found = compare_bits("batch", "alone", alone, other.T.contiguous().T)
    assert not found.equal
    assert (found.differing, found.first, found.largest) == (2, (0, 0), 4.5)
    wide = compare_bits("pages", "other", alone.float(), other.float())
    assert (wide.differing, wide.kind, wide.detail) == (2, "pages", "other")
