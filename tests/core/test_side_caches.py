"""Caches that layers keep alongside their attention: keys of an indexer, and rings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench as wb
from tests.models.recorded_coverage import recorded
from workbench.core.layouts.error import LayoutError
from workbench.core.states import Ring

NAMES = ("Glm5NextForCausalLM", "MiniMaxM3SparseForCausalLM", "Qwen4ExpForCausalLM")
CONFIGS = {one["architecture"]: one["config"] for one in recorded() if one["rules"] == "0.33"}


def plan_of(name, **settings):
    return wb.resolve(
        model=CONFIGS[name],
        rules="0.33",
        kv_cache_memory_bytes=2**36,
        **{"compute_capability": "9.0", **settings},
    )


@given(st.integers(1, 64), st.integers(0, 64), st.integers(1, 64), st.booleans())
def test_a_ring_holds_its_tokens_and_every_draft_in_whole_units(tokens, drafts, unit, is_power):
    size = Ring(tokens, unit, is_power_of_two=is_power).block_size(drafts)
    assert size >= tokens + drafts
    assert size % unit == 0
    assert size < (2 if is_power else 1) * (tokens + drafts + unit)


@pytest.mark.parametrize("name", NAMES)
def test_views_of_side_caches_are_refused(name):
    with pytest.raises(LayoutError):
        plan_of(name).byte_map()


@pytest.mark.parametrize(
    ("name", "settings", "num_blocks", "concurrency"),
    [
        ("Glm5NextForCausalLM", {"tensor_parallel": 2}, 2361, 5.581560283687943),
        (
            "Glm5NextForCausalLM",
            {"compute_capability": "10.0", "tensor_parallel": 2, "kv_cache_dtype": "fp8"},
            2593,
            10.759336099585063,
        ),
        ("Qwen4ExpForCausalLM", {"tensor_parallel": 2}, 3289, 18.581920903954803),
        (
            "Qwen4ExpForCausalLM",
            {"speculative_method": "ngram", "num_speculative_tokens": 3},
            1694,
            8.962962962962964,
        ),
        ("KimiK3ForConditionalGeneration", {}, 431, 2.2447916666666665),
    ],
)
def test_blocks_and_concurrency_are_those_of_vllm(name, settings, num_blocks, concurrency):
    # Answers of vLLM 0.33.0 to the same command.
    cache = plan_of(name, **settings).built_cache()
    assert (cache.num_blocks, cache.max_concurrency) == (num_blocks, concurrency)


def test_the_layers_backend_does_not_heed_a_request():
    assert plan_of("Qwen4ExpForCausalLM", backend="TRITON_ATTN").backend == "QWEN4_EXP_QSA_TRITON"
