"""What other libraries are given: every key of every request, in its place, and why one is absent.

The libraries themselves need a GPU; nothing here runs them.
"""

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

from importlib.util import find_spec
from types import ModuleType, SimpleNamespace

import torch

from workbench.kernels.bench import library_peers
from workbench.kernels.bench.flex_cases import CASES
from workbench.kernels.bench.flex_inputs import flex_input
from workbench.kernels.bench.library_peers import (
    LIBRARIES,
    CudnnPeer,
    FlashInferPeer,
    flash_arguments,
    flash_attention,
    flashinfer_plan,
    library_kinds,
)
from workbench.kernels.bench.run import PeerSkipped
from workbench.kernels.mode import triton_mode

DEVICE = triton_mode().torch_device
CAUSAL = [name for name, case in CASES.items() if case.mask in {"causal", "window"}]


@pytest.fixture(params=CAUSAL)
def given(request):
    return flex_input(CASES[request.param].reduced(), DEVICE)


def test_flash_attention_gets_every_key_in_its_place(given):
    found = flash_arguments(given)
    starts = found["cu_seqlens_q"].tolist()
    assert len(found["page_table"]) == len(found["cache_seqlens"]) == len(given.requests)
    for i, request in enumerate(given.requests):
        length = int(found["cache_seqlens"][i])
        pages = found["page_table"][i].long()[: -(-length // found["k_cache"].shape[1])]
        for cache, own in (("k_cache", request.keys), ("v_cache", request.values)):
            assert torch.equal(found[cache][pages].flatten(0, 1)[:length], own)
        assert torch.equal(found["q"][starts[i] : starts[i + 1]], request.queries)
        assert len(request.queries) <= found["max_seqlen_q"]
    assert {found[name].dtype for name in ("cache_seqlens", "page_table", "cu_seqlens_q")} == {
        torch.int32
    }
    # each query sees `window` keys with its own
    seen = found["window_size"][0] + 1
    assert (seen or None) == (given.case.window or None)


def test_flashinfer_gets_every_key_in_its_place(given):
    is_decode, found = flashinfer_plan(given)
    prefix = "" if is_decode else "paged_kv_"
    indptr, indices, last = (
        found[f"{prefix}{name}"] for name in ("indptr", "indices", "last_page_len")
    )
    assert is_decode == (given.case.query_tokens == given.case.requests)
    cache, size = given.paged.kv_cache, found["page_size"]
    for i, request in enumerate(given.requests):
        pages = indices[int(indptr[i]) : int(indptr[i + 1])].long()
        assert 1 <= last[i] <= size
        length = (len(pages) - 1) * size + int(last[i])
        for plane, own in ((0, request.keys), (1, request.values)):
            assert torch.equal(cache[pages, plane].flatten(0, 1)[:length], own)
    if not is_decode:
        assert found["causal"]
        assert found["qo_indptr"].tolist() == given.paged.batch.query_start_loc.tolist()
    assert found["window_left"] == (given.case.window or 0) - 1


class Wrapper:
    """What FlashInfer's wrappers are given."""

    def __init__(self, workspace, layout, *, use_tensor_cores=None):
        self.made = (workspace, layout, use_tensor_cores)

    def plan(self, **arguments):
        self.arguments = arguments

    def run(self, query, cache, *, out):
        self.ran = (query, cache)
        out.fill_(1)


@pytest.mark.parametrize("name", ["D1", "P1"])
def test_flashinfer_plans_once_in_a_workspace_and_then_runs(name, monkeypatch):
    monkeypatch.setattr(library_peers, "check_flash_case", lambda given: None)
    given = flex_input(CASES[name].reduced(), DEVICE)
    decode, prefill = type("Decode", (Wrapper,), {}), type("Prefill", (Wrapper,), {})
    library = SimpleNamespace(
        BatchDecodeWithPagedKVCacheWrapper=decode, BatchPrefillWithPagedKVCacheWrapper=prefill
    )
    peer = FlashInferPeer(library, given)
    peer.ready()
    peer.launch()
    planned = flashinfer_plan(given)
    wrapper = peer._wrapper
    workspace, layout, tensor_cores = wrapper.made
    assert type(wrapper) is (decode if planned.is_decode else prefill)
    assert (layout, tensor_cores) == ("NHD", True if planned.is_decode else None)
    assert workspace.dtype == torch.uint8
    assert workspace.nbytes >= 128 * 2**20  # what FlashInfer's documentation recommends
    assert wrapper.arguments.keys() == planned.arguments.keys()
    assert wrapper.ran[0] is given.paged.query
    assert wrapper.ran[1] is given.paged.kv_cache
    assert torch.all(peer.out == 1)
    assert peer.metadata_bytes > workspace.nbytes


def test_flash_attention_is_called_with_what_was_made_ready(monkeypatch):
    monkeypatch.setattr(library_peers, "check_flash_case", lambda given: None)
    given = flex_input(CASES["D1"].reduced(), DEVICE)
    library = SimpleNamespace(flash_attn_with_kvcache=lambda **arguments: arguments)
    peer = flash_attention(library, given)
    peer.ready()
    peer.launch()
    assert peer.out.keys() == flash_arguments(given).keys()
    tensors = [peer.out[name] for name in ("cache_seqlens", "page_table", "cu_seqlens_q")]
    assert peer.metadata_bytes == sum(4 * one.numel() for one in tensors)


def test_what_a_library_cannot_compute_is_said():
    module = ModuleType("library")
    module.flash_attn_with_kvcache = None
    for name, why in (("P5", "no mask for documents"), ("P5L", "no mask for prefix LM")):
        given = flex_input(CASES[name].reduced(), DEVICE)
        for one in LIBRARIES:
            with pytest.raises(PeerSkipped, match=why):
                one.peer(module, given)
    given = flex_input(CASES["D1"].reduced(), DEVICE)
    why = "float16 and bfloat16, not float32" if DEVICE == "cuda" else "on a GPU only"
    for one in LIBRARIES:
        with pytest.raises(PeerSkipped, match=why):
            one.peer(module, given)
    if DEVICE != "cuda":
        with pytest.raises(PeerSkipped, match="on a GPU only"):
            CudnnPeer(given)


def test_every_library_is_a_peer_or_says_why_it_is_absent():
    absent = []
    kinds = library_kinds(absent.append)
    assert len(kinds) + len(absent) == len(LIBRARIES) + 1
    for one in LIBRARIES:
        if find_spec(one.module) is None:
            assert any(line.startswith(f"No {one.title} ") and one.hint in line for line in absent)


@pytest.mark.parametrize("number", [91_002, None])
def test_cudnn_is_a_peer_where_torch_is_built_with_it(monkeypatch, number):
    monkeypatch.setattr(torch.backends.cudnn, "version", lambda: number)
    absent = []
    named = [kind.name for kind in library_kinds(absent.append)]
    assert ("cudnn dense" in named) == (number is not None)
    assert any("No cuDNN" in line for line in absent) == (number is None)
