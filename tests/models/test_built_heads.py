"""Heads that a release derives from the width of a model, whatever its file or its class says."""

import pytest

import workbench as wb
from tests.models.configs import llama

LATENT = {
    "kv_lora_rank": 256,
    "q_lora_rank": 768,
    "qk_nope_head_dim": 64,
    "qk_rope_head_dim": 32,
    "v_head_dim": 64,
    "head_dim": None,
    "num_attention_heads": 40,
    "hidden_size": 2560,
}


@pytest.mark.parametrize(
    ("changes", "rules", "size"),
    [({}, "0.23", 64), ({}, "0.33", 32), ({"head_dim": 32}, "0.23", 32)],
)
def test_heads_are_counted_by_the_width_where_no_class_says_otherwise(changes, rules, size):
    of_it = {"architectures": ["MiniCPM3ForCausalLM"], "model_type": "minicpm3"}
    config = llama(**of_it, **{**LATENT, **changes})
    plan = wb.resolve(model=config, rules=rules, max_model_len=4096)
    assert (plan.head_size, plan.model.attention.head_size) == (size, 96)
