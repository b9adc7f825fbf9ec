"""MiMo-V2: pages of narrow values, and the backend that the model sets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import workbench as wb
from workbench.core.errors import ConfigError
from workbench.models import read_model

CONFIGS = json.loads((Path(__file__).parents[2] / "tools" / "coverage_configs.json").read_text())
MIMO = CONFIGS["written"]["MiMoV2FlashForCausalLM"]
FLASH, TRITON = "FLASH_ATTN_DIFFKV", "TRITON_ATTN_DIFFKV"


def plan(rules, capability="9.0", config=MIMO, **more):
    return wb.resolve(model=config, rules=rules, compute_capability=capability, **more)


@pytest.mark.parametrize(
    ("rules", "capability", "explicit", "set_"),
    [
        ("0.23", "9.0", None, FLASH),
        ("0.23", "9.0", "FLASHINFER", FLASH),
        ("0.33", "9.0", None, FLASH),
        ("0.33", "10.0", "TRITON_ATTN", FLASH),
        ("0.33", "9.0", TRITON, TRITON),
        ("0.33", "8.0", None, TRITON),
    ],
)
def test_the_model_sets_its_backend(rules, capability, explicit, set_):
    found = plan(rules, capability, backend=explicit)
    assert (found.backend, found.errors) == (set_, ())
    assert found.block_size == 16
    # 4 KV heads, and 8 in the windows, of 192 + 128 elements.
    specs = [spec for group in found.built_cache().groups for spec in group.layer_specs]
    assert {spec.token_bytes for spec in specs} == {2560, 5120}


@pytest.mark.parametrize(
    ("rules", "capability", "more", "text"),
    [
        ("0.23", "8.0", {}, "Sinks are only supported in FlashAttention 3"),
        ("0.33", "8.0", {"backend": FLASH}, "Sinks are only supported in FlashAttention 3"),
        ("0.33", "9.0", {"kv_cache_dtype": "fp8_e5m2"}, "FlashAttention does not support fp8_e5m2"),
        ("0.33", "10.0", {"kv_cache_dtype": "fp8"}, "FlashAttention does not support fp8 kv-cache"),
        ("0.33", "8.0", {"kv_cache_dtype": "fp8"}, "FP8 KV cache is not supported by the Triton"),
        ("0.33", "8.0", {"kv_cache_dtype": "nvfp4"}, "TritonAttentionDiffKVBackend supports only"),
    ],
)
def test_layers_that_cannot_be_built_are_refused_in_vllms_words(rules, capability, more, text):
    (problem,) = plan(rules, capability, **more).errors
    assert problem.code == "layers_cannot_be_built"
    assert problem.vllm_text.startswith(text)


def test_only_0_33_quantizes_its_cache():
    """`MiMoV2FlashDecoderLayer` of 0.23 passes no configuration of the cache on."""
    old, new = (plan(rules, kv_cache_dtype="fp8").built_cache() for rules in ("0.23", "0.33"))
    assert {group.page_size_bytes for group in old.groups} == {81920}
    assert {group.page_size_bytes for group in new.groups} == {40960}


def test_other_models_may_request_these_backends_as_flash_attention():
    from tests.models.configs import llama

    found = plan("0.33", config=llama(), backend=FLASH)
    assert (found.backend, found.errors) == (FLASH, ())


@pytest.mark.parametrize(
    ("rules", "capability", "sizes", "backends"),
    [
        ("0.23", "9.0", (256, 192, 128, 128), {FLASH}),
        ("0.33", "9.0", (160, 192, 128, 128), {FLASH}),
        # heads of 256 with narrow values have no version 4 on SM10x, and no pages of 128 tokens
        ("0.33", "10.0", (256, 96, 64, 64), {TRITON, FLASH}),
    ],
)
def test_windows_may_have_heads_of_another_size(rules, capability, sizes, backends):
    whole, own, values, own_values = sizes
    config = MIMO | {"head_dim": whole, "swa_head_dim": own}
    config |= {"v_head_dim": values, "swa_v_head_dim": own_values, "swa_num_key_value_heads": 8}
    found = plan(rules, capability, config, disable_hybrid_kv_cache_manager=True)
    assert {found.backend, *(name for _, name, _ in found.layer_backends)} == backends
    assert found.block_size == 16
    specs = [spec for group in found.built_cache().groups for spec in group.layer_specs]
    bytes_ = {2 * 4 * (whole + values), 2 * 8 * (own + own_values)}
    assert {spec.token_bytes for spec in specs} == bytes_


@pytest.mark.parametrize(
    "changes",
    [
        {"swa_v_head_dim": 64},
        {"swa_v_head_dim": 192},
        {"head_dim": 128},
        {"v_head_dim": 192, "swa_head_dim": 128},  # ordinary heads, and sinks in windows alone
        {"v_head_dim": 192, "swa_v_head_dim": 192},
    ],
)
def test_windows_with_values_that_are_narrow_otherwise_are_refused(changes):
    with pytest.raises(ConfigError, match="swa_v_head_dim"):
        read_model(MIMO | changes, "x")


def test_a_file_names_the_kinds_of_layers():
    with pytest.raises(ConfigError, match="hybrid_layer_pattern"):
        read_model(MIMO | {"hybrid_layer_pattern": None}, "x")
