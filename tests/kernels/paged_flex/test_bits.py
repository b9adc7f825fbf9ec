"""The same bits alone and in a batch; and settings that break it, on purpose."""

from dataclasses import replace

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.paged_flex.cases import INTERPRETED, ONE_PATH, SPLIT, Case, requests
from workbench.kernels.paged_flex import masks
from workbench.kernels.paged_flex.bitwise import KINDS, batch_trials, compare_bits, promised
from workbench.kernels.paged_flex.layout import random_request
from workbench.kernels.paged_flex.settings import BITWISE, FAST, SPLIT_BY_BATCH

BY_BATCH = replace(SPLIT, by_batch=4)
COMPANIONS = requests((90, 9), (40, 1), (300, 1), dim=16)


@pytest.mark.parametrize("size", [(300, 1), (150, 33), (65, 3)], ids=str)
@pytest.mark.parametrize("how", [SPLIT, ONE_PATH], ids=["split", "one path"])
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


def test_what_the_shipped_settings_promise():
    assert not FAST.depends_on_batch
    assert FAST.depends_on_chunks
    assert SPLIT_BY_BATCH.depends_on_batch
    assert not BITWISE.depends_on_batch | BITWISE.depends_on_chunks
    assert set(promised(SPLIT_BY_BATCH)) == {"pages", "page size"}
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


def test_the_order_of_requests_is_nobodys_business():
    batch = requests((150, 33), (300, 1), (17, 17), (40, 3))
    forward, backward = Case(batch, 16), Case(batch[::-1], 48, seed=5)
    one, other = forward.attend(), backward.attend()
    for i in range(len(batch)):
        ours, theirs = forward.paged.tokens_of(i), backward.paged.tokens_of(len(batch) - 1 - i)
        assert torch.equal(one[ours].view(torch.int32), other[theirs].view(torch.int32))


@pytest.mark.slow
@settings(max_examples=60 if INTERPRETED else 500)
@given(
    st.integers(1, 300),
    st.integers(1, 40),
    st.lists(st.tuples(st.integers(1, 300), st.integers(0, 40)), min_size=1, max_size=4),
    st.sampled_from([SPLIT, ONE_PATH, FAST, BITWISE]),
    st.integers(0, 10**6),
)
def test_random_compositions(tokens, asked, others, how, seed):
    """M3."""
    companions = requests(*((n, min(n, q)) for n, q in others))
    subject = random_request(tokens, min(tokens, asked), seed=99)
    kinds = ("batch", "padding", "page size")
    trials = batch_trials(subject, companions, settings=how, kinds=kinds, seed=seed)
    assert all(trial.equal for trial in trials), trials
