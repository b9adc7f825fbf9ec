"""A model as published, and saved again by an older or a newer transformers, has the same plan."""

from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.groups import in_groups
from tests.models.configs import deepseek_v3, granitemoehybrid, kimi_linear, llama, nemotron_h
from tests.models.resaved import RELEASES, changes, saved_again
from workbench.core.errors import ConfigError, Refused
from workbench.core.model import Model
from workbench.core.ranks import Split
from workbench.models import catalog_config, catalog_names, load_model, read_model
from workbench.scenario import Scenario
from workbench.scenario.resolution import resolve

SCENARIOS = (
    {},
    {"rules": "0.33"},
    {"rules": "0.33", "tensor_parallel": 2, "enable_prefix_caching": True},
    {"rules": "0.33", "num_speculative_tokens": 3, "kv_cache_dtype": "fp8"},
    {"tensor_parallel": 2, "platform": "rocm", "mamba_ssm_cache_dtype": "float32"},
    {"kv_cache_memory_bytes": 40 * 2**30, "max_model_len": 4096},
)
OWN_CLASSES = {
    *(
        "deepseek-ocr",
        "internlm3-8b",
        "internvl3-78b",
        "internvl3-8b",
        "internvl3.5-38b",
        "internvl3.5-8b",
        "kimi-k2",
        "kimi-k2-thinking",
        "kimi-k3",
        "ling-flash-2.0",
        "ling-mini-2.0",
        "llama-3.3-nemotron-super-49b",
        "mimo-7b",
        "mimo-v2.5-pro",
        "minimax-m1-40k",
        "minimax-m1-80k",
        "minimax-m3",
        "minimax-text-01",
        "molmo-7b-d",
        "nemotron-super-49b-v1.5",
        "ring-flash-2.0",
        "ring-mini-2.0",
    ),
    "plamo-2-1b",
}
OF_TIMM = {"gemma-3n-e2b", "gemma-3n-e4b"}
"""The class of their configuration needs timm, which needs torchvision."""
RENAMED = {
    ("4.57.6", "glm-4.5v"): "Glm4vMoe_text",
    ("4.57.6", "lfm2.5-vl-1.6b"): "lfm2-vl",
    ("5.12.1", "exaone-4.5-33b"): "exaone4",
    ("5.20.2", "exaone-4.5-33b"): "exaone4",
    ("5.20.2", "kimi-k2.5"): "deepseek_v3",
}
"""Types that a release writes under the name of its own class."""
NOT_COMPARED = {"origins", "notes", "unread_weights", "model_type", "whole_model_type"}
COMPARED = {field.name for field in fields(Model)} - NOT_COMPARED


def outcome(config, values):
    """What a scenario gives: every value of the plan, or the refusal."""
    try:
        plan = resolve(Scenario(model=config, **values))
    except Refused as error:
        return error.to_dict()
    return {**plan.to_dict(), "model": None}


def test_all_types_that_transformers_knows_are_here():
    """The others have configuration classes of their own repositories."""
    assert set(catalog_names()) - set(changes()) == OWN_CLASSES | OF_TIMM


@in_groups
@pytest.mark.parametrize(
    ("release", "name"), [(one, name) for one in RELEASES for name in changes(one)]
)
def test_a_model_that_is_saved_again_is_read_as_before(release, name):
    old, new = load_model(name), read_model(saved_again(name, release), name)
    differing = {
        field: (getattr(old, field), getattr(new, field))
        for field in COMPARED
        if getattr(old, field) != getattr(new, field)
    }
    assert differing == {}
    # transformers 5 moves the fields of a flat file into a part with a type of its own.
    other = RENAMED.get((release, name))
    assert new.model_type in {old.model_type, f"{old.model_type}_text", other}
    assert (new.whole_model_type or new.model_type) in {old.whole_model_type, old.model_type, other}
    one, other = (model.weights.size(Split(), "bfloat16", {}) for model in (old, new))
    assert one == other


@pytest.mark.sampled(1)
@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("values", SCENARIOS, ids=str)
def test_a_model_that_is_saved_again_has_the_same_plan(values, release):
    for name in changes(release):
        again = outcome(saved_again(name, release), values)
        assert again == outcome(catalog_config(name), values), name


def test_the_spelling_of_layer_kinds_is_noted():
    assert load_model("granite-4.0-h-small").notes == ()
    (note,) = read_model(saved_again("granite-4.0-h-small"), "x").notes
    assert "transformers 5.16" in note


@given(st.lists(st.sampled_from(["mamba", "attention"]), min_size=1, max_size=8), st.data())
def test_every_entry_of_a_list_may_have_either_spelling(kinds, data):
    later = {"mamba": "linear_attention", "attention": "full_attention"}
    mixed = [data.draw(st.sampled_from([kind, later[kind]])) for kind in kinds]
    for family, key in ((granitemoehybrid, "layer_types"), (nemotron_h, "layers_block_type")):
        changed = {key: kinds, "num_hidden_layers": len(kinds), "hybrid_override_pattern": None}
        old = read_model(family(**changed), "x")
        new = read_model(family(**{**changed, key: mixed}), "x")
        assert (old.layers, old.is_hybrid) == (new.layers, new.is_hybrid)


def test_a_later_word_is_read_only_where_the_earlier_one_is():
    for kind in ("indexed_attention", "linear_attention"):
        with pytest.raises(ConfigError, match=kind):
            read_model(llama(layer_types=[kind] * 2), "x")


@pytest.mark.parametrize("kind", ["deepseek_sparse_attention", "indexed_attention"])
def test_a_layer_whose_tokens_an_indexer_chooses_caches_all_of_them(kind):
    plain = deepseek_v3(model_type="deepseek_v32", index_topk=2048)
    listed = {**plain, "layer_types": [kind] * 2}
    assert read_model(listed, "x").layers == read_model(plain, "x").layers


def test_kimi_linear_without_its_nested_object():
    """What transformers makes of it: 1-based lists of layers become one list of kinds."""
    kinds = ["linear_attention"] * 3 + ["full_attention"]
    flat = {"linear_num_heads": 32, "linear_head_dim": 128, "linear_conv_kernel_dim": 4}
    new = read_model(kimi_linear(linear_attn_config=None, layer_types=kinds, **flat), "x")
    old = read_model(kimi_linear(), "x")
    assert (new.layers, new.state, new.attention) == (old.layers, old.state, old.attention)
    assert any("linear_attn_config is absent" in note for note in new.notes)


def test_the_nested_object_of_kimi_linear_counts_where_both_are_there():
    both = kimi_linear(layer_types=["full_attention"] * 4, linear_num_heads=1)
    assert read_model(both, "x").layers == read_model(kimi_linear(), "x").layers


def test_a_list_gives_the_number_of_layers_that_keep_no_cache():
    """Nemotron-H's class saves no num_hidden_layers since transformers 5."""
    kinds = ["linear_attention", "moe", "full_attention", "mlp"]
    config = nemotron_h(hybrid_override_pattern=None, layers_block_type=kinds)
    assert read_model(config, "x").num_hidden_layers == 4


def test_a_huge_number_in_a_list_of_kinds_is_a_typed_error():
    with pytest.raises(ConfigError, match="a huge integer"):
        read_model(granitemoehybrid(layer_types=["mamba", 10**5000, "mamba"]), "x")
