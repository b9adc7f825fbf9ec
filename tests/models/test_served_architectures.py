"""Which architectures a family reads, and which vLLM versions serve them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.groups import in_groups
from tests.models.configs import (
    FAMILIES,
    bailing_hybrid,
    bamba,
    deepseek_v3,
    gemma3,
    granitemoehybrid,
    kimi_linear,
    llama,
    nemotron_h,
    plamo2,
    qwen3_5,
    qwen3_next,
)
from workbench.core.architectures import MODEL_REGISTRIES, versions_with
from workbench.core.errors import ConfigError, Refused
from workbench.core.model import SSM
from workbench.core.pooling import pools
from workbench.core.versions import RULE_SETS
from workbench.models import read_model
from workbench.models.families.decoder import REFUSALS
from workbench.models.family import FAMILIES as REGISTERED
from workbench.scenario import Scenario
from workbench.scenario.resolution import resolve

ARCHITECTURES = sorted({name for known in MODEL_REGISTRIES.values() for name in known.served})


def wrapped(text, architecture, model_type="wrapper", key="text_config"):
    return {"model_type": model_type, "architectures": [architecture], key: text}


def refusal_of(config, rules):
    with pytest.raises(Refused) as caught:
        resolve(Scenario(model=config, rules=rules))
    return caught.value


def test_ling_3_is_not_read_as_lightning_attention():
    """Ling 2.5 and Ling 3 share a model_type; their layers have nothing in common."""
    old = read_model(bailing_hybrid(architectures=["BailingMoeV2_5ForCausalLM"]), "x")
    new = read_model(
        bailing_hybrid(architectures=["BailingMoeV3ForCausalLM"], num_hidden_layers=6), "x"
    )
    assert (old.state.kind, new.state.kind) == ("linear_attention", "kda")
    # The layers after the last whole group are attention.
    assert [layer.kind == SSM for layer in new.layers] == [True, True, True, False, False, False]
    with pytest.raises(ConfigError, match="BailingMoeV2_5ForCausalLM") as caught:
        read_model(bailing_hybrid(architectures=["BailingMoeV2ForCausalLM"]), "x")
    assert (caught.value.code, caught.value.field) == ("unknown_architecture", "/architectures/0")
    assert caught.value.vllm_text is None
    with pytest.raises(ConfigError, match="BailingMoeV2_5ForCausalLM") as caught:
        read_model(bailing_hybrid(architectures=["BailingMoeV9ForCausalLM"]), "x")
    assert caught.value.vllm_text == "Model architectures ['BailingMoeV9ForCausalLM'"


def test_a_file_without_a_type_is_refused_in_the_words_of_the_library():
    with pytest.raises(ConfigError) as caught:
        read_model({"architectures": ["LlamaForCausalLM"]}, "x")
    assert caught.value.field == "/model_type"
    assert caught.value.vllm_text == "Should have a `model_type` key in its config.json."


def test_an_architecture_that_is_read_under_another_type_names_it():
    with pytest.raises(ConfigError, match="read with model_type qwen3_next: correct one"):
        read_model(llama(architectures=["Qwen3NextForCausalLM"]), "x")
    with pytest.raises(ConfigError, match="read with model_type deepseek_v4: correct one"):
        read_model(llama(architectures=["DeepseekV4ForCausalLM"]), "x")


def declared_for(model_type):
    """What its family declares; the default reader takes whatever no family declares."""
    if model_type in REGISTERED:
        return REGISTERED[model_type].architectures_of(model_type)
    own = {name for kind, one in REGISTERED.items() for name in one.architectures_of(kind)}
    return set(ARCHITECTURES) - own - {*REFUSALS}


# Gemma 3 has a wrapper, and Qwen's classes do not build the windows of gpt-oss.
@given(st.sampled_from(sorted({*FAMILIES} - {"gemma3", "gpt_oss"})), st.sampled_from(ARCHITECTURES))
def test_an_architecture_of_another_family_is_never_read(family, architecture):
    config = {**FAMILIES[family](), "architectures": [architecture]}
    declared = declared_for(config["model_type"])
    if architecture in declared:
        assert read_model(config, "x").architecture == architecture
        return
    with pytest.raises(ConfigError) as caught:
        read_model(config, "x")
    assert caught.value.code == "unknown_architecture"


@in_groups
@pytest.mark.parametrize("model_type", REGISTERED)
def test_a_family_declares_architectures_that_a_version_serves(model_type):
    declared = REGISTERED[model_type].architectures_of(model_type)
    assert declared
    assert [name for name in declared if not versions_with(name)] == []


@pytest.mark.parametrize(
    ("kind", "taken", "built"),
    [
        ("llama", "LlamaModel", "LlamaForCausalLM"),
        ("qwen3", "Qwen3Model", "Qwen3ForCausalLM"),
        ("granite", "GraniteModel", "GraniteForCausalLM"),
    ],
)
def test_a_config_without_architectures_has_the_base_class_of_its_model_type(kind, taken, built):
    """Which pools, unless vLLM has it as one that generates, too."""
    config = llama(model_type=kind, architectures=None, dtype=None)
    plan = resolve(Scenario(model=config))
    model, generates = plan.model, kind == "llama"
    assert (model.architecture, pools(model.pooling)) == (built, not generates)
    assert str(model.origins["architecture"]) == (
        f"architecture = {taken} from the family's default (architectures is absent)"
    )
    assert any(f'set architectures to ["{built}"]' in note for note in model.notes) != generates
    assert plan.model_dtype == ("bfloat16" if generates else "float16")


def test_an_object_that_names_neither_class_nor_type_is_refused():
    with pytest.raises(ConfigError, match="/model_type is missing, and /architectures as well"):
        read_model({"text_config": llama()}, "x")


@pytest.mark.parametrize(
    ("verifier", "named"),
    [({"name_or_path": "Qwen/Qwen3-8B"}, "Qwen/Qwen3-8B as model"), (None, "its target as model")],
)
def test_a_file_of_a_drafter_says_which_model_it_is_for(verifier, named):
    config = {
        "architectures": ["Eagle3Speculator"],
        "speculators_model_type": "eagle3",
        "speculators_config": {"algorithm": "eagle3", "verifier": verifier},
        "transformer_layer_config": llama(),
    }
    with pytest.raises(ConfigError, match=named):
        read_model(config, "x")


def test_a_base_class_that_only_the_library_has_is_refused_with_a_way_forward():
    text = qwen3_5()["text_config"] | {"model_type": "qwen3_5_text"}
    with pytest.raises(ConfigError, match="uses Qwen3_5TextModel") as caught:
        read_model(text, "x")
    assert 'set architectures to ["Qwen3_5ForCausalLM"]' in caught.value.message
    assert caught.value.vllm_text == "Model architectures ['Qwen3_5TextModel'"


def test_a_hybrid_that_pools_is_as_the_classes_of_each_release_have_it():
    """Its states keep the model's dtype in 0.23, whose hook is that of the class that generates."""
    config = nemotron_h(architectures=None)
    old, new = (resolve(Scenario(model=config, rules=rules)) for rules in ("0.23", "0.33"))
    assert (old.mamba_state_dtypes[1], new.mamba_state_dtypes[1]) == ("bfloat16", "float32")
    assert old.enable_prefix_caching
    assert new.enable_prefix_caching


