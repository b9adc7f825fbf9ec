"""Caches that layers keep alongside their attention: keys of an indexer, and rings."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench as wb
from tests.models.recorded_coverage import covered
from workbench.core.layouts.error import LayoutError
from workbench.core.states import Ring
from workbench.models.catalog import catalog_config

NAMES = ("Glm5NextForCausalLM", "MiniMaxM3SparseForCausalLM", "Qwen4ExpForCausalLM")
CONFIGS = {one["architecture"]: one["config"] for one in covered() if one["rules"] == "0.33"}


def pooled(tokens):
    config = catalog_config("glm-5.3-flash")
    return {**config, "text_config": {**config["text_config"], "index_kpool": tokens}}


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


@pytest.mark.parametrize("pool", [2, 4, 8, 16])
def test_an_indexer_reads_pages_of_whole_keys(pool):
    config = pooled(pool)
    for capability, keys in (("9.0", (32, 64)), ("12.0", (64,))):
        plan = wb.resolve(model=config, rules="0.33", compute_capability=capability)
        sizes = dict(plan.backends)["GLM5_NEXT_INDEXER"]
        assert sizes == tuple(pool * one for one in keys)
        assert plan.block_size % min(sizes) == 0


def test_a_key_of_one_token_is_refused():
    with pytest.raises(wb.ConfigError, match="index_kpool"):
        wb.resolve(model=pooled(1), rules="0.33")


@given(st.integers(0, 40))
def test_a_ring_divides_the_block_or_fewer_drafts_are_offered(drafts):
    fields = {"num_speculative_tokens": drafts, "speculative_method": "mtp"} if drafts else {}
    ring = Ring(4, 4, is_power_of_two=False)
    scenario = {"model": "qwen3.8-flash-next", "rules": "0.33", "compute_capability": "9.0"}
    refused = None
    try:
        plan = wb.resolve(**scenario, tensor_parallel=2, **fields)
    except wb.Refused as error:
        refused = error
    if refused is None:
        assert plan.block_size % ring.block_size(drafts) == 0
    else:
        assert refused.code == "side_cache_refused"
        assert all(one["num_speculative_tokens"] < drafts for one in refused.candidates)


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
