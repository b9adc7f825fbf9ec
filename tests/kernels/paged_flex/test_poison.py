"""What a token does not see never reaches its result: NaN, infinities, garbage."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch

from tests.kernels.paged_flex.cases import FOLDED, ONE_PATH, SPLIT, Case, requests
from workbench.kernels.paged_flex import masks

both = pytest.mark.parametrize("settings", [SPLIT, ONE_PATH], ids=["split", "one path"])
every = pytest.mark.parametrize(
    "settings", [SPLIT, ONE_PATH, FOLDED], ids=["split", "one path", "folded"]
)


@pytest.mark.sampled(2)
@both
@pytest.mark.parametrize("poison", [float("nan"), float("inf"), 3e38])
def test_unread_memory_may_hold_anything(settings, poison):
    batch = requests((150, 33), (70, 1))
    expected = Case(batch, 16, poison=0.0).attend(settings=settings).clone()
    assert torch.equal(Case(batch, 16, poison=poison).check(settings=settings), expected)


@both
def test_a_masked_value_that_is_not_finite_stays_out(settings):
    """The tokens 100 and 101 are in pages and tiles that every row reads; few rows see them."""
    batch = requests((150, 60), (150, 1), (50, 7))
    for one in batch[:2]:
        one.values[100, 0, 3] = float("nan")
        one.values[101, 0] = float("-inf")
        one.keys[100] = float("nan")
    case = Case(batch, 16)
    result = case.check(masks.sliding_window(8), settings=settings)
    spoiled = result.isnan().any(-1).any(-1)
    # queries at 90..149 of the first: 100..108 see one of them
    assert spoiled.nonzero().flatten().tolist() == [*range(10, 19)]


@pytest.mark.sampled(2)
@every
@pytest.mark.parametrize(
    "poison", [float("nan"), pytest.param(float("inf"), marks=pytest.mark.thorough)]
)
@pytest.mark.parametrize(
    "mask",
    [masks.sliding_window(150), masks.sink_window([20, 20, 20], 140), masks.chunked(128)],
    ids=lambda mask: mask.name,
)
def test_what_hidden_keys_hold_changes_no_bit(settings, poison, mask):
    """Their blocks are freed and another request's: bits would depend on the batch."""
    batch = requests((330, 40), (300, 1), dim=16)
    clean = Case(batch, 16).attend(mask, settings=settings).clone()
    for one in batch:
        hidden = len(one.keys) - len(one.queries) - 150
        one.keys[20:hidden] = poison
        one.values[20:hidden] = poison
    case = Case(batch, 16)
    found = case.check(mask, settings=settings)
    assert not found.isnan().any()
    differing = int((found.view(torch.int32) != clean.view(torch.int32)).sum())
    assert differing == 0, f"{differing} of {found.numel()}"


@both
def test_later_keys_that_are_not_finite_stay_out_of_earlier_queries(settings):
    batch = requests((40, 40))
    batch[0].values[30:] = float("nan")
    result = Case(batch, 16).check(settings=settings)
    assert result.isnan().any(-1).any(-1).nonzero().flatten().tolist() == [*range(30, 40)]


@both
def test_a_query_that_is_not_finite_spoils_itself_alone(settings):
    batch = requests((40, 9), (60, 1))
    clean = Case(batch, 16).attend(settings=settings).clone()
    batch[0].queries[4, 1] = float("nan")
    spoiled = Case(batch, 16).attend(settings=settings)
    assert spoiled[4, 1].isnan().all()
    spoiled[4, 1] = clean[4, 1]
    assert torch.equal(spoiled, clean)


def test_a_value_that_every_query_sees_spoils_them_all():
    batch = requests((300, 3))
    batch[0].values[5] = float("nan")
    assert Case(batch, 16).check().isnan().all()
