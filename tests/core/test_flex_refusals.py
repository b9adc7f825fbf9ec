"""What flex attention cannot have at all: read from the model, in vLLM's words."""

from __future__ import annotations

import pytest

from tests.models.configs import llama
from workbench.scenario.resolution import resolve

CAPPED = {"model_type": "gemma2", "sliding_window": 64}


def codes(backend, **config):
    plan = resolve(model=llama(**config), backend=backend)
    return [problem.code for problem in plan.errors if problem.code.startswith("flex_")]


@pytest.mark.parametrize(
    ("config", "cap"),
    [
        (CAPPED, 50.0),
        ({**CAPPED, "attn_logit_softcapping": 30.0}, 30.0),
        ({"attn_logit_softcapping": 30.0}, None),
    ],
)
def test_the_cap_is_that_of_models_that_use_it(config, cap):
    plan = resolve(model=llama(**config))
    assert plan.model.attention.logits_soft_cap == cap
    assert codes("FLEX_ATTENTION", **config) == (["flex_soft_cap"] if cap else [])
    assert codes("TRITON_ATTN", **config) == []


def test_a_null_cap_is_none():
    config = {**llama(**CAPPED), "attn_logit_softcapping": None}
    assert resolve(model=config).model.attention.logits_soft_cap is None
    plan = resolve(model=config, backend="FLEX_ATTENTION")
    assert plan.errors == ()


@pytest.mark.parametrize("backend", [None, "FLEX_ATTENTION"])
def test_a_quantized_cache_is_refused_before_the_layer_is_built(backend):
    plan = resolve(model=llama(), backend=backend, kv_cache_dtype="fp8")
    refused = [problem for problem in plan.errors if problem.code == "backend_not_valid"]
    assert bool(refused) == (backend is not None)
    if refused:
        assert "kv_cache_dtype not supported" in refused[0].vllm_text + refused[0].message
