"""vLLM is read from a path, recognised by what its files contain, and leaves no modules loaded."""

import os
import sys
from types import SimpleNamespace

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import numpy as np
import torch

from workbench.kernels.bench.inputs import step_input
from workbench.kernels.bench.vllm_source import (
    VARIABLE,
    VllmSkipped,
    importable,
    in_every_vllm,
    named_folders,
)
from workbench.kernels.bench.vllm_tables import VllmPeer, _device_view, find_vllm, load_vllm, vllm
from workbench.kernels.bench.workloads import WORKLOADS
from workbench.kernels.block_table.reference import PAD_SLOT

FUSED_BUFFERS = """
from vllm.logger import init_logger
from vllm.triton_utils import tl, triton
from vllm.utils.platform_utils import is_uva_available
from vllm.utils.torch_utils import async_tensor_h2d, get_accelerator_view_from_cpu_tensor
import torch
logger = init_logger(__name__)
class UvaBuffer:
    def __init__(self, size, dtype):
        self.cpu = torch.zeros(size, dtype=dtype, pin_memory=True)
        self._uva = get_accelerator_view_from_cpu_tensor(self.cpu)
    def uva(self, n=None):
        return self._uva[:n]
class FusedStagedWriter:
    pass
@triton.jit
def _apply_kernel(p):
    tl.store(p, 1)
"""
TABLES = """
from vllm.v1.attention.backends.utils import PAD_SLOT_ID
from vllm.v1.worker.gpu.buffer_utils import UvaBuffer
import torch
class BlockTables:
    def __init__(self, kernel_block_sizes=None):
        from vllm.platforms import current_platform
        self.where = current_platform.device_type
        self.buffer = UvaBuffer((3,), torch.int32)
"""
TORCH_UTILS = """
import never_imported
def async_tensor_h2d(data, dtype: never_imported.Type, device="cpu", pin_memory=PIN_MEMORY):
    return torch.tensor(data, dtype=dtype, pin_memory=pin_memory)
"""
WORKER_UTILS = """
class AttentionGroup:
    def map_to_kernel_block_table(self, table, ubatch_idx: int = 0):
        return table + ubatch_idx
"""


def unpacked(folder, *, buffers=FUSED_BUFFERS, tables=TABLES, version="9.8.7"):
    """A small vLLM of the same shape."""
    root = folder / "vllm"
    gpu = root / "v1" / "worker" / "gpu"
    gpu.mkdir(parents=True)
    (root / "utils").mkdir()
    (gpu / "buffer_utils.py").write_text(buffers, encoding="utf-8")
    (gpu / "block_table.py").write_text(tables, encoding="utf-8")
    (root / "utils" / "torch_utils.py").write_text(TORCH_UTILS, encoding="utf-8")
    (root / "v1" / "worker" / "utils.py").write_text(WORKER_UTILS, encoding="utf-8")
    if version:
        text = f"version: str\n__version__: str\n__version__ = version = '{version}'\n"
        (root / "_version.py").write_text(text, encoding="utf-8")
    return folder


