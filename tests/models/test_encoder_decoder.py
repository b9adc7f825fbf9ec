"""Decoders with cross attention, held against what vLLM 0.23 and 0.33 answered for Whisper."""

from __future__ import annotations

import pytest

from tests.models.configs import llama
from workbench.core.chunks.connectors import CONNECTORS
from workbench.core.errors import WorkbenchError
from workbench.core.model import CROSS, FULL
from workbench.core.offload.plan import offload
from workbench.models import read_model
from workbench.scenario import Scenario
from workbench.scenario.resolution import resolve

WHISPER = {
    "model_type": "whisper",
    "architectures": ["WhisperForConditionalGeneration"],
    "num_attention_heads": 6,
    "dtype": "bfloat16",
}
MEMORY = 64 * 2**30
BOTH = pytest.mark.parametrize("rules", ["0.23", "0.33"])


def plan_of(config=None, **changes):
    settings = {"compute_capability": "9.0", "kv_cache_memory_bytes": MEMORY, **changes}
    return resolve(Scenario(model=config or WHISPER, **settings))


@BOTH
@pytest.mark.parametrize(
    ("changes", "blocks", "concurrency"),
    [
        ({}, 699050, 4481.089743589743),
        ({"block_size": 32}, 349525, 4481.089743589743),
        ({"kv_cache_dtype": "fp8"}, 1398101, 8962.185897435897),
        ({"tensor_parallel": 2}, 1398101, 8962.185897435897),
        ({"max_model_len": 300}, 699050, 4755.442176870748),
        ({"platform": "cpu", "compute_capability": None}, 87381, 4369.05),
    ],
)
def test_whisper_has_the_blocks_and_the_concurrency_of_vllm(rules, changes, blocks, concurrency):
    plan = plan_of(rules=rules, **changes)
    cache = plan.built_cache()
    kinds = [(group.kind, len(group.layers)) for group in cache.groups]
    assert kinds == [("FullAttentionSpec", 4), ("CrossAttentionSpec", 4)]
    assert (cache.num_blocks, cache.max_concurrency) == (blocks, concurrency)
    assert not plan.enable_prefix_caching


@pytest.mark.parametrize(
    ("changes", "backend", "cross"),
    [
        ({"compute_capability": "10.0", "rules": "0.33"}, "FLASHINFER", "FLASH_ATTN"),
        ({"platform": "rocm", "rules": "0.23"}, "ROCM_ATTN", "ROCM_AITER_UNIFIED_ATTN"),
        (
            {"platform": "rocm", "rules": "0.33"},
            "ROCM_AITER_UNIFIED_ATTN",
            "ROCM_AITER_UNIFIED_ATTN",
        ),
    ],
)
def test_cross_attention_takes_a_backend_that_reads_an_encoder(changes, backend, cross):
    capability = {} if "compute_capability" in changes else {"compute_capability": None}
    plan = plan_of(**changes, **capability)
    assert plan.backend == backend
    found = {own.reads_encoder: name for own, name, _sizes in plan.layer_backends}
    assert found == {False: backend, True: cross}
    assert plan.block_size == 16


@BOTH
@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"backend": "FLASHINFER"}, "Selected backend AttentionBackendEnum.FLASHINFER is not"),
        ({"backend": "FLEX_ATTENTION"}, "Selected backend AttentionBackendEnum.FLEX_ATTENTION is"),
        ({"kv_cache_dtype": "turboquant_k8v4"}, "No valid attention backend found for"),
        ({"disable_hybrid_kv_cache_manager": True}, ""),
    ],
)
def test_what_cross_attention_cannot_have_stops_vllm(rules, changes, text):
    plan = plan_of(rules=rules, **changes)
    assert plan.errors
    assert plan.errors[0].vllm_text.startswith(text)


@BOTH
def test_no_connector_serves_a_model_with_an_encoder(rules):
    plan = plan_of(rules=rules)
    assert [one.code for one in offload(plan).problems] == ["connector_with_encoder"]
    for name in CONNECTORS:
        try:
            problems = plan.chunks(connector=name).problems
        except WorkbenchError:
            continue
        expected = {"connector_with_encoder", "connector_needs_one_group"}
        assert expected & {one.code for one in problems}, name


@BOTH
def test_a_prompt_is_one_step(rules):
    config = {**WHISPER, "max_target_positions": 9000}
    assert plan_of(config, rules=rules).max_num_batched_tokens == 9000


def test_layers_attend_to_tokens_then_to_the_encoder():
    model = read_model(WHISPER, "x")
    assert [layer.kind for layer in model.layers] == [FULL, CROSS] * 4
    assert model.is_encoder_decoder
    assert not read_model(llama(), "x").is_encoder_decoder


def test_parse_3_5_reads_the_encoder_without_cross_attention():
    decoder = {"decoder_layers": 4, "decoder_attention_heads": 16, "d_model": 1024}
    config = {
        "model_type": "nemotron_parse",
        "architectures": ["RadioMBartPrefixForCausalLM"],
        "is_encoder_decoder": False,
        "dtype": "bfloat16",
        "decoder": {**decoder, "max_position_embeddings": 9000, "self_attention_kv_heads": 4},
    }
    model = read_model(config, "x")
    assert {layer.kind for layer in model.layers} == {FULL}
    assert not model.is_encoder_decoder
    page = plan_of(config, rules="0.33").built_cache().groups[0].page_size_bytes
    assert page == 16 * 2 * 4 * 64 * 2


@BOTH
def test_whisper_of_the_catalog_has_its_own_cache_of_the_encoder(rules):
    plan = resolve(Scenario(model="openai/whisper-large-v3", rules=rules, device="H100"))
    assert plan.model.is_encoder_decoder
    assert (plan.block_size, plan.max_model_len, plan.enable_prefix_caching) == (16, 448, False)