@pytest.mark.parametrize("kind", ["minimax_text_01", "minimax_m1"])
def test_a_model_type_without_a_base_class_is_refused_as_vllm_does(kind):
    with pytest.raises(ConfigError, match='set architectures to \\["MiniMax') as caught:
        read_model(llama(model_type=kind, architectures=None), "x")
    assert caught.value.vllm_text == "No model architectures are specified"
    assert caught.value.field == "/architectures"


@pytest.mark.parametrize("listed", [[], None, "LlamaForCausalLM", [7], [["LlamaForCausalLM"]]])
def test_architectures_are_a_list_of_names(listed):
    config = {**llama(), "architectures": listed}
    if not listed:  # LlamaModel, whose class is that one
        assert read_model(config, "x").architecture == "LlamaForCausalLM"
        return
    with pytest.raises(ConfigError) as caught:
        read_model(config, "x")
    assert caught.value.code == "config_wrong_value"


def test_the_first_architecture_that_vllm_knows_counts():
    config = llama(architectures=["MyLlama", "LlamaForCausalLM"])
    assert read_model(config, "x").architecture == "LlamaForCausalLM"


@pytest.mark.parametrize("end", ["Generation", "ForConditionalGeneration"])
def test_an_audio_encoder_with_caches_is_refused_by_its_name_in_either_file(end):
    """vLLM builds the first class from params.json, and config.json names the second one."""
    config = wrapped(llama(), f"VoxtralRealtime{end}")
    with pytest.raises(ConfigError, match="read with model_type voxtral_realtime"):
        read_model(config, "x")