def test_without_the_variable_the_reason_says_so(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(VllmSkipped, match="VLLM_SRC is not set"):
        named_folders()


def test_several_folders_are_named_as_in_a_path(monkeypatch):
    monkeypatch.setenv(VARIABLE, f"a{os.pathsep}{os.pathsep}b")
    assert named_folders() == ["a", "b"]


def test_a_folder_without_vllm_says_what_is_missing(tmp_path):
    with pytest.raises(VllmSkipped, match=r"no vllm/v1/worker/gpu/block_table\.py") as caught:
        find_vllm(str(tmp_path))
    assert str(tmp_path) not in str(caught.value)


def test_an_unknown_layout_is_not_guessed(tmp_path):
    plain = FUSED_BUFFERS.replace("FusedStagedWriter", "Other")
    folder = unpacked(tmp_path, buffers=plain, tables="class BlockTables: pass")
    with pytest.raises(VllmSkipped, match=r"neither .* 0\.33 nor 0\.23"):
        find_vllm(str(folder))


def test_the_layout_is_read_from_the_files_not_from_the_version(tmp_path):
    fused = find_vllm(str(unpacked(tmp_path / "a", version="0.23.0")))
    plain = FUSED_BUFFERS.replace("FusedStagedWriter", "Other")
    split = find_vllm(str(unpacked(tmp_path / "b", buffers=plain, version="")))
    assert (fused.newer, fused.version, fused.name) == (True, "0.23.0", "vllm 0.23.0")
    assert (split.newer, split.version) == (False, "like 0.23")
    assert fused.file_hash != split.file_hash
    assert len(fused.file_hash) == 12
    assert fused.file_hash in fused.label
    # the folder itself may be named too
    assert find_vllm(str(tmp_path / "a" / "vllm")) == fused


def test_the_environment_that_has_it_is_as_good_as_its_folder(tmp_path):
    installed = unpacked(tmp_path / "lib" / "python3.11" / "site-packages")
    assert find_vllm(str(tmp_path)) == find_vllm(str(installed))


def test_what_vllm_imports_is_there_only_while_it_is_needed(tmp_path, monkeypatch):
    installed = type(sys)("vllm")
    monkeypatch.setitem(sys.modules, "vllm", installed)
    loaded = load_vllm(find_vllm(str(unpacked(tmp_path))), "cpu")
    assert sys.modules["vllm"] is installed
    assert not [name for name in sys.modules if name.startswith("vllm.")]
    with importable(loaded.modules):
        tables = loaded.tables.BlockTables()
        assert sys.modules["vllm"] is not installed
    assert tables.where == "cpu"
    assert loaded.tables.PAD_SLOT_ID == PAD_SLOT
    assert sys.modules["vllm"] is installed
    assert tables.buffer.uva(2).shape == (2,)
    assert loaded.expand(None, 3, 4) == 7
    copied = loaded.buffers.async_tensor_h2d([1, 2], dtype=torch.int32)
    assert copied.tolist() == [1, 2]


class CountingTables:
    """What the peer uses of vLLM's class, in the layout of 0.33 or, with kernel blocks, of 0.23."""

    def __init__(self, block_sizes, max_num_reqs, kernel_block_sizes=None, **_sizes):
        of_kernel = kernel_block_sizes or block_sizes
        self.ratios = [size // kernel for size, kernel in zip(block_sizes, of_kernel, strict=True)]
        self.num_blocks = SimpleNamespace(np=np.zeros((len(block_sizes), max_num_reqs), int))
        self.input_block_tables = [torch.zeros(max_num_reqs, 1) for _ in block_sizes]
        self.slot_mappings = None
        self.applied = 0

    def append_block_ids(self, row, ids, overwrite):
        for g, blocks in enumerate(ids):
            old = 0 if overwrite else self.num_blocks.np[g, row]
            self.num_blocks.np[g, row] = old + len(blocks) * self.ratios[g]

    def apply_staged_writes(self):
        self.applied += 1


@pytest.mark.parametrize("newer", [True, False])
@pytest.mark.parametrize("name", ["W1", "W2"])
def test_a_step_of_vllm_appends_and_can_be_repeated(name, newer):
    given = step_input(WORKLOADS[name].reduced(), 0)
    loaded = SimpleNamespace(
        source=SimpleNamespace(newer=newer),
        tables=SimpleNamespace(BlockTables=CountingTables),
        modules={},
    )
    peer = VllmPeer(loaded, given, launches=False)
    counts = peer._theirs.num_blocks.np
    ratios = [1 if newer else group.ratio for group in given.workload.groups]
    expected = np.zeros_like(counts)
    for row, held in zip(given.rows, given.held, strict=True):
        expected[:, row] = [len(ids) * ratio for ids, ratio in zip(held, ratios, strict=True)]
    assert np.array_equal(counts, expected)
    for repetition in range(2):
        peer.host()
        after = expected.copy()
        for row, new in zip(given.written_rows, given.new_ids, strict=True):
            after[:, row] += [len(ids) * ratio for ids, ratio in zip(new, ratios, strict=True)]
        assert np.array_equal(counts, after)
        assert peer._theirs.applied == repetition + 1
        peer.rewind()
        assert np.array_equal(counts, expected)


def test_what_is_not_pinned_or_empty_needs_no_address():
    plain = torch.zeros(3)
    assert _device_view(plain) is plain
    empty = SimpleNamespace(is_pinned=lambda: True, numel=lambda: 0, cuda=lambda: "there")
    assert _device_view(empty) == "there"


def test_launches_can_be_skipped(tmp_path):
    source = find_vllm(str(unpacked(tmp_path)))
    memory = torch.zeros(1, dtype=torch.int32)
    load_vllm(source, "cpu", launches=False).buffers._apply_kernel[(1,)](memory, BLOCK=1)
    assert memory.item() == 0


def test_what_is_not_found_is_said_and_the_rest_is_compared(monkeypatch):
    reasons = []

    def find(folder):
        if folder != "here":
            raise VllmSkipped(f"nothing in {folder}")
        return folder

    monkeypatch.setenv(VARIABLE, os.pathsep.join(("there", "here", "", "elsewhere")))
    assert in_every_vllm(find, reasons.append) == ["here"]
    assert [str(one) for one in reasons] == ["nothing in there", "nothing in elsewhere"]
    monkeypatch.delenv(VARIABLE)
    assert in_every_vllm(find, reasons.append) == in_every_vllm(find) == []
    assert f"{VARIABLE} is not set" in str(reasons[-1])


@pytest.mark.skipif(VARIABLE not in os.environ, reason="VLLM_SRC names no unpacked vLLM")
def test_the_real_one_counts_on_the_host_as_it_should():
    workload = WORKLOADS["W5"].reduced()
    for folder in named_folders():
        source = find_vllm(folder)
        peer = vllm(source, launches=False).make(step_input(workload, 0))
        for _ in range(2):
            peer.rewind()
            peer.host()
            row = step_input(workload, 0).rows[0]
            blocks = 7 if source.newer else 7 * 66
            assert peer._theirs.num_blocks.np[0, row] == blocks
