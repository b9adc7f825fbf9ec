"""A release is registered in one place: commands, pickers and comparisons then have it."""

from __future__ import annotations

import json

import pytest

from tests.commands import run
from tests.models.configs import qwen3_5
from workbench.core.package_data import release_data
from workbench.core.versions import DEFAULT, RULE_SETS, V0_33
from workbench.core.what_if.releases import nearest_rules
from workbench.door.session import Session
from workbench.interop.exchange import explain_log
from workbench.interop.logs.releases import rules_for
from workbench.interop.logs.written import start_log
from workbench.scenario import FIELDS, Scenario
from workbench.scenario.resolution import resolve
from workbench.scenario.scenario import random_scenarios
from workbench.scenario.schema import scenario_schema
from workbench.scenario.versions import compare, versions_of
from workbench.ui.panels.versions import VersionsPanel
from workbench.views import figures

NEXT = "0.34"


@pytest.fixture
def next_release():
    rules = V0_33.successor(NEXT, default_block_size=32)
    RULE_SETS.add(NEXT, rules)
    yield rules
    RULE_SETS.remove(NEXT)


def test_the_newest_release_is_the_last_that_is_registered(next_release):
    assert (RULE_SETS.previous, RULE_SETS.newest) == (V0_33.name, NEXT)


def test_a_variant_of_a_release_is_not_one():
    assert "before-37467" in RULE_SETS
    assert "before-37467" not in RULE_SETS.releases
    assert DEFAULT in RULE_SETS.releases


@pytest.mark.parametrize("file", ["architectures.json", "citations.json", "flags.json"])
def test_every_release_has_its_recorded_files_in_its_folder(file):
    assert tuple(release_data(file)) == RULE_SETS.releases


def test_it_is_a_value_of_the_field_and_of_the_schema(next_release):
    assert NEXT in FIELDS["rules"].kind.candidates(NEXT)
    assert NEXT in json.dumps(scenario_schema())
    assert resolve(model=qwen3_5(), rules=NEXT).rules is next_release


def test_an_upgrade_leads_to_it(next_release):
    scenario = Scenario(model=qwen3_5())
    comparison = compare(scenario)
    assert (comparison.old.rules, comparison.new.rules) == (V0_33.name, NEXT)
    assert [outcome.rules for outcome in versions_of(scenario)][-1] == NEXT


def test_the_panel_compares_with_it(next_release):
    panel = VersionsPanel(Session(Scenario(model="llama-3.1-8b"), lambda _outcome: None))
    assert (panel.old.value, panel.new.value) == (V0_33.name, NEXT)
    assert NEXT in panel.new.options


def test_the_commands_have_it(next_release):
    assert NEXT in run("diff", "llama-3.1-8b").stdout
    assert run("diff", "--to", NEXT, "--from", "0.23", "llama-3.1-8b").exit_code == 1
    assert "FLASHINFER" in run("backends", "--rules", NEXT).stdout


def test_logs_and_installations_of_it_get_its_rules(next_release):
    assert rules_for("0.34.1") == (NEXT, "")
    assert nearest_rules("0.34.0") == NEXT


def test_random_scenarios_of_it(next_release):
    assert {scenario.rules for scenario in random_scenarios(5, 0, NEXT)} == {NEXT}


def test_a_figure_draws_it(next_release):
    outcomes = versions_of(Scenario(model=qwen3_5()))
    drawn = {trace.name for trace in figures.versions(outcomes).data}
    assert drawn == {RULE_SETS[one.rules].title for one in outcomes if one.plan is not None}
    assert next_release.title in drawn


def test_a_log_of_it_is_written_and_read(next_release):
    plan = resolve(model="llama-3.1-8b", rules=NEXT, kv_cache_memory_bytes=1)
    problem = next(one for one in plan.errors if one.vllm_text)
    assert explain_log(start_log(plan.scenario, problem, plan)).scenario["rules"] == NEXT
