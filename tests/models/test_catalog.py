"""The catalog: every line is read, resolves where it is served, and is found by its names."""

from __future__ import annotations

import re
import string
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.catalog import is_served
from tests.groups import in_groups
from workbench.core.errors import ConfigError, Refused
from workbench.core.ranks import Split
from workbench.core.versions import RULE_SETS
from workbench.core.weights import LENGTH, STEP, TABLE
from workbench.models import catalog_config, catalog_names, load_model, repository
from workbench.models.catalog import catalog_entries, catalog_name, merged
from workbench.models.read import read_model
from workbench.scenario import Scenario
from workbench.scenario.resolution import resolve

LINES = catalog_entries()
RELEASES = ("0.23", "0.33")
MANY = 5e9
"""Parameters from which on a name counts them closely."""


def test_the_catalog_has_the_models_that_people_ask_for():
    assert len(catalog_names()) >= 120
    assert list(catalog_names()) == sorted(catalog_names())
    assert {name.casefold() for name in catalog_names()} == set(catalog_names())


NO_METHOD = "Qwen/Qwen3-32B-FP8-Static-PerTensor"
"""Its quantization_config names no method, so vLLM builds its weights plain."""
IN_FOUR_BITS, IN_EIGHT, PLAIN = (0.5, 0.8), (1.0, 1.06), (1.999, 2.01)
"""Least and most bytes per parameter; a mask of Gemma 3n has one for each place."""
VOCABULARIES = {"embed_tokens", "lm_head"}
"""What most quantized checkpoints keep plain: half of a small one."""
BYTES_OF_NAMES = {
    IN_FOUR_BITS: r"nvfp4|mxfp4|fp4|4bit|awq|int4|gpt-oss|kimi-k2-thinking|kimi-k2\.[5-9]|kimi-k3",
    IN_EIGHT: r"fp8|int8",
}
"""Published so, and named so but for the last four."""
OTHER_BYTES = {
    NO_METHOD: PLAIN,
    "nvidia/Gemma-4-31B-IT-NVFP4": (1.0, 1.1),  # attention stays plain
    "Qwen/Qwen3.8-27B-FP8": (1.0, 1.12),  # the head and the tower stay plain
}


def expected_bytes(hub_id, stated):
    """Return the least and most bytes per parameter that a name promises."""
    if hub_id in OTHER_BYTES:
        return OTHER_BYTES[hub_id]
    found = (kind for kind, words in BYTES_OF_NAMES.items() if re.search(words, hub_id.casefold()))
    method = (stated or {}).get("quant_method")
    unnamed = (0.5, 1.1) if method else PLAIN
    return next(found, unnamed)


def weighed(weights, copies, omitted=()):
    """Return the bytes and the number of the parameters that are matrices, on one rank."""
    size = number = 0
    for part, count in weights.parts:
        held = count * copies.get(part.kind, 1)
        if part.inputs > 1 and TABLE not in part.name and part.name not in omitted:
            rows = sum(units * each for units, each in part.outputs)
            number += held * part.experts * rows * part.inputs
            size += held * part.size(Split(), "bfloat16")
    return size, number


@in_groups
@pytest.mark.parametrize("rules", RELEASES)
@pytest.mark.parametrize("hub_id", LINES)
def test_a_checkpoint_has_the_bytes_per_parameter_that_its_name_promises(hub_id, rules):
    weights, config = load_model(hub_id).weights, catalog_config(hub_id)
    copies = {**RULE_SETS[rules].weight_copies, LENGTH: 0, STEP: 0}
    size, number = weighed(weights, copies, VOCABULARIES)
    least, most = expected_bytes(hub_id, config.get("quantization_config"))
    assert least <= size / number <= most
    _size, number = weighed(weights, copies)
    stated = re.findall(r"[-_](\d+(?:\.\d+)?)b(?![a-z\d])(?!-\d+e)", hub_id.casefold())
    if stated and number > MANY:
        assert number / 1e9 == pytest.approx(max(float(one) for one in stated), rel=0.2)


@in_groups
@pytest.mark.parametrize("hub_id", LINES)
def test_a_line_is_a_model_that_says_where_it_was_read(hub_id):
    assert set(LINES[hub_id]) <= {"name", "origin", "note", "like", "config"}
    source = catalog_config(hub_id)["_source"]
    assert source["repo"] == hub_id
    assert source["origin"]
    model = load_model(hub_id)
    assert model.name == LINES[hub_id].get("name", hub_id)
    assert model.derived_max_model_len is not None or model.is_attention_free
    assert len(repr(model)) < 200
    assert model.name in repr(model)
    assert "parameters" in repr(model)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("qwen3-8b", "Qwen3ForCausalLM, 36 layers (36 full attention), 8.2 billion parameters"),
        ("gemma-3-12b", "48 layers (40 sliding attention, 8 full attention), 12.2 billion"),
        ("nemotron-3-nano-30b-a3b", "52 layers (23 mamba2, 6 full attention), 31.6 billion"),
        ("kimi-k2.5", "61 layers (61 full attention), 1,026.9 billion parameters"),
        ("whisper-tiny", "4 layers (4 full attention, 4 cross attention), 37.8 million"),
    ],
)
def test_a_model_is_shown_in_a_line(name, text):
    assert text in repr(load_model(name))