def test_an_architecture_outside_of_vllm_is_refused_with_a_way_forward():
    """Its layers are in code that the workbench does not run, whatever model_type it borrows."""
    config = llama(architectures=["OwlForCausalLM"], auto_map={"AutoModel": "owl.Owl"})
    with pytest.raises(ConfigError, match=r"registry of vLLM 0\.23 or 0\.33") as caught:
        read_model(config, "x")
    assert 'set architectures to ["LlamaForCausalLM"]' in caught.value.message


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(wrapped(deepseek_v3(), "KimiK25ForConditionalGeneration"), id="named"),
        pytest.param(wrapped(llama(), "LlavaForConditionalGeneration"), id="any"),
        pytest.param(
            wrapped(nemotron_h(), "NemotronH_Nano_VL_V2", key="llm_config"), id="any-hybrid"
        ),
        pytest.param({**gemma3(), "architectures": ["Gemma3ForConditionalGeneration"]}, id="own"),
        pytest.param(
            {**qwen3_5(), "architectures": ["Qwen3_5ForConditionalGeneration"]}, id="both"
        ),
    ],
)
def test_a_wrapper_is_read_as_the_language_model_that_vllm_builds(config):
    assert read_model(config, "x").architecture == config["architectures"][0]


@pytest.mark.parametrize(
    "config",
    [
        pytest.param(wrapped(llama(), "KimiK25ForConditionalGeneration"), id="builds-another"),
        pytest.param(wrapped(granitemoehybrid(), "LlavaForConditionalGeneration"), id="no-states"),
        pytest.param(wrapped(llama(), "OwlForConditionalGeneration"), id="not-registered"),
        pytest.param(
            wrapped(llama(architectures=["Qwen3NextForCausalLM"]), "LlavaForConditionalGeneration"),
            id="text-of-another-family",
        ),
    ],
)
def test_a_wrapper_that_vllm_does_not_build_around_it_is_refused(config):
    with pytest.raises(ConfigError) as caught:
        read_model(config, "x")
    assert caught.value.field.startswith(("/architectures", "/text_config/architectures"))


@pytest.mark.parametrize(
    ("config", "rules", "other"),
    [
        (wrapped(kimi_linear(), "KimiK3ForConditionalGeneration"), "0.23", "0.33"),
        (
            {**qwen3_5()["text_config"], "architectures": ["Qwen3_5ForCausalLM"]},
            "before-37467",
            "0.33",
        ),
        (bamba(), "0.33", "0.23"),
        (plamo2(), "0.33", "0.23"),
    ],
)
def test_a_version_that_lacks_an_architecture_names_one_that_has_it(config, rules, other):
    error = refusal_of(config, rules)
    assert (error.code, error.field) == ("architecture_not_served", "model")
    assert f"vLLM {other}" in error.message
    assert {"rules": other} in error.candidates
    assert resolve(Scenario(model=config, rules=other)).block_size > 0


@in_groups
@pytest.mark.parametrize("builder", list(FAMILIES.values()), ids=list(FAMILIES))
@pytest.mark.parametrize("rules", list(RULE_SETS))
def test_a_version_serves_exactly_what_its_registry_has(builder, rules):
    config = builder()
    served = RULE_SETS[rules].model_registry.served
    try:
        resolve(Scenario(model=config, rules=rules))
        refused = False
    except Refused as error:
        refused = error.code == "architecture_not_served"
    assert refused == (read_model(config, "x").architecture not in served)


MLLAMA = wrapped(
    llama(model_type="mllama_text_model", cross_attention_layers=[0]),
    "MllamaForConditionalGeneration",
)
"""Llama 3.2 Vision: no release has a class of its own."""


@pytest.mark.parametrize("rules", list(RULE_SETS))
def test_transformers_keeps_keys_and_values_of_cross_attention_as_of_any_other(rules):
    plan = resolve(Scenario(model=MLLAMA, rules=rules))
    (group,) = plan.cache.groups
    assert (group.kind, len(group.layers)) == ("FullAttentionSpec", 2)


