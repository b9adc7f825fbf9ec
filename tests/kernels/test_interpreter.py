"""The interpreter replaces Triton's language once for a launch, and its results stay the same."""

from __future__ import annotations

import inspect

import pytest
import torch

from workbench.kernels.interpreter import replace_once
from workbench.kernels.language import tl, triton
from workbench.kernels.mode import triton_mode

interpreter = pytest.importorskip("triton.runtime.interpreter")
pytestmark = pytest.mark.skipif(triton_mode().mode != "interpreter", reason="needs the interpreter")


@triton.jit
def _twice(values):
    return tl.maximum(values, values) + values


@triton.jit
def _kernel(out, count, SIZE: tl.constexpr):
    lanes = tl.arange(0, SIZE)
    values = lanes
    for _ in tl.range(0, count):
        values = _twice(values) // 2 + tl.cdiv(tl.sum(lanes, 0), SIZE)
    tl.store(out + lanes, values)


def launched(count):
    out = torch.zeros(8, dtype=torch.int32)
    _kernel[(1,)](out, count, SIZE=8)
    return out.tolist()


def test_the_language_is_looked_through_once_for_each_launch(monkeypatch):
    launched(1)  # what Triton replaces for good in its own library
    looked = []
    members = inspect.getmembers
    monkeypatch.setattr(inspect, "getmembers", lambda one: looked.append(one) or members(one))
    assert launched(1) == [*range(4, 12)]
    once = len(looked)
    assert once > 0
    assert launched(20) == [lane + 80 for lane in range(8)]
    assert len(looked) == 2 * once


def test_the_language_is_put_back_at_the_end_of_a_launch():
    before = tl.load, tl.tensor.__add__, tl.range
    launched(2)
    assert (tl.load, tl.tensor.__add__, tl.range) == before
    assert launched(2) == [*range(8, 16)]


def test_nothing_is_replaced_a_second_time():
    before = interpreter._patch_lang, interpreter._patch_lang_tensor
    replace_once()
    assert (interpreter._patch_lang, interpreter._patch_lang_tensor) == before
