"""MTP layers of a config.json that states no number: those of the release's configuration class.

transformers 5.20, which vLLM 0.33 was recorded with, has one layer by default; 5.12, with 0.23,
has none, and the drafter's model stops with an AttributeError.
"""

import pytest

from tests.models.configs import deepseek_v3, llama
from workbench.core.capacity.draft_weights import draft_bytes
from workbench.core.errors import Refused
from workbench.models.catalog import catalog_config
from workbench.scenario.resolution import resolve


def drafted(model, rules, **fields):
    return resolve(model=model, rules=rules, num_speculative_tokens=2, **fields)


def config_of(model_type):
    make = llama if model_type == "glm4_moe" else deepseek_v3
    classes = {"architectures": ["Glm4MoeForCausalLM"]} if make is llama else {}
    return make(model_type=model_type, **classes)


@pytest.mark.parametrize("model_type", ["deepseek_v3", "deepseek_v32", "glm4_moe"])
def test_0_33_has_one_layer_where_the_file_states_no_number(model_type):
    config = config_of(model_type)
    plan = drafted(config, "0.33")
    assert plan.speculative_method == "mtp"
    assert plan.drafter is not None
    assert [layer.number for layer in plan.drafter.layers] == [config["num_hidden_layers"]]
    config["num_nextn_predict_layers"] = 0
    assert drafted(config, "0.33").speculative_method == "ngram"


@pytest.mark.parametrize("model_type", ["deepseek_v3", "deepseek_v32", "glm4_moe"])
def test_0_23_has_none(model_type):
    config = config_of(model_type)
    assert drafted(config, "0.23").speculative_method == "ngram"
    with pytest.raises(Refused, match="has no MTP layers"):
        drafted(config, "0.23", speculative_method="mtp")


@pytest.mark.parametrize("model_type", ["glm_moe_dsa", "glm4_moe_lite"])
@pytest.mark.parametrize("rules", ["0.23", "0.33"])
def test_classes_without_a_default_have_none_in_either_release(rules, model_type):
    config = deepseek_v3(model_type=model_type)
    assert drafted(config, rules).speculative_method == "ngram"
    with pytest.raises(Refused, match="has no MTP layers"):
        drafted(config, rules, speculative_method="mtp")


def test_the_weights_have_the_layer_that_the_file_omits():
    config = dict(catalog_config("deepseek-v3"))
    fields = {"device": "H200", "tensor_parallel": 8}
    stated = draft_bytes(drafted(config, "0.33", **fields))
    del config["num_nextn_predict_layers"]
    assert draft_bytes(drafted(config, "0.33", **fields)) == stated != 0
