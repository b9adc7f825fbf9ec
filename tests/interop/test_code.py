"""A scenario as Python that builds the same scenario."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench as wb
from tests.core.strategies import scenarios
from tests.views.plans import EVIL
from workbench.interop.commands.code import scenario_code
from workbench.models import catalog_config
from workbench.scenario import FIELDS, Scenario


def ran(code):
    names = {}
    exec(compile(code, "copied", "exec"), names)
    return names


def scenario_of(code):
    """The scenario that the code builds; the code resolves it as well, so that line is removed."""
    return ran(code.partition("plan = ")[0])["scenario"]


@given(scenarios())
def test_the_code_builds_the_same_scenario(scenario):
    again = scenario_of(scenario_code(scenario.stated()))
    assert again == scenario
    assert type(again) is Scenario


def test_the_code_of_a_plan_runs_as_it_is():
    plan = wb.resolve(platform="xpu", tensor_parallel=4, backend="FLASH_ATTN")
    names = ran(plan.to_code())
    assert names["plan"] == plan
    assert names["scenario"] == plan.scenario


def test_defaults_are_omitted_but_the_model_is_named():
    assert scenario_code(Scenario().stated()).splitlines() == [
        "import workbench as wb",
        "",
        "scenario = wb.Scenario(",
        "    model='nemotron-3-nano-30b-a3b',",
        ")",
        "plan = wb.resolve(scenario)",
        "plan",
    ]


@pytest.mark.parametrize("name", ["it's", 'say "x"', "a\nb", "\\", EVIL, "'''", "ü", "\u2028"])
def test_any_name_is_a_string_of_the_code(name):
    assert scenario_of(scenario_code({"model": name})).model == name


def test_infinities_in_a_config_have_a_spelling():
    config = catalog_config("llama-3.1-8b") | {"time_step_limit": [0.0, math.inf, -math.inf]}
    scenario = Scenario(model=config)
    plan = wb.resolve(scenario)
    assert ran(plan.to_code())["plan"] == plan


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), JSON))
def test_any_config_object_comes_back(config):
    assert scenario_of(scenario_code({"model": config})).model == config


def test_nan_does_not_stop_the_code():
    again = scenario_of(scenario_code({"model": {"x": math.nan}}))
    assert math.isnan(again.model["x"])


@given(scenarios())
def test_json_comes_back_as_well(scenario):
    assert Scenario.from_json(scenario.to_json()) == scenario
    assert set(scenario.to_dict()) == set(FIELDS)
