"""Families whose layers keep caches of several kinds: Gemma, DeepSeek-V4, Llama 4."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.conformance import config as recorded_config
from workbench.core.errors import ConfigError, Refused
from workbench.core.model import CHUNKED, FULL, SLIDING
from workbench.models import catalog_config, load_model, read_model
from workbench.scenario import Scenario
from workbench.scenario.resolution import resolve

CACHES = {0: 1, 4: 5, 128: 3}
"""Tokens in one vector -> caches of such a layer."""


def gemma4(**changes):
    config = copy.deepcopy(catalog_config("gemma-4-26b-a4b"))
    config["text_config"] |= changes
    return read_model(config, "gemma-4")


def gemma3n(**changes):
    text = {"model_type": "gemma3n_text", "num_hidden_layers": 10, "hidden_size": 2048}
    text["architectures"] = ["Gemma3nForCausalLM"]
    return read_model({**text, "num_kv_shared_layers": 3, **changes}, "gemma-3n")


def deepseek_v4(ratios, **changes):
    config = recorded_config("deepseek_v4_flash")
    layers = {"num_hidden_layers": len(ratios), "compress_ratios": list(ratios)}
    return read_model({**config, **layers, **changes}, "deepseek-v4")


def test_full_layers_of_gemma_4_have_heads_of_their_own():
    model = load_model("gemma-4-31b")
    full = [layer for layer in model.layers if layer.kind == FULL]
    slides = [layer for layer in model.layers if layer.kind == SLIDING]
    assert (len(full), len(slides)) == (10, 50)
    assert model.attention.of_layer(full[0]).num_kv_heads == 4
    assert model.attention.of_layer(full[0]).head_size == 512
    assert model.attention.of_layer(slides[0]).num_kv_heads == 16
    assert model.attention.of_layer(slides[0]).head_size == 256
    largest = model.largest_attention
    assert (largest.num_kv_heads, largest.head_size) == (16, 512)


def test_kv_heads_of_full_layers_count_only_where_keys_are_values():
    assert gemma4(attention_k_eq_v=False).attention.num_kv_heads == 8


def test_the_last_layer_of_gemma_4_is_full():
    kinds = ["sliding_attention"] * 29 + ["sliding_attention"]
    assert [layer.kind for layer in gemma4(layer_types=kinds).layers][-1] == FULL


@given(st.integers(0, 24))
def test_shared_layers_keep_no_cache(shared):
    model = gemma4(num_kv_shared_layers=shared)
    assert [layer.number for layer in model.layers] == list(range(30 - shared))
    assert model.num_hidden_layers == 30


def test_a_shared_layer_needs_one_of_its_kind_before_it():
    with pytest.raises(ConfigError, match="num_kv_shared_layers"):
        gemma4(num_kv_shared_layers=25)


def test_every_fifth_layer_of_gemma_3n_is_full():
    model = gemma3n()
    kinds = [layer.kind for layer in model.layers]
    assert kinds == [SLIDING] * 4 + [FULL] + [SLIDING] * 2
    assert model.attention.shares_caches


def test_flex_attention_reads_no_shared_cache():
    config = {**catalog_config("gemma-4-26b-a4b")}
    config["text_config"] = {**config["text_config"], "num_kv_shared_layers": 5}
    config["text_config"]["use_bidirectional_attention"] = None
    plan = resolve(Scenario(model=config, backend="FLEX_ATTENTION"))
    assert [problem.code for problem in plan.errors] == ["flex_shared_cache"]


@given(
    st.lists(st.sampled_from([0, 4, 128]), min_size=1, max_size=12),
    st.sampled_from([1, 2, 8]),
    st.sampled_from(["0.23", "0.33"]),
)
def test_compressed_layers_keep_their_caches_on_every_rank(ratios, ranks, rules):
    assert len(deepseek_v4(ratios).layers) == sum(CACHES[ratio] for ratio in ratios)
    config = {**recorded_config("deepseek_v4_flash"), "num_hidden_layers": len(ratios)}
    config["compress_ratios"] = ratios
    plan = resolve(Scenario(model=config, rules=rules, kv_cache_dtype="fp8", tensor_parallel=ranks))
    if plan.cache is None:  # 0.23 needs layers with compressed tokens
        assert rules == "0.23"
        return
    specs = [spec for group in plan.cache.groups for spec in group.layer_specs]
    assert len(specs) == sum(CACHES[ratio] for ratio in ratios)
    assert all(spec.page_size_bytes % 576 == 0 for spec in specs)
    assert {spec.block_size for spec in specs} <= {4, 8, 64, 256}


@pytest.mark.parametrize("rates", [{"heavily_compressed_attention": 64}, {"x": 3}])
def test_rates_are_those_that_the_states_have_blocks_for(rates):
    config = {**recorded_config("deepseek_v4_flash"), "compress_rates": rates}
    config.pop("compress_ratios")
    config["layer_types"] = ["heavily_compressed_attention"] * config["num_hidden_layers"]
    if rates == {"x": 3}:
        assert len(read_model(config, "x").layers) == 3 * config["num_hidden_layers"]
        return
    with pytest.raises(ConfigError, match="heavily_compressed_attention"):
        read_model(config, "x")


def test_a_block_has_whole_vectors():
    with pytest.raises(Refused, match="Expected at least 128"):
        resolve(
            Scenario(
                model=recorded_config("deepseek_v4_flash"), kv_cache_dtype="fp8", block_size=64
            )
        )


@given(st.lists(st.sampled_from([0, 1]), min_size=1, max_size=12))
def test_layers_of_llama_4_with_rotated_positions_attend_in_chunks(rotated):
    config = catalog_config("llama-4-maverick")
    listed = {"no_rope_layers": rotated, "num_hidden_layers": len(rotated)}
    text = {**config["text_config"], **listed}
    model = read_model({**config, "text_config": text}, "llama-4")
    assert [layer.kind for layer in model.layers] == [[FULL, CHUNKED][one] for one in rotated]
    whole = read_model({**config, "text_config": {**text, "attention_chunk_size": None}}, "llama-4")
    assert {layer.kind for layer in whole.layers} == {FULL}


def test_drafters_of_hidden_states_turn_the_hybrid_manager_off_for_chunks():
    given_values = {"model": "llama-4-maverick", "kv_cache_memory_bytes": 2**36}
    kinds = {
        method: {
            group.spec.kind
            for group in resolve(
                Scenario(**given_values, speculative_method=method, num_speculative_tokens=2)
            ).cache.groups
        }
        for method in ("ngram", "eagle")
    }
    assert kinds["ngram"] == {"FullAttentionSpec", "ChunkedLocalAttentionSpec"}
    assert kinds["eagle"] == {"FullAttentionSpec"}
