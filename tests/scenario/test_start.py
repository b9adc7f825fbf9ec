"""What the public calls take as a scenario: itself, a plan, or a model; nothing else."""

import json

import pytest

import workbench as wb
from workbench.models.catalog import catalog_config
from workbench.scenario import Scenario

MODEL = "qwen3.5-4b"
PLAN = wb.resolve(model=MODEL, tensor_parallel=2)
CALLS = {
    "resolve": wb.resolve,
    "compare": wb.compare,
    "versions_of": wb.versions_of,
    "sweep": lambda start: wb.sweep(start, tensor_parallel=(1, 2)),
    "compare_catalog": wb.compare_catalog,
}
TAKE_PLANS = {
    "wb.tables": wb.tables,
    "wb.flex": wb.flex,
    "wb.chunks": lambda given: wb.chunks([given]),
    "wb.commands_of": wb.commands_of,
}


def test_a_model_a_plan_and_a_scenario_mean_the_same():
    expected = PLAN.to_dict()
    for start in (PLAN, PLAN.scenario, MODEL):
        assert wb.resolve(start, tensor_parallel=2).to_dict() == expected
    assert wb.resolve(catalog_config(MODEL), tensor_parallel=2).block_size == PLAN.block_size
    assert wb.resolve(PLAN, rules="0.33").settings.tensor_parallel == 2


def test_a_path_is_a_model(tmp_path):
    path = tmp_path / "my config.json"
    path.write_text(json.dumps(catalog_config(MODEL)), encoding="utf-8")
    assert wb.resolve(path, tensor_parallel=2).block_size == PLAN.block_size
    assert wb.explore(str(path), tensor_parallel=2).plan.block_size == PLAN.block_size


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_every_call_takes_a_model_or_a_plan(call):
    for start in (MODEL, PLAN):
        call(start)
    with pytest.raises(wb.ScenarioError, match=r"Expected a scenario, a plan, or a model.*a float"):
        call(1.5)


@pytest.mark.parametrize("name", TAKE_PLANS)
def test_what_takes_a_plan_says_so(name):
    for given in (PLAN.scenario, MODEL):
        with pytest.raises(wb.ScenarioError, match=f"{name} expects a plan, such as"):
            TAKE_PLANS[name](given)


def test_a_text_of_words_is_sent_to_what_reads_it():
    with pytest.raises(wb.ConfigError, match=r"wb\.from_vllm_command"):
        wb.resolve("vllm serve Qwen/Qwen3.5-4B -tp 2")


def test_the_front_door_opens_with_a_text():
    door = wb.explore("vllm serve Qwen/Qwen3.5-4B -tp 2", rules="0.33")
    assert door.plan.settings.tensor_parallel == 2
    assert door.plan.settings.rules == "0.33"
    assert wb.explore(MODEL).scenario == Scenario(model=MODEL)
    assert wb.lab.hits(MODEL).scenario == Scenario(model=MODEL)
