"""Every architecture of a release: exact, read or refused, held against the recorded answers."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.commands import run
from tests.groups import in_groups
from tests.models.configs import llama
from tests.models.recorded_coverage import covered, differs, drafter_classes, outcome
from tests.recorded import recorded
from workbench.core.architectures import MODEL_REGISTRIES
from workbench.core.errors import ConfigError, ScenarioError
from workbench.models import read_model
from workbench.models.coverage import EXACT, READ, REFUSED, STATUSES, coverage

LEAST_EXACT = {"0.23": 337, "0.33": 369}
"""A number that falls is an architecture that is no longer read as vLLM builds it."""
BUILT = [answer for answer in covered() if "refused" not in answer]


def label(answer):
    return f"{answer['rules']}-{answer['architecture']}"


@in_groups
@pytest.mark.parametrize("answer", BUILT, ids=label)
def test_an_architecture_that_vllm_built_is_exact_or_refused(answer):
    planned, row = outcome(answer), coverage(answer["rules"]).find(answer["architecture"])
    if isinstance(planned, str):
        assert row.status == REFUSED
        assert planned.startswith(row.how)
    else:
        assert not differs(answer, planned)
        assert (row.status, row.how) == (EXACT, answer["source"])


@pytest.mark.parametrize("rules", MODEL_REGISTRIES)
def test_every_architecture_has_a_status(rules):
    found = coverage(rules)
    assert {row.architecture for row in found.rows} == MODEL_REGISTRIES[rules].registered
    assert {row.status for row in found.rows} <= set(STATUSES)
    assert all(row.how for row in found.rows)
    exact = {answer["architecture"] for answer in BUILT if answer["rules"] == rules}
    exact |= drafter_classes()[rules].keys()
    assert {row.architecture for row in found.only(EXACT).rows} <= exact


@pytest.mark.parametrize("rules", MODEL_REGISTRIES)
def test_a_drafter_is_exact_with_a_recorded_plan(rules):
    plans = {f"{one['name']} ({one['method']})" for one in recorded("draft_groups")
             if one["rules"] == rules and "refused" not in one}  # fmt: skip
    registered = MODEL_REGISTRIES[rules].drafters
    for name, drafted in drafter_classes()[rules].items():
        assert set(drafted) <= plans
        if name in registered:
            assert coverage(rules).find(name).status == EXACT


@pytest.mark.parametrize("rules", MODEL_REGISTRIES)
def test_a_class_of_the_library_names_no_layers(rules):
    name = min(MODEL_REGISTRIES[rules].library_classes)
    row = coverage(rules).find(name)
    assert row.status == REFUSED
    with pytest.raises(ConfigError, match="class of its own"):
        read_model(llama(architectures=[name]), "x")


@pytest.mark.parametrize("rules", MODEL_REGISTRIES)
def test_the_number_of_exact_architectures_does_not_fall(rules):
    assert coverage(rules).count(EXACT) >= LEAST_EXACT[rules]


def test_the_command_prints_the_numbers_and_every_architecture():
    text = run("coverage", "--rules", "0.33").output
    found = coverage("0.33")
    assert f"{len(found.rows)} architectures, {found.count(EXACT)} exact" in text
    assert "vLLM 0.33: 1 architecture, 1 " in str(replace(found, rows=found.rows[:1]))
    assert len(text.splitlines()) == 2 + len(found.rows)
    printed = json.loads(run("coverage", "--json", "--status", READ).output)
    assert {row["status"] for row in printed["rows"]} == {READ}


def test_a_wrong_name_lists_the_nearest():
    with pytest.raises(ScenarioError, match="LlamaForCausalLM"):
        coverage("0.33").find("LamaForCausalLM")
    with pytest.raises(ScenarioError, match=r"0\.33"):
        coverage("0.3")
    with pytest.raises(ScenarioError, match="exact"):
        coverage("0.33").only("exac")


def test_a_plan_says_where_nothing_was_compared():
    unchecked = coverage("0.33").only(READ).rows
    name = next(row[0] for row in unchecked if "default reader" in row.how)
    assert any(
        "default reader" in note for note in read_model(llama(architectures=[name]), "x").notes
    )
    assert read_model(llama(), "x").notes == ()
