"""Layers that keep the model's dtype alongside a quantized cache."""

from __future__ import annotations

from math import lcm

import pytest

from tests.core.conformance import config
from tests.models.configs import gemma3, llama, qwen3_5
from workbench.core.block_sizes import MultipleOf, largest_block_within
from workbench.core.errors import ScenarioError
from workbench.core.groups.built_layers import unquantized_layers
from workbench.core.groups.layer_specs import layer_specs
from workbench.core.model import SLIDING
from workbench.scenario import Scenario
from workbench.scenario.resolution import resolve

LLAMA_PLAIN = 8 * 2 * 128 * 2


@pytest.mark.parametrize(
    ("settings", "token_bytes", "block_size"),
    [
        (
            {"kv_cache_dtype": "turboquant_k8v4", "backend": "TURBOQUANT"},
            8 * (128 + 64 + 4),
            48,
        ),
        (
            {
                "kv_cache_dtype": "ultraquant_4bit",
                "platform": "xpu",
                "backend": "TURBOQUANT",
                "tensor_parallel": 2,
            },
            4 * 2 * 128,
            32,
        ),
        ({"kv_cache_dtype": "fp8", "kv_cache_dtype_skip_layers": ("0",)}, 8 * 2 * 128, 32),
        ({"kv_cache_dtype": "fp8"}, 8 * 2 * 128, 16),
    ],
)
def test_phase_3_raises_the_block_until_a_page_covers_a_plain_one(
    settings, token_bytes, block_size
):
    plan = resolve(llama(num_hidden_layers=8), rules="0.33", **settings)
    assert plan.block_size == block_size
    assert plan.attention_page_size_bytes == block_size * token_bytes
    raised = block_size > 16
    assert any("higher-precision" in line for line in plan.log_lines) == raised
    if raised:
        plain = LLAMA_PLAIN // settings.get("tensor_parallel", 1)
        assert plan.attention_page_size_bytes >= 16 * plain > (block_size - 16) * token_bytes


def test_the_backend_of_the_first_layer_counts_the_bytes():
    """The first layer is not packed: its FLASH_ATTN counts one byte per element."""
    plan = resolve(llama(), rules="0.33", kv_cache_dtype="turboquant_k8v4")
    step = next(step for step in plan.steps if step.rule.name == "shared_page_block_size")
    assert (step.operands["p"], step.operands["q"]) == (8 * 2 * 128, LLAMA_PLAIN)
    assert (plan.block_size, plan.skip_page_size_padded) == (32, 32 * 8 * 2 * 128)


def test_0_23_has_no_such_phase():
    plan = resolve(llama(), kv_cache_dtype="fp8", kv_cache_dtype_skip_layers=("0",))
    assert plan.block_size == 16


def test_a_packed_hybrid_with_plain_layers_counts_what_both_divide():
    settings = {"kv_cache_dtype": "turboquant_k8v4", "kv_cache_dtype_skip_layers": ("3",)}
    packed, plain = 4 * 388, 4 * 2 * 256 * 2
    for rules in ("0.23", "0.33"):
        plan = resolve(qwen3_5(), rules=rules, **settings)
        assert plan.attention_bytes_per_token == lcm(packed, plain)


def test_a_list_without_any_attention_layer_counts_too():
    """Layer 0 keeps states: vLLM looks at the list, not at what it names."""
    settings = {"kv_cache_dtype": "turboquant_k8v4", "kv_cache_dtype_skip_layers": ("0",)}
    plan = resolve(qwen3_5(), rules="0.33", **settings)
    assert unquantized_layers(plan) == set()
    assert plan.attention_bytes_per_token == lcm(4 * 388, 4 * 2 * 256 * 2)
    assert plan.skip_page_size_padded is not None


