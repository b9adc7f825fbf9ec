"""Design files: round trips, refusal of newer ones, changed rules."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import assume, given, settings

import workbench as wb
from tests.catalog import distinct_models, short_length
from tests.core.strategies import scenarios
from workbench.core.errors import ConfigError, Refused, ScenarioError
from workbench.interop.design import NUMBERS, design_of, read_design
from workbench.interop.exchange import load_design, loaded_design, save_design
from workbench.scenario import Scenario


def design_text(scenario, **changes):
    plan = wb.resolve(scenario)
    design = design_of(plan, scenario.to_dict(), "0.1.0", "title", "notes\n\nmore")
    return dataclasses.replace(design, **changes).to_json()


@pytest.mark.parametrize("name", distinct_models())
def test_a_design_leads_back_to_the_same_plan(name, tmp_path):
    scenario = Scenario(model=name, max_model_len=short_length(name))
    path = tmp_path / "design.json"
    save_design(scenario, path, "Ein Titel: ü", "why")
    found = load_design(path)
    assert found.scenario == scenario
    assert found.plan == wb.resolve(scenario)
    assert found.warnings == ()
    assert (found.design.title, found.design.notes) == ("Ein Titel: ü", "why")
    assert list(tmp_path.iterdir()) == [path]


@given(scenarios())
@settings(deadline=None, max_examples=50)
def test_any_scenario_comes_back(scenario):
    try:
        text = design_text(scenario)
    except (Refused, ConfigError):
        assume(False)
    found = loaded_design(text)
    assert found.scenario == scenario
    assert found.warnings == ()


def test_it_begins_with_its_schema():
    head = list(json.loads(design_text(Scenario())))[:2]
    assert head == ["schema", "schema_version"]


def test_a_newer_schema_is_refused_in_clear_words():
    text = design_text(Scenario()).replace('"schema_version": 1', '"schema_version": 2')
    with pytest.raises(ScenarioError, match="schema version 2; this workbench reads 1") as caught:
        read_design(text)
    assert caught.value.code == "schema_unknown"


def test_numbers_that_changed_are_listed():
    scenario = Scenario(model="qwen3.5-4b")
    numbers = json.loads(design_text(scenario))["numbers"]
    assert set(numbers) == {*NUMBERS, "problems"}
    old = design_text(scenario, numbers={**numbers, "block_size": 512}, fingerprint="0" * 8)
    warnings = loaded_design(old).warnings
    assert "rules or the model's config.json have changed" in warnings[0]
    assert warnings[1:] == ("block_size was 512 and is 528 now.",)


def test_another_fingerprint_with_the_same_numbers_is_a_warning():
    [warning] = loaded_design(design_text(Scenario(), fingerprint="0" * 8)).warnings
    assert "every number is the same" in warning


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"schema": "other"}',
        "[" * 100_000,
        json.dumps({"schema": "hybrid-kv-workbench/design", "schema_version": 1}),
        design_text(Scenario()).replace('"title"', '"tittle"'),
        design_text(Scenario()).replace('"scenario": {', '"scenario": 3, "x": {'),
    ],
)
def test_another_form_is_refused_and_says_what_is_wrong(text):
    with pytest.raises(ScenarioError) as caught:
        read_design(text)
    assert caught.value.code == "design_unreadable"
    assert "workbench report" in str(caught.value)


def test_a_scenario_that_is_none_names_its_field():
    text = design_text(Scenario()).replace('"tensor_parallel": 1', '"tensor_parallel": 0')
    with pytest.raises(ScenarioError, match="tensor_parallel"):
        loaded_design(text)


def test_a_file_that_is_not_there_or_no_text(tmp_path):
    with pytest.raises(ScenarioError, match="cannot be read"):
        load_design(tmp_path / "none.json")
    (tmp_path / "bin").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(ScenarioError, match="not UTF-8"):
        load_design(tmp_path / "bin")