def test_transformers_has_no_sparse_attention():
    scenario = Scenario(model="minimax-m3", rules="0.23", device="H200", tensor_parallel=8)
    plan = resolve(scenario)
    assert plan.backend == "FLASH_ATTN"
    assert {spec.kind for group in plan.cache.groups for spec in group.layer_specs} == {
        "FullAttentionSpec"
    }
    assert resolve(scenario.replace(rules="0.33")).block_size == 128


def of_library(name, model_type, **changes):
    return {**llama(architectures=[name], model_type=model_type), **changes}


@pytest.mark.parametrize("rules", list(RULE_SETS))
@pytest.mark.parametrize(
    "config",
    [
        of_library("HeliumForCausalLM", "helium"),
        of_library("BitNetForCausalLM", "bitnet"),
        # its class has words of its own for layers, which the library runs as attention
        of_library("NanoChatForCausalLM", "nanochat", recurrent_words=[1], conv_dim=8),
    ],
    ids=lambda config: config["model_type"],
)
def test_what_only_the_library_has_keeps_plain_keys_and_values(config, rules):
    (group,) = resolve(Scenario(model=config, rules=rules)).cache.groups
    assert (group.kind, len(group.layers)) == ("FullAttentionSpec", 2)


def test_a_word_that_the_library_does_not_ask_for_is_full_attention():
    config = of_library("ZayaForCausalLM", "zaya", layer_types=["hybrid", "hybrid"])
    assert {layer.kind for layer in read_model(config, "x").layers} == {"full_attention"}
    assert refusal_of(config, "0.23").code == "architecture_not_served"


def test_latents_of_the_library_are_expanded_in_the_older_release():
    config = {
        **deepseek_v3(architectures=["YoutuForCausalLM"], model_type="youtu", head_dim=64),
        "num_attention_heads": 16,
        "num_key_value_heads": 16,
    }
    old, new = (resolve(Scenario(model=config, rules=rules)) for rules in ("0.23", "0.33"))
    # 16 tokens of 16 heads, a key and a value of 64 elements each; and of one latent
    assert old.attention_page_size_bytes == 16 * 16 * 2 * 64 * 2
    assert new.attention_page_size_bytes == 16 * (512 + 64) * 2
    assert (old.num_kv_heads_per_rank, new.num_kv_heads_per_rank) == (16, 1)
    assert old.head_size == new.head_size == 64


def test_the_older_library_has_no_windows_in_a_text_part():
    text = {**gemma3()["text_config"], "model_type": "x"}
    text["layer_types"] = [("sliding", "full")[at % 2] + "_attention" for at in range(6)]
    config = wrapped(text, "T5GemmaForConditionalGeneration")
    (group,) = resolve(Scenario(model=config, rules="0.23")).cache.groups
    assert (group.kind, len(group.layers)) == ("FullAttentionSpec", 6)


@pytest.mark.parametrize("rules", RULE_SETS.releases)
@pytest.mark.parametrize(
    "config",
    [
        llama(model_type="bert", architectures=["BertModel"]),
        llama(model_type="modernbert", architectures=["ModernBertForSequenceClassification"]),
        llama(architectures=["LlamaForCausalLM"], is_causal=False),
        gemma3(use_bidirectional_attention=True)["text_config"]
        | {"architectures": ["Gemma3TextModel"]},
    ],
    ids=lambda config: config["architectures"][0],
)
def test_what_sees_later_tokens_keeps_no_cache(config, rules):
    found = resolve(Scenario(model=config, rules=rules, enable_prefix_caching=False))
    assert (found.errors, found.kept_cache, found.is_uncached) == ((), None, True)
    assert (found.cache.groups, found.block_size, found.attention_page_size_bytes) == ((), 16, None)
    with pytest.raises(ValueError, match="no layer keeps keys and values"):
        found.built_cache()


def test_the_registries_say_where_they_come_from():
    assert list(MODEL_REGISTRIES) == ["0.23", "0.33"]
    for version, known in MODEL_REGISTRIES.items():
        assert f"vllm {version}." in known.origin
        assert "transformers" in known.origin


def test_the_text_of_a_release_that_dropped_an_architecture():
    error = refusal_of(plamo2(), "0.33")
    assert error.vllm_text == (
        "Model architecture Plamo2ForCausalLM was supported in vLLM until v0.26.0"
    )


def test_qwen3_next_is_served_by_all():
    assert versions_with(read_model(qwen3_next(), "x").architecture) == ("0.23", "0.33")