def test_a_page_that_already_covers_the_state_stays():
    settings = {"kv_cache_dtype": "fp8", "rules": "0.33", "gdn_flashinfer_prefill": False}
    without = resolve(qwen3_5(), **settings)
    plan = resolve(qwen3_5(), kv_cache_dtype_skip_layers=("3",), **settings)
    assert plan.block_size == without.block_size == 1056
    assert plan.trace.step("shared_page_block_size").note == "kept"


def test_explicit_layers_keep_the_models_dtype():
    plan = resolve(
        llama(num_hidden_layers=4), kv_cache_dtype="fp8", kv_cache_dtype_skip_layers=[0, "2"]
    )
    assert unquantized_layers(plan) == {0, 2}
    pages = [spec.content_bytes // spec.block_size for spec in layer_specs(plan).by_name().values()]
    assert pages == [LLAMA_PLAIN, LLAMA_PLAIN // 2] * 2


def test_a_word_names_all_sliding_layers():
    plan = resolve(
        gemma3(),
        kv_cache_dtype="fp8",
        backend="TRITON_ATTN",
        kv_cache_dtype_skip_layers=("sliding_window",),
    )
    sliding = {layer.number for layer in plan.model.layers if layer.kind == SLIDING}
    assert sliding
    assert unquantized_layers(plan) == sliding


def test_an_unquantized_cache_has_nothing_to_skip():
    plan = resolve(llama(), kv_cache_dtype_skip_layers=("0",), rules="0.33")
    assert unquantized_layers(plan) == frozenset()
    assert plan.block_size == 16


@pytest.mark.parametrize("layer", ["-1", "first", "1.5", ""])
def test_a_wrong_layer_names_what_is_allowed(layer):
    with pytest.raises(ScenarioError, match="sliding_window") as caught:
        Scenario(kv_cache_dtype_skip_layers=(layer,))
    assert caught.value.field == "kv_cache_dtype_skip_layers"


@pytest.mark.parametrize(
    ("supported", "tokens", "largest"),
    [
        ((MultipleOf(16),), 48, 48),
        ((MultipleOf(16),), 40, 32),
        ((16, 32, 64), 100, 64),
        ((16, 32, 64), 40, 32),
        ((64,), 16, 64),
        ((MultipleOf(64),), 16, 64),
        ((), 16, None),
    ],
)
def test_a_window_takes_the_largest_block_that_fits(supported, tokens, largest):
    assert largest_block_within(supported, tokens) == largest


def test_a_plain_window_fills_what_it_can_of_the_shared_page():
    settings = {"kv_cache_dtype": "fp8", "kv_cache_dtype_skip_layers": ("sliding_window",)}
    plan = resolve(gemma3(), rules="0.33", backend="TRITON_ATTN", block_size=48, **settings)
    specs = layer_specs(plan).by_name()
    windows = [spec for spec in specs.values() if spec.window_tokens]
    assert {spec.block_size for spec in windows} == {16}
    assert {spec.page_size_bytes for spec in windows} == {plan.attention_page_size_bytes}
    token = windows[0].content_bytes // 16
    assert windows[0].padding_bytes == plan.attention_page_size_bytes - 16 * token > 0


def test_a_stage_without_any_backend_has_no_phase_3():
    """Phase 3 runs for every pipeline stage, and one of these has no backend to ask."""
    plan = resolve(
        "ernie-4.5-0.3b",
        rules="0.33",
        pipeline_parallel=4,
        kv_cache_dtype="fp8_per_token_head",
        kv_cache_dtype_skip_layers=("0",),
        num_speculative_tokens=5,
        speculative_method="eagle3",
        draft_model={**llama(num_hidden_layers=1), "architectures": ["LlamaForCausalLMEagle3"]},
    )
    assert plan.backend == "TRITON_ATTN"


def test_a_list_that_names_layers_of_compressed_attention_only():
    """They choose a backend of their own, so no layer has another one for its dtype."""
    plan = resolve(
        config("deepseek_v4_flash"),
        rules="0.33",
        kv_cache_dtype="fp8",
        kv_cache_dtype_skip_layers=("0",),
    )
    assert plan.plain_backend is None
