"""What vLLM's kernels, its FlashAttention and cuDNN are given; they are stood in for."""

from contextlib import contextmanager
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import numpy as np
import torch

from tests.kernels.bench.test_vllm_attention import unpacked
from workbench.kernels.bench import library_peers, vllm_source
from workbench.kernels.bench.flex_cases import CASES, CasePart, FlexCase
from workbench.kernels.bench.flex_inputs import flex_input, truth
from workbench.kernels.bench.inputs import step_input
from workbench.kernels.bench.library_peers import CudnnPeer, flash_arguments, flashinfer_plan
from workbench.kernels.bench.run import PeerSkipped
from workbench.kernels.bench.vllm_attention import (
    VllmAttentionPeer,
    find_vllm_attention,
    load_vllm_attention,
    vllm_attention,
)
from workbench.kernels.bench.vllm_flash import vllm_arguments, vllm_flash
from workbench.kernels.bench.vllm_source import VllmSkipped
from workbench.kernels.bench.vllm_tables import VllmPeer
from workbench.kernels.bench.workloads import WORKLOADS
from workbench.kernels.mode import triton_mode

DEVICE = triton_mode().torch_device


@pytest.mark.parametrize(("name", "window"), [("P1", (-1, -1)), ("P4", None)])
def test_a_score_is_scaled_by_the_root_of_a_head_and_masked(name, window):
    given = flex_input(CASES[name].reduced(), DEVICE)
    own = given.case.window
    expected = (own - 1, 0) if own else window
    found, plan = flash_arguments(given), flashinfer_plan(given).arguments
    assert found["softmax_scale"] == plan["sm_scale"] == pytest.approx(32**-0.5)
    assert found["causal"]
    assert found["window_size"] == expected
    assert plan["window_left"] == expected[0]


@pytest.mark.parametrize(("kv_heads", "threshold"), [(1, 128), (2, 64), (200, 1)])
@pytest.mark.parametrize("ranges", [(), ((0, 3), (8, 9))])
def test_vllms_attention_is_given_scratch_for_sixteen_segments(kv_heads, threshold, ranges):
    mask = "prefix LM" if ranges else "causal"
    sizes = {"heads": kv_heads, "kv_heads": kv_heads, "head_dim": 24, "dtype": "float32"}
    case = FlexCase("n", "t", (CasePart(3, 20, 2),), 16, mask=mask, ranges=ranges, **sizes)
    given, calls = flex_input(case, "cpu"), []
    loaded = SimpleNamespace(attend=lambda **arguments: calls.append(arguments))
    peer = VllmAttentionPeer(loaded, given)
    peer.ready()
    peer.launch()
    [found] = calls
    assert (found["seq_threshold_3D"], found["num_par_softmax_segments"]) == (threshold, 16)
    shape = (threshold, kv_heads, 16)
    scratch = [found[f"softmax_segm_{name}"] for name in ("output", "max", "expsum")]
    # heads are padded to a power of two
    assert [tuple(one.shape) for one in scratch] == [(*shape, 32), shape, shape]
    assert {one.dtype for one in scratch} == {torch.float32}
    held = sum(one.nbytes for one in scratch)
    if ranges:
        assert found["mm_prefix_range"].tolist() == [[[0, 3], [8, 9]]] * 3
        held += found["mm_prefix_range"].nbytes
    else:
        assert found["mm_prefix_range"] is None
    assert peer.metadata_bytes == held
    assert found["out"] is peer.out


def test_vllms_attention_knows_the_family_of_a_device(tmp_path, monkeypatch):
    source = find_vllm_attention(str(unpacked(tmp_path)))
    for is_there, wanted in ((True, 90), (False, 0)):
        monkeypatch.setattr(torch.cuda, "is_available", lambda found=is_there: found)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (9, 0))
        names = load_vllm_attention(source).attend.__globals__
        is_family = names["current_platform"].is_device_capability_family
        assert [is_family(90), is_family(100)] == [wanted == 90, False]


