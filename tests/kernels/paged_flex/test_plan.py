"""A plan that runs for many layers: right for each, and nothing left to do but to launch."""

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch

from tests.kernels.compiling import printed_there
from tests.kernels.paged_flex.cases import DEVICE, SPLIT, Case, requests
from workbench.kernels.errors import PagedFlexError
from workbench.kernels.launching import Launch
from workbench.kernels.paged_flex.api import paged_attention, plan_attention
from workbench.kernels.paged_flex.upload import uploaded

SIZES = ((150, 33), (300, 1))


@pytest.fixture(scope="module")
def observed():
    """What `planned_runs` sees where kernels are compiled, and launched on no device."""
    return printed_there("-m", "tests.kernels.paged_flex.planned_runs")


def test_a_later_run_is_its_launches_and_nothing_that_grows_with_the_batch(observed):
    for name in ("decodes", "prefill", "both"):
        few, many = observed[f"{name} x 1"], observed[f"{name} x 50"]
        for run in (few, many):
            assert run["again"] == run["first"]
            # torch neither computes, nor allocates, nor copies
            assert run["operations"] == 0
        assert few["calls"] == many["calls"] < 60
        assert [kernel for kernel, _ in few["first"]] == [kernel for kernel, _ in many["first"]]


def test_one_kind_of_requests_takes_one_or_two_launches(observed):
    kernels = {name: [kernel for kernel, _ in run["first"]] for name, run in observed.items()}
    assert kernels["decodes x 50"] == ["attend_kernel", "combine_kernel"]
    assert kernels["prefill x 50"] == ["attend_kernel"]


def moved(tensor):
    """The same numbers and strides, four bytes further on than memory begins."""
    shifted = torch.empty(tensor.numel() + 1, dtype=tensor.dtype, device=tensor.device)[1:]
    return shifted.view(tensor.shape).copy_(tensor)


@pytest.mark.parametrize("which", [None, "query", "cache", "out"])
def test_what_was_compiled_for_aligned_tensors_is_kept_for_them_alone(which, monkeypatch):
    case = Case(requests(*SIZES), 16)
    prepared = case.prepared()
    wanted = prepared.run().clone()
    kept, first = [], Launch.first

    def noted(launch, changing, *, remember):
        kept.append(remember)
        first(launch, changing, remember=remember)

    monkeypatch.setattr(Launch, "first", noted)
    monkeypatch.setattr(Launch, "place", lambda _launch: kept.append("placed"))
    if which:
        setattr(case, which, moved(getattr(case, which)))
    torch.testing.assert_close(prepared.run(), wanted, rtol=0, atol=0)
    assert set(kept) == ({False} if which else {True, "placed"})


def test_layers_of_other_numbers_and_strides_have_a_plan_in_common():
    layers = [
        Case(requests((70, 5), (90, 1), heads=4, kv_heads=2), 16, layout=layout, padding=2)
        for layout in ("NHD", "HND", "planes")
    ]
    layers[1].cache.mul_(0.5)
    first = layers[0]
    plan = plan_attention(first.batch, first.query, first.cache, settings=SPLIT)
    for layer in (*layers, first):
        wanted = paged_attention(layer.query, layer.cache, layer.batch, settings=SPLIT)
        assert torch.equal(plan.run(layer.query, layer.cache), wanted)
        out = torch.full_like(wanted, float("nan"))
        assert torch.equal(plan.run(layer.query, layer.cache, out), wanted)


def test_a_layer_of_another_shape_is_refused_with_both():
    case, other = (Case(requests(*SIZES, dim=dim), 16) for dim in (16, 32))
    plan = plan_attention(case.batch, case.query, case.cache)
    with pytest.raises(PagedFlexError, match=r"key=16.*key=32.*Plan again") as caught:
        plan.run(other.query, other.cache)
    assert caught.value.field == "query"


def test_tables_come_in_one_piece_and_keep_their_numbers():
    random = np.random.default_rng(0)
    tables = {f"{n}": (random.integers(-9, 9, (n, 3)), torch.int32) for n in range(5)}
    tables["none"] = (None, torch.int32)
    tables["floats"] = (torch.rand(17, dtype=torch.float64).numpy(), torch.float32)
    there = torch.arange(12, device=DEVICE).view(4, 3).T
    found = uploaded({**tables, "there": (there, torch.int32)}, torch.device(DEVICE))
    assert found["there"].tolist() == there.tolist()
    assert found["there"].stride(-1) == 1
    for name, (table, dtype) in tables.items():
        assert found[name].dtype == dtype
        wanted = np.zeros((1, 1)) if table is None else table
        own = found[name].cpu().numpy()
        assert np.array_equal(own, wanted.astype(own.dtype))
    assert len({found[name].untyped_storage().data_ptr() for name in tables}) == 1
    assert all(found[name].data_ptr() % 64 == found["1"].data_ptr() % 64 for name in tables)


@pytest.mark.skipif(DEVICE != "cuda", reason="needs a GPU")
def test_two_layers_are_captured_in_a_cuda_graph_and_replayed():
    case = Case(requests(*SIZES), 16)
    plan = plan_attention(case.batch, case.query, case.cache)
    caches, outs = (case.cache, case.cache * 0.5), (case.out, torch.empty_like(case.out))
    layers = list(zip(caches, outs, strict=True))
    expected = [plan.run(case.query, cache, out).clone() for cache, out in layers]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for cache, out in layers:
            plan.run(case.query, cache, out)
    for out in outs:
        out.fill_(float("nan"))
    graph.replay()
    assert all(map(torch.equal, outs, expected))


def test_split_tiles_alone_need_scratch():
    assert Case(requests((40, 3)), 16).prepared().plan.partial_bytes == 0
    plan = Case(requests((300, 1)), 16).prepared(settings=SPLIT).plan
    held = (plan._planned.partial, plan._planned.state)
    assert plan.partial_bytes == sum(one.nbytes for one in held) > 0
