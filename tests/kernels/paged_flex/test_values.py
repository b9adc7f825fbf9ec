"""The kernel against float64: masks, scores, page sizes, groups, head sizes, mixed batches."""

import math

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch

from tests.kernels.paged_flex.cases import DEVICE, ONE_PATH, SPLIT, Case, requests, wide
from workbench.kernels.paged_flex import masks
from workbench.kernels.paged_flex.masks import Mask
from workbench.kernels.paged_flex.reference import agreement_of
from workbench.kernels.paged_flex.settings import BITWISE, FAST, Settings, Tile

SIZES = ((150, 33), (300, 1), (17, 17))
MASKS = {
    "causal": masks.causal(),
    "full": masks.full(),
    "window": masks.sliding_window(50),
    "sinks": masks.sink_window([3, 70, 5], 20),
    "both sides": masks.window_around(40),
    "chunks": masks.chunked(64),
    "documents": masks.document([[10, 60, 80], [250, 50], [1, 7, 9]]),
    "prefix": masks.prefix_lm([[(3, 140)], [(0, 10), (280, 290)], [(9, 12), (14, 16)]]),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", MASKS)
def test_every_mask_in_a_batch_of_prefill_decode_and_short_queries(name):
    Case(requests(*SIZES), 48).check(MASKS[name])


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("block_size", "ratio", "heads", "kv_heads", "dim", "sizes"),
    [
        (16, 33, 4, 1, 64, ((1100, 1), (40, 3))),
        (64, 1, 7, 1, 80, ((70, 17), (1, 1))),
        (528, 1, 1, 1, 32, ((1100, 33),)),
        (48, 1, 8, 2, 16, ((130, 3), (129, 129))),
        (32, 17, 2, 2, 16, ((545, 2),)),
        (16, 1, 2, 1, 512, ((150, 2),)),
    ],
)
def test_pages_of_any_length_groups_and_heads(block_size, ratio, heads, kv_heads, dim, sizes):
    batch = requests(*sizes, heads=heads, kv_heads=kv_heads, dim=dim)
    Case(batch, block_size, ratio=ratio).check(settings=SPLIT if dim < 512 else wide(SPLIT))


@pytest.mark.parametrize("layout", ["NHD", "HND", "planes"])
def test_layouts_by_strides(layout):
    batch = requests((40, 5), heads=4, kv_heads=2)
    Case(batch, 16, layout=layout, guarded=True).check()


@pytest.mark.parametrize(
    "score", [masks.soft_cap(2.0), masks.alibi([0.3, 0.01])], ids=["soft cap", "alibi"]
)
def test_scores(score):
    Case(requests((150, 20), (300, 1)), 16).check(MASKS["window"], score)


def test_scores_matter():
    case = Case(requests((40, 3)), 16)
    plain = case.attend().clone()
    for score in (masks.soft_cap(2.0), masks.alibi([0.3, 0.01])):
        assert (case.attend(score=score) - plain).abs().max() > 0.01


@pytest.mark.parametrize(
    "dtype",
    [torch.float16, torch.bfloat16],
)
def test_sixteen_bits(dtype):
    Case(requests((150, 33), (300, 1), dtype=dtype), 16).check()


def test_a_scale_of_ones_own():
    Case(requests((60, 4)), 16).check(scale=0.9)


@pytest.mark.parametrize("settings", [SPLIT, ONE_PATH], ids=["split", "one path"])
def test_dummies_padding_and_requests_without_queries_or_tokens(settings):
    sizes = ((40, 3), (5, 0), (20, 1))
    case = Case(requests(*sizes), 16, dummies=(0, 3), padding=4, guarded=True)
    padding = case.query[case.batch.num_tokens :]
    assert len(padding) == 4
    assert padding.isnan().all()  # no kernel may read it
    result = case.check(settings=settings)
    assert len(result) == len(case.query)
    assert case.batch.query_lens.tolist() == [1, 3, 0, 1, 1]
    for row in (0, 3):
        assert not result[case.paged.tokens_of(row)].any()


def test_an_empty_batch():
    case = Case(requests((5, 0)), 16, padding=2)
    assert case.prepared().plan.work.attend == ()
    assert not case.attend().any()


def test_tokens_that_see_nothing_get_zeros():
    case = Case(requests((200, 70), (300, 1)), 16)
    result = case.check(blind_mask(), settings=SPLIT)
    first, second = (result[case.paged.tokens_of(i)] for i in range(2))
    blind = torch.arange(130, 200) % 2 == 1
    assert not first[blind.to(DEVICE)].any()
    assert first[~blind.to(DEVICE)].any(-1).all()
    assert not second.any()