def test_vllms_attention_is_named_by_its_version_and_mode(tmp_path):
    folder = str(unpacked(tmp_path))
    assert vllm_attention(folder).name == "vllm like 0.23"
    newer = tmp_path / "vllm" / "v1" / "attention" / "ops" / "triton_unified_attention.py"
    newer.write_text(newer.read_text() + "\nUSE_PER_SEQ_CAUSAL = True\n", encoding="utf-8")
    assert vllm_attention(folder).name == "vllm like 0.33"


FLASH = """
FA3_AVAILABLE = {available}
{reason}
def flash_attn_varlen_func(**arguments):
    return arguments["fa_version"]
"""


@pytest.fixture
def flash(tmp_path, monkeypatch):
    """A function: text of the interface -> the peer of a vLLM with it, on a torch with CUDA."""
    monkeypatch.setattr(torch.version, "cuda", "12.9")
    folder = tmp_path / "vllm" / "vllm_flash_attn"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("", encoding="utf-8")

    def make(text):
        (folder / "flash_attn_interface.py").write_text(text, encoding="utf-8")
        return vllm_flash(str(tmp_path))

    return make


def test_vllms_flash_attention_is_the_third_version(flash, monkeypatch):
    monkeypatch.setattr(library_peers, "check_flash_case", lambda given: None)
    kind = flash(FLASH.format(available=True, reason=""))
    assert kind.name == "vllm like 0.33 FlashAttention 3"
    given = flex_input(CASES["D1"].reduced(), DEVICE)
    peer = kind.make(given)
    peer.ready()
    peer.launch()
    assert peer.out == 3
    assert vllm_arguments(given)["out"].shape == given.paged.query.shape


def test_without_its_flash_attention_vllm_says_why(flash, monkeypatch):
    why = "FA3_UNAVAILABLE_REASON = 'no Hopper'"
    with pytest.raises(VllmSkipped, match=r"FlashAttention 3 of vllm like 0\.33: no Hopper"):
        flash(FLASH.format(available=False, reason=why))
    monkeypatch.setattr(torch.version, "cuda", None)
    with pytest.raises(VllmSkipped, match="needs a torch with CUDA"):
        flash(FLASH.format(available=True, reason=""))


@pytest.fixture
def cudnn(monkeypatch):
    """A function: whether cuDNN takes it -> a peer as on a GPU, its input, what was wanted."""
    wanted = []

    def make(taken):
        def can_use(case, debug):
            wanted.append((case, debug))
            return taken

        backends = SimpleNamespace(SDPAParams=lambda *given: given, can_use_cudnn_attention=can_use)
        monkeypatch.setattr(torch.backends, "cuda", backends)
        given = flex_input(CASES["D1"].reduced(), DEVICE)
        paged = SimpleNamespace(
            device=SimpleNamespace(type="cuda"),
            **{name: getattr(given, name) for name in ("case", "requests", "mask", "paged")},
        )
        return CudnnPeer(paged), given, wanted

    return make


def test_cudnn_alone_computes_its_peer(cudnn, monkeypatch):
    begun = []

    @contextmanager
    def kernel(backend):
        begun.append(backend)
        yield

    monkeypatch.setattr(library_peers, "sdpa_kernel", kernel)
    peer, given, wanted = cudnn(True)
    peer.run()
    assert truth(given).difference(peer) == ""
    [(case, debug)] = wanted
    assert case[3:] == (None, 0.0, False, True)  # one query sees every key, without a mask
    assert not debug
    assert [backend.name for backend in begun] == ["CUDNN_ATTENTION"] * 2


def test_what_cudnn_does_not_take_is_said(cudnn):
    with pytest.raises(PeerSkipped, match="cuDNN does not take it"):
        cudnn(False)[0].ready()


