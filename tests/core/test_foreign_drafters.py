"""Drafters whose class reads the configuration of the target: which targets it can read."""

import pytest

from tests.models.configs import deepseek_v3, llama
from workbench.core.errors import Refused
from workbench.core.model import CHUNKED, FULL, SLIDING
from workbench.core.speculation import class_of_head
from workbench.core.versions import RULE_SETS
from workbench.models import load_model
from workbench.models.drafter import read_drafter
from workbench.scenario import Scenario
from workbench.scenario.resolution import resolve

RULES = sorted({"0.23", "0.33"})
COHERE = llama(
    model_type="cohere2", architectures=["EagleCohereForCausalLM"], num_hidden_layers=4,
    sliding_window=512,
)  # fmt: skip
CHUNKS = llama(
    model_type="llama4_text", architectures=["EagleLlama4ForCausalLM"], num_hidden_layers=1,
    no_rope_layers=[1], attention_chunk_size=1024,
)  # fmt: skip


def drafted(rules, model, draft, method):
    return resolve(
        Scenario(
            model=model,
            draft_model=draft,
            rules=rules,
            speculative_method=method,
            num_speculative_tokens=2,
        )
    )


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize("head", [COHERE, CHUNKS], ids=["cohere", "llama4"])
def test_heads_that_read_the_targets_lists_do_not_draft_for_other_models(rules, head):
    with pytest.raises(Refused, match="whose layers are modelled"):
        drafted(rules, llama(), head, "eagle")


def test_a_head_without_a_list_has_the_kinds_that_its_class_lists():
    assert read_drafter(COHERE, "head").head.kinds == (SLIDING, SLIDING, SLIDING, FULL)
    every_other = read_drafter({**COHERE, "sliding_window_pattern": 2}, "head").head
    assert every_other.kinds == (SLIDING, FULL) * 2
    chunked = read_drafter(CHUNKS, "head").head
    assert (chunked.kinds, chunked.window_tokens) == ((CHUNKED,), 1024)


@pytest.mark.parametrize("rules", RULES)
def test_qwens_mtp_layers_have_the_geometry_of_the_target(rules):
    plan = drafted(rules, "qwen3.5-35b-a3b", "qwen3.5-27b", "mtp")
    assert plan.drafter.attention == load_model("qwen3.5-35b-a3b").attention
    assert plan.drafter.attention.num_kv_heads != load_model("qwen3.5-27b").attention.num_kv_heads


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize(
    ("target", "draft"),
    [
        ("qwen3.5-27b", "qwen3.5-35b-a3b"),  # No Qwen3Next layer found in the model.layers
        ("qwen3-8b", "qwen3.5-4b"),  # Invalid model_type qwen3
        ("qwen3-next-80b-a3b", "qwen3.5-27b"),
    ],
)
def test_other_targets_are_refused(rules, target, draft):
    with pytest.raises(Refused, match="draft for a model of their own kind only"):
        drafted(rules, target, draft, "mtp")


@pytest.mark.parametrize(
    ("rules", "model_type", "name"),
    [
        ("0.23", "deepseek_v3", "EagleDeepSeekMTPModel"),
        ("0.23", "deepseek_v32", "EagleDeepSeekMTPModel"),
        ("0.23", "glm_moe_dsa", "EagleDeepSeekMTPModel"),
        ("0.33", "deepseek_v3", "EagleDeepSeekMTPModel"),
        ("0.33", "glm_moe_dsa", "EagleDeepseekV32MTPModel"),
    ],
)
def test_a_file_with_mtp_layers_has_their_class_before_that_of_a_head(rules, model_type, name):
    speculation = RULE_SETS[rules].speculation
    draft = read_drafter(deepseek_v3(model_type=model_type, num_nextn_predict_layers=1), "head")
    assert class_of_head(draft, speculation.methods["eagle"], speculation) == name
