"""What the layers of some models add, over garbage: sinks, log-sum-exps, caches of 8 bits."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch

from tests.kernels.paged_flex.cases import (
    DEVICE,
    FOLDED,
    ONE_PATH,
    SPLIT,
    Case,
    interpreted,
    requests,
)
from workbench.kernels.block_table.traffic import counted_traffic
from workbench.kernels.errors import PagedFlexError
from workbench.kernels.paged_flex import masks
from workbench.kernels.paged_flex.api import paged_attention
from workbench.kernels.paged_flex.layout import Request
from workbench.kernels.paged_flex.reference import dense_attention

SINKS = torch.tensor([2.0, -3.0, 40.0, float("-inf")], device=DEVICE)
both = pytest.mark.parametrize("settings", [SPLIT, FOLDED], ids=["split", "folded"])
sinks_or_none = pytest.mark.parametrize("sinks", [None, SINKS], ids=["plain", "sinks"])


def layered(**options):
    """A prefill, a split decode and a token without keys, 4 heads on 2."""
    return Case(requests((150, 33), (300, 1), heads=4, kv_heads=2), 16, guarded=True, **options)


@pytest.mark.sampled(1)
@both
@sinks_or_none
@pytest.mark.parametrize(
    ("mask", "score"),
    [(masks.sliding_window(50), None), (masks.causal(), masks.soft_cap(2.0))],
    ids=["window", "soft cap"],
)
def test_sinks_and_log_sum_exps_of_splits_and_whole_tiles(settings, sinks, mask, score):
    case = layered(dummies=(1,), padding=2)
    lse, wanted = (
        torch.full(case.query.shape[:2], float("-inf"), dtype=dtype, device=DEVICE)
        for dtype in (torch.float32, torch.float64)
    )
    lse.fill_(float("nan"))
    case.check(mask, score, settings, lse=lse, sinks=sinks)
    given = (case.query, case.cache, case.batch, mask, score)
    dense_attention(*given, sinks=sinks, lse=wanted)
    empty = wanted == float("-inf")
    # a dummy sees no key; its sum has a sink, if there are sinks
    dummy = case.paged.tokens_of(1)
    if sinks is not None:
        wanted[dummy], empty[dummy] = sinks.double(), False
        empty[dummy, 3] = True
    assert torch.equal(lse == float("-inf"), empty)
    assert (lse.double() - wanted)[~empty].abs().max() < 1e-5


def short(dtype):
    """Requests of float16 whose keys and values are numbers of 8 bits, of two heads."""
    batch = requests((150, 33), (300, 1), heads=4, kv_heads=2, dtype=torch.float16)
    return [
        Request(*((part * 30).round().to(dtype) for part in (one.keys, one.values)), one.queries)
        for one in batch
    ]


@pytest.mark.sampled(1)
@both
@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.int8], ids=["fp8", "int8"])
def test_caches_of_8_bits_with_scales_of_heads_and_of_tensors(dtype, settings):
    poison = -128 if dtype == torch.int8 else float("nan")
    case = Case(short(dtype), 16, guarded=True, poison=poison)
    by_head = torch.tensor([[0.02, 0.04], [0.05, 0.01]], device=DEVICE)
    case.check(settings=settings, scales=by_head)
    # in the middle of a tensor: an address that is a multiple of 4
    case.check(masks.sliding_window(50), settings=settings, scales=by_head[:, 1])
    case.check(masks.causal(), masks.soft_cap(2.0), settings, scales=by_head, sinks=SINKS)
    # of heads that are apart in memory, in splits and without
    apart = by_head.T.contiguous().T
    for one in (settings, ONE_PATH):
        case.check(settings=one, scales=apart)


@interpreted
def test_an_8_bit_cache_is_read_at_its_own_size():
    def loaded(batch, **options):
        prepared = Case(batch, 16, poison=0).prepared(**options)
        with counted_traffic() as traffic:
            prepared.run()
        return traffic.loaded_bytes

    one = torch.ones((), device=DEVICE)
    wide = requests((150, 33), (300, 1), heads=4, kv_heads=2, dtype=torch.float16)
    saved = loaded(wide) - loaded(short(torch.int8), scales=(one, one))
    # half of what keys and values of two heads of 16 take; the scales are a few bytes
    assert saved >= 450 * 2 * 2 * 16 - 1000


def test_a_sink_takes_a_share_of_every_token():
    case = layered()
    plain = case.attend().clone()
    with_sinks = case.attend(sinks=SINKS)
    assert with_sinks[:, 2].abs().max() < 1e-6
    assert torch.equal(with_sinks[:, 3], plain[:, 3])
    assert (with_sinks[:, 0].abs() < plain[:, 0].abs()).all()


def test_two_halves_of_the_keys_merge_by_their_log_sum_exps():
    whole = requests((128, 1), heads=4, kv_heads=2)[0]
    halves = [
        type(whole)(whole.keys[part], whole.values[part], whole.queries)
        for part in (slice(64), slice(64, None))
    ]
    outs, sums = [], []
    for half in halves:
        lse = torch.empty(1, 4, device=DEVICE)
        outs.append(Case([half], 16).attend(lse=lse).clone())
        sums.append(lse)
    total = torch.logaddexp(*sums)
    merged = sum(out * (lse - total).exp()[..., None] for out, lse in zip(outs, sums, strict=True))
    assert (merged - Case([whole], 16).attend()).abs().max() < 1e-5


@pytest.mark.parametrize(
    ("field", "value", "match"),
    [
        ("sinks", torch.zeros(3), r"must be a tensor \[4\]"),
        ("sinks", torch.zeros(8, device=DEVICE)[::2], "contiguous"),
        ("sinks", [0.0] * 4, "got list"),
        ("lse", torch.zeros(34, 4, dtype=torch.float16), "float32"),
        ("key_scale", torch.zeros(3), r"must be a tensor \[2\] of float32"),
        ("value_scale", 0.5, "got float"),
    ],
)
def test_what_no_kernel_takes_is_refused(field, value, match):
    case = layered()
    value = value.to(DEVICE) if isinstance(value, torch.Tensor) else value
    with pytest.raises(PagedFlexError, match=match) as caught:
        paged_attention(case.query, case.cache, case.batch, **{field: value})
    assert caught.value.field == field
