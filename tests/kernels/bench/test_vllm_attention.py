"""vLLM's unified attention is found by what its files contain, and computes what it should."""

import os
import sys

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

import torch

from workbench.kernels.bench.flex_cases import CASES
from workbench.kernels.bench.flex_inputs import flex_input, truth
from workbench.kernels.bench.run import PeerSkipped
from workbench.kernels.bench.vllm_attention import (
    find_vllm_attention,
    load_vllm_attention,
    vllm_attention,
)
from workbench.kernels.bench.vllm_source import VARIABLE, VllmSkipped, named_folders
from workbench.kernels.mode import triton_mode

DEVICE = triton_mode().torch_device
HELPERS = """
from vllm.triton_utils import tl, triton
@triton.jit
def helper(x):
    return x + 1
"""
ATTENTION = """
import torch
import vllm.envs as envs
from vllm.logger import init_logger
from vllm.platforms import current_platform
from vllm.triton_utils import tl, triton
from vllm.v1.attention.ops.triton_attention_helpers import helper
from vllm.v1.kv_cache_interface import KVQuantMode
logger = init_logger(__name__)
invariant = envs.VLLM_BATCH_INVARIANT
info = torch.finfo(current_platform.fp8_dtype())
@triton.jit
def kernel_unified_attention(p_out):
    tl.store(p_out, helper(1))
@triton.jit
def reduce_segments(p_out):
    tl.store(p_out, 0)
def unified_attention(out, mm_prefix_range=None):
    assert KVQuantMode.NONE == 0 and not invariant and not KVQuantMode.NONE.is_odd
    kernel_unified_attention[(1,)](out)
"""
INTERFACE = """
import never_imported
class KVQuantMode(IntEnum):
    NONE = 0
    @property
    def is_odd(self) -> never_imported.Type:
        return self == 1
"""


def unpacked(folder, attention=ATTENTION):
    ops = folder / "vllm" / "v1" / "attention" / "ops"
    ops.mkdir(parents=True)
    (ops / "triton_attention_helpers.py").write_text(HELPERS, encoding="utf-8")
    (ops / "triton_unified_attention.py").write_text(attention, encoding="utf-8")
    file = folder / "vllm" / "v1" / "kv_cache_interface.py"
    file.write_text(INTERFACE, encoding="utf-8")
    return folder


def test_its_files_run_and_leave_no_modules(tmp_path):
    source = find_vllm_attention(str(unpacked(tmp_path)))
    assert (source.version, source.newer) == ("like 0.23", False)
    loaded = load_vllm_attention(source)
    out = torch.zeros(1, device=DEVICE)
    loaded.attend(out)
    assert out.item() == 2
    assert not [name for name in sys.modules if name.split(".")[0] == "vllm"]


def test_folders_without_it_and_other_versions_are_skipped(tmp_path):
    with pytest.raises(VllmSkipped, match="no vllm/v1/attention/ops/triton_unified") as caught:
        find_vllm_attention(str(tmp_path))
    assert str(tmp_path) not in str(caught.value)
    old = ATTENTION.replace("mm_prefix_range=None", "")
    with pytest.raises(VllmSkipped, match=r"neither that of 0.23 nor of 0.33"):
        find_vllm_attention(str(unpacked(tmp_path, old)))


def test_a_vllm_without_a_batch_invariant_mode_is_skipped(tmp_path):
    other = ATTENTION.replace("envs.VLLM_BATCH_INVARIANT", "False")
    with pytest.raises(VllmSkipped, match="does not read VLLM_BATCH_INVARIANT"):
        vllm_attention(str(unpacked(tmp_path, other)), invariant=True)


def test_the_batch_invariant_mode_is_that_of_its_variable(tmp_path):
    kind = vllm_attention(str(unpacked(tmp_path)), invariant=True)
    assert kind.name == "vllm like 0.23 invariant"
    loaded = load_vllm_attention(find_vllm_attention(str(tmp_path)), invariant=True)
    with pytest.raises(AssertionError):
        loaded.attend(torch.zeros(1, device=DEVICE))


@pytest.mark.slow
@pytest.mark.skipif(VARIABLE not in os.environ, reason="VLLM_SRC names no unpacked vLLM")
@pytest.mark.parametrize("invariant", [False, True])
@pytest.mark.parametrize("name", ["P5L", "D2", "D4"])
def test_the_real_one_agrees_with_float64(name, invariant):
    given = flex_input(CASES[name].reduced(), DEVICE)
    right = truth(given)
    for folder in named_folders():
        kind = vllm_attention(folder, invariant=invariant)
        peer = kind.make(given)
        peer.run()
        assert right.difference(peer) == "", kind.name
        with pytest.raises(PeerSkipped, match="documents"):
            kind.make(flex_input(CASES["P5"].reduced(), DEVICE))