class WholeTables:
    """What the peer uses of vLLM's class: it notes what is wanted of it."""

    def __init__(self, block_sizes, max_num_reqs, **_sizes):
        self.num_blocks = SimpleNamespace(np=np.zeros((len(block_sizes), max_num_reqs), int))
        self.input_block_tables = [torch.zeros(max_num_reqs, 3) for _ in block_sizes]
        self.slot_mappings = torch.zeros(1)
        self.log = []

    def append_block_ids(self, row, ids, overwrite):
        self.log.append(("append", overwrite))

    def apply_staged_writes(self):
        self.log.append(("apply", buffers.async_tensor_h2d([1])))

    def gather_block_tables(self, rows, padded):
        self.log.append(("gather", len(rows), padded))
        return self.input_block_tables

    def compute_slot_mappings(self, rows, starts, positions, padded):
        self.log.append(("slots", len(rows), len(starts), len(positions), padded))


buffers = SimpleNamespace()


@pytest.mark.parametrize(("launches", "rows"), [(True, None), ("dry", 1), (False, None)])
def test_a_step_of_vllm_is_what_its_runner_does(launches, rows):
    given = step_input(WORKLOADS["W5"].reduced(), 0)
    copies, expanded = [], []
    buffers.async_tensor_h2d = lambda data: copies.append(data) or torch.tensor(data)
    loaded = SimpleNamespace(
        source=SimpleNamespace(newer=True),
        tables=SimpleNamespace(BlockTables=WholeTables),
        buffers=buffers,
        modules={},
        expand=lambda group, table: expanded.append((group, len(table))),
    )
    peer = VllmPeer(loaded, given, launches=launches)
    log, [group] = peer._theirs.log, peer._groups
    held = [("append", True)] * len(given.rows) + [("apply", torch.tensor([1]))]
    assert log == (held if launches else [])
    # what it expands into is the peer's table
    assert peer.tables[0].shape == (given.workload.max_requests, 7 * 66)
    assert peer.tables[0].data_ptr() == group.kernel_block_table.data_ptr()
    assert (group.kernel_block_stride, group.kernel_block_offsets.tolist()) == (0, [*range(66)])
    # launched dry, torch's own kernels run: of one row they take as long as a launch
    rows = rows or given.workload.max_requests
    batch = len(given.rows)
    tokens = len(given.positions)
    new = [("append", False)] * len(given.writers) + [("apply", torch.tensor([1]))]
    gather, slots = ("gather", batch, batch), ("slots", batch, batch + 1, tokens, tokens)

    def done(work):
        log.clear()
        copies.clear()
        expanded.clear()
        peer.rewind()
        work()
        return log, len(copies), [size for _group, size in expanded]

    assert done(peer.step) == ([*new, gather, slots], 1, [rows])
    assert done(peer.ready) == ([*new, gather, slots], 1, [rows])
    for _ in range(2):
        # the ids that were copied before are there
        assert done(peer.launch) == ([*new, gather, slots], 0, [rows])
    assert done(lambda: peer.launch("gather")) == ([gather], 0, [rows])
    assert done(lambda: peer.launch("slots")) == ([slots], 0, [])


def test_groups_that_are_not_split_are_not_expanded():
    given = step_input(WORKLOADS["W1"].reduced(), 0)
    buffers.async_tensor_h2d = torch.tensor
    loaded = SimpleNamespace(
        source=SimpleNamespace(newer=True),
        tables=SimpleNamespace(BlockTables=WholeTables),
        buffers=buffers,
        modules={},
        expand=lambda *_given: pytest.fail("expanded"),
    )
    peer = VllmPeer(loaded, given, launches=True)
    assert peer.tables[0] is peer._theirs.input_block_tables[0]
    peer.step()


def test_modules_are_put_in_the_way_of_their_packages():
    modules = vllm_source.modules_of({"vllm.a.b": {"x": 1}, "vllm.a": {"y": 2}})
    assert {"vllm", "vllm.a", "vllm.a.b", "vllm.logger", "vllm.triton_utils"} == modules.keys()
    with vllm_source.importable(modules):
        from vllm.a import y
        from vllm.a.b import x

        assert (x, y) == (1, 2)
