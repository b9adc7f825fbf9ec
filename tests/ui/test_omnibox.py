"""Anything pasted into the front door: a model, a command, a config.json, a log, or a mistake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import workbench as wb
from tests.ui.panels import press, region, remedies
from workbench.core.errors import ConfigError, ScenarioError
from workbench.omnibox import understand
from workbench.scenario import Scenario

DATA = Path(__file__).parents[1] / "data"
LOGS = DATA / "logs"
COMMAND = "vllm serve Qwen/Qwen3-Next-80B-A3B-Instruct -tp 4 --kv-cache-dtype fp8"


def log(name):
    return (LOGS / name).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "kind", "fields"),
    [
        ("bamba-9b", "model", {"model": "bamba-9b"}),
        ("  Qwen/Qwen3.5-4B ", "model", {"model": "Qwen/Qwen3.5-4B"}),
        (COMMAND, "command", {"tensor_parallel": 4, "kv_cache_dtype": "fp8"}),
        (f"$ {COMMAND} \\\n  --max-model-len 32768", "command", {"max_model_len": 32768}),
        (log("whole_start_0_23.log"), "log", {"tensor_parallel": 4, "max_model_len": 32768}),
    ],
)
def test_a_text_is_read_as_what_it_is(text, kind, fields):
    found = understand(text, Scenario(device="H200"))
    assert found.kind == kind
    assert {name: getattr(found.scenario, name) for name in fields} == fields


def test_a_config_is_a_model_and_keeps_the_other_fields():
    config = (DATA / "models" / "bamba_9b.json").read_text(encoding="utf-8")
    found = understand(config, Scenario(tensor_parallel=2))
    assert found.kind == "config"
    assert found.scenario.tensor_parallel == 2
    assert wb.resolve(found.scenario).model.family == "bamba"


def test_a_command_keeps_the_machine():
    assert understand(COMMAND, Scenario(device="B200", rules="0.33")).scenario.device == "B200"


@pytest.mark.parametrize("text", ["", "   ", "\n"])
def test_nothing_is_answered_with_what_to_paste(text):
    with pytest.raises(ScenarioError, match="Paste a `vllm serve` command"):
        understand(text, Scenario())


@pytest.mark.parametrize("text", ["qwen3-nextt-80b", "./nowhere/config.json", '{"model_type": 1}'])
def test_an_unknown_model_is_a_typed_error(text):
    with pytest.raises((ConfigError, ScenarioError)):
        understand(text, Scenario())


@pytest.mark.parametrize("text", ["{" * 100_000, "\0\1\2 \n", "a poem about the sea", "vllm serve"])
def test_a_strange_text_changes_nothing_and_is_answered(text):
    door = wb.explore(model="bamba-9b")
    scenario = door.scenario
    door.submit(text)
    assert door.scenario == scenario
    assert region(door, "understood")
    assert door.session.errors == []


def test_a_pasted_command_answers_all_four_at_once():
    door = wb.explore()
    press(door, "submit", f"{COMMAND} --enable-prefix-caching --max-model-len 32768")
    door.apply(device="H100")
    assert "?" not in door.view.announced
    assert (door.plan.block_size, door.plan.max_model_len) == (544, 32768)


def test_a_fatal_log_comes_first_with_its_fix_and_the_fix_works():
    door = wb.explore()
    press(door, "submit", log("align_budget.log"))
    shown = region(door, "understood")
    assert shown.index("fatal error") < shown.index("messages known")
    assert [one.code for one in door.plan.errors] == ["block_exceeds_token_budget"]
    changes = next(iter(remedies(door).values()))
    assert f"&quot;{next(iter(changes))}&quot;" in shown
    press(door, "apply", json.dumps(changes))
    assert door.plan.errors == ()
    assert "--" in wb.commands_of(door.plan)["vllm serve"]


def test_a_log_without_a_model_offers_candidates_and_explains_again():
    door = wb.explore()
    before = door.scenario
    press(door, "submit", log("size_alone_528.log"))
    assert door.scenario == before
    assert "Use " in region(door, "understood")
    press(door, "submit", log("size_alone_528.log"), "qwen3.5-4b")
    assert door.scenario.model == "qwen3.5-4b"


def test_a_scenario_that_a_log_offers_replaces_the_present_one():
    door = wb.explore(tensor_parallel=8, kv_cache_dtype="fp8")
    report = wb.explain_log(log("size_alone_528.log"))
    press(door, "use", json.dumps(dict(report.scenes[0].fields)))
    assert door.scenario == Scenario.from_dict(report.scenes[0].fields)
