"""Classes of their own that retrieve and rank: layers of one that generates, and another end."""

from __future__ import annotations

import pytest

import workbench as wb
from tests.models.configs import llama
from workbench.core.ranks import Split
from workbench.models import catalog_config, read_model

QWEN3 = llama(model_type="qwen3", vocab_size=1024, intermediate_size=512)


COLPALI = {
    "architectures": ["ColPaliForRetrieval"],
    "model_type": "colpali",
    "embedding_dim": 128,
    "vlm_config": {"model_type": "paligemma", "text_config": llama(model_type="gemma")},
}


def retriever(name, **fields):
    """Qwen3-VL as a class that retrieves has it."""
    config = catalog_config("qwen3-vl-4b")
    return {**config, "architectures": [name], "model_type": "colqwen3", **fields}


@pytest.mark.parametrize("rules", ["0.23", "0.33"])
@pytest.mark.parametrize(
    ("config", "in_steps"),
    [
        (QWEN3 | {"architectures": ["JinaForRanking"]}, True),
        (QWEN3 | {"architectures": ["JinaEmbeddingsV5Model"]}, True),
        (QWEN3 | {"architectures": ["VoyageQwen3BidirectionalEmbedModel"]}, False),
        (retriever("ColQwen3"), False),
        (retriever("OpsColQwen3Model"), False),
        (COLPALI, False),
    ],
    ids=lambda one: one["architectures"][0] if isinstance(one, dict) else None,
)
def test_a_class_that_pools_by_the_first_token_takes_whole_prompts(config, in_steps, rules):
    plan = wb.resolve(model=config, rules=rules, device="H100")
    longest = plan.max_model_len
    assert plan.enable_prefix_caching == in_steps
    assert (plan.max_num_batched_tokens >= longest) == (not in_steps or longest <= 8192)


def test_tokens_of_a_bidirectional_class_keep_no_cache():
    plan = wb.resolve(model=QWEN3 | {"architectures": ["VoyageQwen3BidirectionalEmbedModel"]})
    assert plan.model.layers == ()


def size_of(config):
    weights = read_model(config, "x").weights
    return None if weights.unknown else weights.size(Split(), "bfloat16", {})


def test_a_projection_takes_the_place_of_the_head():
    hidden = QWEN3["hidden_size"]
    head = 2 * 1024 * hidden
    base = size_of(QWEN3 | {"architectures": ["Qwen3ForCausalLM"], "tie_word_embeddings": False})
    voyage = {"architectures": ["VoyageQwen3BidirectionalEmbedModel"], "num_labels": 64}
    assert size_of(QWEN3 | voyage) == base - head + 2 * 64 * hidden
    saved = {**voyage, "num_labels": None, "id2label": {str(one): "x" for one in range(64)}}
    assert size_of(QWEN3 | saved) == size_of(QWEN3 | voyage)


def test_a_projection_whose_width_only_the_checkpoint_has_is_unknown():
    wide = retriever("ColQwen3", embed_dim=320)
    assert size_of(retriever("ColQwen3")) is None
    assert size_of(wide) == size_of(catalog_config("qwen3-vl-4b")) + 4 * 320 * 2560


@pytest.mark.parametrize("rules", ["0.23", "0.33"])
def test_a_file_of_gte_is_served_by_the_class_of_the_documentation(rules):
    config = {
        "model_type": "new",
        "architectures": ["NewModel"],
        "hidden_size": 768,
        "num_attention_heads": 12,
        "num_hidden_layers": 12,
        "max_position_embeddings": 8192,
    }
    changes = {"architectures": ["GteNewModel"]}
    plan = wb.resolve(model=config, hf_overrides=changes, rules=rules)
    assert plan.model.pooling.name == "GteNewModel"


HYBRID = {**catalog_config("qwen3.5-4b"), "joint_head_config": {"width": 64}}


@pytest.mark.parametrize(
    ("name", "has_same_block"),
    [
        ("ClefFlashForJointSchema", True),
        ("D3ForSequenceClassification", True),
        ("ColQwen3_5", False),  # its hook leaves the dtype of states at the model's
    ],
)
def test_a_hybrid_that_pools_keeps_the_states_of_the_one_that_generates(name, has_same_block):
    config = {**HYBRID, "architectures": [name]}
    plan = wb.resolve(model=config, rules="0.33", device="H100")
    base = wb.resolve(model="qwen3.5-4b", rules="0.33", device="H100")
    assert (plan.block_size == base.block_size) == has_same_block
    assert plan.model.weights.unknown  # their heads are not described


def test_a_class_that_pools_is_refused_in_a_release_without_it():
    config = {**HYBRID, "architectures": ["ClefFlashForJointSchema"]}
    with pytest.raises(wb.Refused, match=r"0\.33"):
        wb.resolve(model=config, rules="0.23")


def test_deepseek_without_latents_is_refused_and_with_them_read():
    config = {**catalog_config("deepseek-v3"), "architectures": ["DeepseekV3BidirectionalModel"]}
    assert "MLA" in wb.resolve(model=config, rules="0.33", device="H100").backend
    with pytest.raises(wb.ConfigError, match="without latents"):
        read_model({**config, "is_causal": False}, "x")
