"""Scores of a later tile far above those of the first: what weights are relative to is raised."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch

from tests.kernels.paged_flex.cases import BOXES, FOLDED, ONE_PATH, SPLIT, Case, requests

KEY = 170
"""In no setting's first tile, also not in that of a split."""
settings = pytest.mark.parametrize("settings", [ONE_PATH, FOLDED], ids=["one path", "folded"])


def risen_at(key, powers, **options):
    """One request, in which a single query gives a key so many powers of two more weight."""
    [one] = requests((230, 9), dim=16, **options)
    one.queries[..., 0] = one.keys[..., 0] = 0.0
    one.keys[key] = 0.0
    one.keys[key, :, 0] = 8.0
    # the scale is 1 / 4, and log2(e) makes powers of two of the exponents
    one.queries[4, 1, 0] = powers / (8.0 / 4 * 1.4426950408889634)
    return one


@pytest.mark.sampled(3)
@settings
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("powers", [15, 19, 60, 300])
def test_weights_find_room_in_sixteen_bits(settings, dtype, powers):
    Case([risen_at(KEY, powers, dtype=dtype)], 16).check(settings=settings)


@pytest.mark.sampled(1)
@settings
def test_a_row_that_rises_changes_no_bit_of_its_tile(settings):
    plain, risen = (
        Case([risen_at(KEY, powers)], 16).attend(settings=settings).clone() for powers in (0, 40)
    )
    assert not torch.equal(risen[4, 1], plain[4, 1])
    risen[4, 1] = plain[4, 1]
    assert torch.equal(risen, plain)


@pytest.mark.sampled(1)
# a weight that is infinite is computed again: numpy is not to warn of it
@pytest.mark.filterwarnings("error:overflow encountered")
@pytest.mark.parametrize(
    "settings", [SPLIT, ONE_PATH, FOLDED, BOXES], ids=["split", "one path", "folded", "boxes"]
)
def test_scores_that_rise_all_the_way(settings):
    batch = requests((300, 40), (230, 1), dim=16, dtype=torch.float16)
    for one in batch:
        # the last keys give scores of some hundred
        one.keys.mul_(torch.linspace(0.0, 200.0, len(one.keys))[:, None, None])
    Case(batch, 144).check(settings=settings)
