"""Adapters: their room next to the weights, and what refuses them."""

from __future__ import annotations

import pytest

from workbench.core.capacity.adapters import adapter_bytes
from workbench.core.capacity.memory_estimate import loaded_weights
from workbench.scenario.resolution import resolve

# The bytes of every tensor that `load_lora_model` of both releases makes for these models, built
# whole on torch's meta device; those of gated delta nets and Qwen3-VL as 0.33 has them.
MADE = [
    ("llama-3.1-8b", 1, 1, 16, 92_356_648),
    ("llama-3.1-8b", 2, 4, 64, 1_041_498_200),
    ("qwen3-8b", 2, 1, 16, 70_148_136),
    ("gemma-3-12b", 1, 1, 16, 130_940_968),
    ("qwen3.5-9b", 1, 1, 16, 115_297_320),
    ("qwen3-vl-8b", 1, 1, 16, 97_280_040),
]


def _plan(model, **fields):
    return resolve(model=model, device="H100", rules="0.33", enable_lora=True, **fields)


@pytest.mark.parametrize(("model", "ranks", "count", "rank", "made"), MADE)
def test_adapters_have_the_bytes_that_vllm_makes(model, ranks, count, rank, made):
    plan = _plan(model, tensor_parallel=ranks, max_loras=count, max_lora_rank=rank)
    small = 4 * 2 * ((count + 1) + (count + 2))
    assert adapter_bytes(plan) == made - small


def test_the_head_of_a_class_without_embedding_modules_has_none():
    # 0.23 made 99,142,696 bytes for Qwen3.5, which has them from 0.33 on
    plan = resolve(model="qwen3.5-9b", device="H100", rules="0.23", enable_lora=True)
    assert adapter_bytes(plan) == 99_142_696 - 40


def test_weights_that_are_loaded_have_them():
    without = resolve(model="llama-3.1-8b", device="H100", rules="0.33")
    plan = _plan("llama-3.1-8b")
    assert loaded_weights(plan)[0] - loaded_weights(without)[0] == adapter_bytes(plan)
    assert plan.estimates[0].available_bytes < without.estimates[0].available_bytes
    assert adapter_bytes(without) == 0


def test_stages_share_them():
    whole, stages = _plan("llama-3.1-8b"), _plan("llama-3.1-8b", pipeline_parallel=2)
    parts = [adapter_bytes(stages, layers) for layers in (range(16), range(16, 2**30 + 1))]
    assert sum(parts) == adapter_bytes(whole)


def test_experts_of_a_rank_have_adapters_of_their_own():
    whole, shared = (
        adapter_bytes(_plan("qwen3-30b-a3b", tensor_parallel=2, enable_expert_parallel=keeps))
        for keeps in (True, False)
    )
    # 64 whole experts, or halves of 128: the side that is not divided is there twice as often
    assert whole < shared


def test_explicit_weights_include_them():
    assert adapter_bytes(_plan("llama-3.1-8b", weights_bytes=2**34)) == 0