def test_the_scales_of_a_tied_head_are_not_parameters():
    scheme = {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": []}
    plain = catalog_config("qwen3-0.6b")
    quantized = read_model({**plain, "quantization_config": scheme}, "x")
    assert repr(quantized) == repr(read_model(plain, "x"))
    assert repr(quantized).endswith("596.1 million parameters")


UNREADABLE_WEIGHTS = {("nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4", "0.23")}
"""ModelOpt's mixed precision, in the form that it writes itself."""

RUN_BY_TRANSFORMERS = {
    *((one, "0.23") for one in LINES if one.partition("/")[2].startswith("MiniMax-M3")),
    ("rednote-hilab/dots.llm1.inst", "0.33"),
}
"""The library has the class, and vLLM's plain attention in all layers."""


@pytest.mark.parametrize("rules", RELEASES)
def test_every_line_resolves_in_the_releases_that_have_its_class(rules):
    for hub_id in LINES:
        scenario = Scenario(model=hub_id, rules=rules)
        if (hub_id, rules) in UNREADABLE_WEIGHTS:
            with pytest.raises(Refused, match=r"Use vLLM 0\.33"):
                resolve(scenario)
        elif is_served(hub_id, rules) or (hub_id, rules) in RUN_BY_TRANSFORMERS:
            assert resolve(scenario).block_size > 0
        else:
            with pytest.raises(Refused, match=rf"vLLM {rules}.*vLLM 0\.") as caught:
                resolve(scenario)
            assert caught.value.code == "architecture_not_served"


def test_a_name_and_a_hub_id_are_found_in_any_case():
    for hub_id, line in LINES.items():
        known = line.get("name", hub_id)
        for reference in (hub_id, hub_id.upper(), f"{hub_id}/", known, known.title()):
            assert catalog_name(reference) == known
            assert repository(reference) == hub_id


def test_the_owner_may_be_omitted_where_only_one_has_the_name():
    assert catalog_name("bge-m3") == "BAAI/bge-m3"
    assert catalog_name("Qwen3-8B-FP8") == "Qwen/Qwen3-8B-FP8"
    assert catalog_name("qwen3-8b") == "qwen3-8b"
    last = Counter(one.rpartition("/")[2] for one in LINES)
    several = [name for name, count in last.items() if count > 1]
    assert not [one for one in several if catalog_name(one) and one not in catalog_names()]


def test_a_quantized_checkpoint_has_the_cache_that_it_requests():
    assert load_model("Qwen/Qwen3-235B-A22B").kv_cache_dtype == "auto"
    assert load_model("nvidia/Qwen3-235B-A22B-NVFP4").kv_cache_dtype == "fp8_e4m3"


def test_what_a_caller_changes_stays_with_the_caller():
    catalog_config("qwen3-32b")["num_hidden_layers"] = 1
    catalog_config("gemma-3-27b")["text_config"]["layer_types"].clear()
    assert catalog_config("qwen3-32b")["num_hidden_layers"] == 64
    assert catalog_config("gemma-3-27b")["text_config"]["layer_types"]


def test_a_patch_is_one_of_rfc_7396():
    base = {"a": 1, "b": {"c": [1], "d": 2}, "e": None}
    patch = {"a": None, "b": {"d": 3, "f": {"g": 4}}, "h": [None]}
    assert merged(base, patch) == {"b": {"c": [1], "d": 3, "f": {"g": 4}}, "e": None, "h": [None]}
    assert merged(base, {}) == base


def test_an_unknown_name_lists_the_nearest():
    with pytest.raises(ConfigError, match="Nearest: qwen3-coder-480b-a35b"):
        load_model("qwen3-coder-480b")


@given(st.text(string.ascii_letters + string.digits + "-./", max_size=40))
def test_no_text_is_taken_for_a_model_by_accident(text):
    last = Counter(one.casefold().rpartition("/")[2] for one in LINES)
    alone = {name for name, count in last.items() if count == 1}
    known = {one.casefold() for one in (*LINES, *catalog_names())} | alone
    assert (catalog_name(text) is not None) == (text.rstrip("/").casefold() in known)
