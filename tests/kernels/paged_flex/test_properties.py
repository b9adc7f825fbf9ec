"""M2, M4, M5 over random batches: float64, chunks, and decode one by one."""

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.paged_flex.cases import (
    FOLDED,
    INTERPRETED,
    ONE_PATH,
    SPLIT,
    Case,
    requests,
)
from workbench.kernels.paged_flex import masks
from workbench.kernels.paged_flex.layout import random_request
from workbench.kernels.paged_flex.settings import BITWISE, FAST, Settings, Tile

EXAMPLES = settings.default.max_examples // (6 if INTERPRETED else 1)
sizes = st.lists(st.tuples(st.integers(1, 300), st.integers(0, 40)), min_size=1, max_size=3)
SMALL = Settings(Tile(16, 16), Tile(16, 32), 32)
hows = st.sampled_from([SPLIT, ONE_PATH, FOLDED, FAST, BITWISE, SMALL])
shapes = st.tuples(st.sampled_from([1, 4, 7]), st.integers(1, 2), st.sampled_from([16, 24, 64]))
models = st.tuples(st.sampled_from([1, 4, 8]), st.just(1), st.sampled_from([64, 80, 96, 128, 256]))


def mask_for(data, lengths):
    """A mask of any kind, for requests of these lengths."""
    window = data.draw(st.integers(1, 200))
    kind = data.draw(st.sampled_from(["causal", "full", "window", "sinks", "chunks", "docs", "lm"]))
    if kind == "sinks":
        return masks.sink_window([data.draw(st.integers(0, n)) for n in lengths], window)
    if kind == "docs":
        cuts = [data.draw(st.integers(1, n)) for n in lengths]
        return masks.document([[cut, n] for cut, n in zip(cuts, lengths, strict=True)])
    if kind == "lm":
        place = st.tuples(st.integers(0, 300), st.integers(0, 300))
        return masks.prefix_lm([data.draw(st.lists(place, max_size=2)) for _ in lengths])
    simple = {"causal": masks.causal, "full": masks.full}
    with_size = {"window": masks.sliding_window, "chunks": masks.chunked}
    return simple[kind]() if kind in simple else with_size[kind](window)


def run_one(data, sizes, how, shape):
    group, kv_heads, dim = shape
    batch = requests(
        *((n, min(n, q)) for n, q in sizes), heads=group * kv_heads, kv_heads=kv_heads, dim=dim
    )
    mask = mask_for(data, [n for n, _ in sizes])
    slopes = [0.5 ** (1 + head) for head in range(group * kv_heads)]
    score = data.draw(st.sampled_from([None, masks.soft_cap(3.0), masks.alibi(slopes)]))
    case = Case(
        batch,
        data.draw(st.sampled_from([16, 32, 48, 64, 528])),
        ratio=data.draw(st.sampled_from([1, 3])),
        layout=data.draw(st.sampled_from(["NHD", "HND", "planes"])),
        seed=data.draw(st.integers(0, 1000)),
        guarded=True,
    )
    case.check(mask, score, how)


@settings(max_examples=4)
@given(st.data(), sizes, hows, shapes)
def test_a_few_random_batches(data, sizes, how, shape):
    run_one(data, sizes, how, shape)


@pytest.mark.thorough
@settings(max_examples=4)
@given(st.data(), sizes, hows, models)
def test_a_few_random_batches_with_the_heads_of_models(data, sizes, how, shape):
    run_one(data, sizes, how, shape)


@pytest.mark.slow
@pytest.mark.thorough
@settings(max_examples=EXAMPLES)
@given(st.data(), sizes, hows, st.one_of(shapes, models))
def test_random_batches(data, sizes, how, shape):
    """M2, M5 and M6: pages and tails hold NaN and garbage; tokens that see nothing get zeros."""
    run_one(data, sizes, how, shape)


@pytest.mark.parametrize("block_size", [16, 48])
def test_chunks_and_decode_give_what_prefill_gives(block_size):
    """M4: to the bit on a GPU in bitwise mode, to rounding in the interpreter."""
    whole = random_request(37, 37)
    mask = masks.sliding_window(30)
    expected = Case([whole], block_size).check(mask, settings=BITWISE).clone()
    steps = [(9, 9), (10, 1), (27, 17), (36, 9), (37, 1)]
    parts = [Case([whole.cut(*step)], block_size).attend(mask, settings=BITWISE) for step in steps]
    found = torch.cat(parts)
    if INTERPRETED:
        assert (found - expected).abs().max() < 2e-6
    else:
        assert torch.equal(found.view(torch.int32), expected.view(torch.int32))