def blind_mask():
    """Odd positions see nothing. Gives no span, so every tile is evaluated."""
    from tests.kernels.paged_flex.mods import blind_mask as mod

    return Mask("blind", mod, lambda b, h, q, k: (q % 2 == 0) & (k <= q) & (b < 1))


def test_a_mask_by_head():
    from tests.kernels.paged_flex.mods import by_head_mask

    def seen(b, h, q, k):
        return (k <= q) & (k % 2 == h % 2)

    Case(requests((80, 3), heads=4, kv_heads=2), 16).check(
        Mask("by head", by_head_mask, seen, param=2)
    )


def test_a_prepared_call_runs_again_on_new_numbers():
    case = Case(requests((40, 3), (200, 1)), 16)
    prepared = case.prepared()
    before = prepared.run().clone()
    case.query.mul_(2.0)
    prepared.run()
    assert not torch.equal(case.out, before)
    case.query.div_(2.0)
    assert torch.equal(prepared.run(), before)


def test_metadata_does_not_grow_with_the_cache():
    few, many = (Case(requests((40, 3), (300, 1)), 16, spare=spare) for spare in (1, 5000))
    few, many = few.prepared().plan, many.prepared().plan
    assert few.metadata_bytes == many.metadata_bytes > 0
    assert few.partial_bytes == many.partial_bytes > 0


@pytest.mark.sampled(1)
@pytest.mark.slow
@pytest.mark.parametrize("settings", [FAST, BITWISE], ids=["fast", "bitwise"])
@pytest.mark.parametrize(
    ("dim", "group", "block_size"),
    [(64, 1, 16), (80, 4, 32), (96, 7, 64), (128, 8, 528), (256, 4, 48)],
)
def test_shipped_settings_with_every_head(settings, dim, group, block_size):
    batch = requests((277, 33), (513, 1), (3, 3), heads=group, dim=dim)
    Case(batch, block_size, guarded=True).check(settings=settings)


@pytest.mark.sampled(2)
@pytest.mark.slow
@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("block_size", [32, 528])
@pytest.mark.parametrize("tile", [Tile(16, 16), Tile(128, 32)], ids=str)
def test_every_mask_page_and_tile(name, block_size, tile):
    settings = Settings(tile, Tile(16, 32), split_tokens=32, as_given=True)
    Case(requests(*SIZES), block_size, guarded=True).check(MASKS[name], settings=settings)


@pytest.mark.parametrize(("roundings", "ok"), [(1, True), (16, True), (64, False)])
def test_a_weight_errs_by_what_its_score_errs(roundings, ok):
    exact = torch.linspace(-1, 1, 64, dtype=torch.float64)
    given = exact * (1 + roundings * torch.finfo(torch.float32).eps)
    assert agreement_of(given, exact, exact, torch.float32).ok is ok


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_result_may_differ_by_twice_what_another_computation_does(dtype):
    exact, rough = torch.tensor([1.0, -4.0, 0.5]).double(), torch.tensor([1.25, -4.0, 0.5]).double()
    scores = 16 * torch.finfo(torch.float32).eps  # roundings of a score
    band = (torch.finfo(dtype).eps + scores) * 4.0 + torch.finfo(dtype).tiny
    found = agreement_of(exact + 0.125, exact, rough, dtype)
    assert found.max_error == 0.125
    assert found.tolerance == pytest.approx(2 * (0.25 + band), rel=1e-12)
    nothing = torch.zeros(0).double()
    assert agreement_of(nothing, nothing, nothing, dtype).max_error == 0.0


def test_the_tolerance_itself_is_allowed():
    exact = torch.zeros(3).double()
    most = agreement_of(exact, exact, exact, torch.float32).tolerance
    found = agreement_of(exact - most, exact, exact, torch.float32)
    assert found.max_error == found.tolerance > 0
    assert found.ok
    assert not agreement_of(exact + math.nextafter(most, 1), exact, exact, torch.float32).ok


@pytest.mark.parametrize("settings", [SPLIT, ONE_PATH], ids=["split", "one path"])
@pytest.mark.parametrize(
    "mask",
    [masks.sliding_window(1), masks.chunked(1), masks.window_around(1)],
    ids=lambda m: m.name,
)
def test_a_token_that_sees_itself_alone_has_its_own_value(mask, settings):
    case = Case(requests((40, 40), (70, 3)), 16)
    found = case.check(mask, settings=settings)
    own = case.paged.tokens_of(0)
    values = requests((40, 40))[0].values.to(found.device)
    torch.testing.assert_close(found[own][:, :1], values[:, :1])
