"""What phases remember: a plan equals one that is decided anew, in any order."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import partial
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.strategies import scenarios
from workbench.core import phases
from workbench.core.backends import Backend, MultipleOf, Rank
from workbench.core.built import as_built
from workbench.core.plan import Plan
from workbench.core.resolve import resolve, resolve_numbers
from workbench.core.stages import memory
from workbench.core.versions import RULE_SETS
from workbench.core.watch import POOL_SETTINGS
from workbench.core.working_plan import WorkingPlan
from workbench.models import catalog_config, load_model
from workbench.models.read import read_model
from workbench.scenario import Scenario
from workbench.scenario.fields import Settings
from workbench.scenario.scenario import random_scenarios

NAMES = tuple(one.name for one in fields(Settings))
KEPT = {"rules", "platform", "backend"}
"""Fields whose values are names that another rule set or platform may not have."""
MODEL = "qwen3-next-80b-a3b"


def settings_of(scenario, **changes):
    return Settings(**{name: getattr(scenario, name) for name in NAMES} | changes)


def crossed(random, one, other):
    """The settings of a scenario with some fields of another one."""
    taken = random.sample([name for name in NAMES if name not in KEPT], random.randint(0, 4))
    return settings_of(one, **{name: getattr(other, name) for name in taken})


def decide_anew(model, chosen):
    """The plan that the stages alone give, which remember nothing."""
    rules = RULE_SETS[chosen.rules]
    working = WorkingPlan(as_built(model, chosen, rules), chosen, rules)
    for stage in rules.stages:
        stage(working)
    return working.finished()


def outcome(model, chosen, decide=resolve):
    """The plan, or what refuses the settings."""
    try:
        return decide(model, chosen)
    except (ArithmeticError, AssertionError, LookupError, TypeError, ValueError) as error:
        return type(error), str(error)


def without_steps(found):
    return replace(found, steps=()) if isinstance(found, Plan) else found


untraced = partial(resolve, trace=False)


def compare(random, models, every):
    """Resolve settings in random order, most of them three times, and compare with plans anew."""
    questions = [(model, chosen) for chosen in every for model in models]
    for model, chosen in random.sample(questions * 3, len(questions) * 3):
        anew = outcome(model, chosen, decide_anew)
        assert outcome(model, chosen) == anew
        assert outcome(model, chosen, untraced) == without_steps(anew)


@given(st.lists(scenarios(memory=True), min_size=2, max_size=4), st.randoms())
@settings(max_examples=60, deadline=None)
def test_a_remembered_plan_equals_one_that_is_decided_anew(drawn, random):
    models = [load_model(scenario.model) for scenario in drawn[:2]]
    compare(random, models, [crossed(random, one, other) for one in drawn for other in drawn])


@pytest.mark.parametrize("rules", RULE_SETS)
def test_the_same_holds_of_random_scenarios(rules):
    random = Random(rules)
    drawn = [*random_scenarios(40, 7, rules)]
    models = [load_model(name) for name in (MODEL, "nemotron-3-nano-30b-a3b", "gpt-oss-20b")]
    compare(random, models, [crossed(random, one, random.choice(drawn)) for one in drawn])


def decided(model, rules):
    """How many decisions every phase remembers."""
    found = [
        stage
        for stage in phases.phases(model, RULE_SETS[rules], trace=False)
        if isinstance(stage, phases.Phase)
    ]
    return [len(phase.memory.decided) for phase in found]


@pytest.mark.parametrize("rules", RULE_SETS)
def test_settings_of_the_pool_are_not_read_before_its_size(rules):
    models = [load_model(name) for name in (MODEL, "deepseek-v3", "gpt-oss-20b")]
    for scenario in random_scenarios(60, 3, rules):
        for model in models:
            outcome(model, settings_of(scenario), untraced)
    read = {
        name
        for model in models
        for stage in phases.phases(model, RULE_SETS[rules], trace=False)
        if isinstance(stage, phases.Phase)
        for name in stage.memory.reads
    }
    assert "settings.block_size" in read
    assert not read & {f"settings.{name}" for name in POOL_SETTINGS}


def test_a_million_different_points_take_bounded_memory(monkeypatch):
    monkeypatch.setattr(phases, "REMEMBERED", 50)
    phases.forget()
    names, start = (MODEL, "gpt-oss-20b"), Settings()
    for length in range(2048, 2248):
        for name in names:
            chosen = replace(start, max_model_len=length, max_num_seqs=length)
            resolve(load_model(name), chosen, trace=False)
    assert sum(sum(decided(load_model(name), start.rules)) for name in names) <= 50


def test_groups_of_many_pipeline_stages_take_the_room_of_many_decisions(monkeypatch):
    monkeypatch.setattr(phases, "REMEMBERED", 200)
    phases.forget()
    model, start = load_model("gemma-3-27b"), replace(Settings(), pipeline_parallel=8)
    most = 0
    for length in range(2048, 2148):
        plan = resolve(model, replace(start, max_model_len=length), trace=False)
        [last] = [
            phase
            for phase in phases.phases(model, RULE_SETS[start.rules], trace=False)
            if isinstance(phase, phases.Phase) and memory.requests in phase.stages
        ]
        most = max(most, len(last.memory.decided))
    groups = len(plan.cache.groups) * (1 + len(plan.cache.stages))
    assert 0 < most * groups <= 200 * phases.GROUPS_OF_ONE


def test_an_error_that_a_plan_keeps_has_no_frames():
    scenario = Scenario(
        model="nemotron-3-nano-30b-a3b", platform="xpu", tensor_parallel=4, rules="before-37467"
    )
    plan = resolve(load_model(scenario.model), settings_of(scenario))
    assert plan.grouping_error is not None
    assert plan.grouping_error.__traceback__ is None


def test_a_changed_table_of_backends_is_read_again():
    model, chosen = load_model(MODEL), Settings()
    before = resolve(model, chosen, trace=False)
    table = RULE_SETS[chosen.rules].backends
    toy = Backend("TOY", ("cuda",), (MultipleOf(16),), ranks=(Rank("cuda", 1),))
    table.add(toy.name, toy)
    try:
        assert resolve(model, chosen, trace=False).backend == toy.name
    finally:
        table.remove(toy.name)
    assert resolve(model, chosen, trace=False) == before


def test_only_what_differs_is_decided_again():
    model, chosen = load_model(MODEL), Settings()
    both = (chosen, replace(chosen, num_speculative_tokens=1))
    for one in both * 3:  # what a phase reads is known after the third plan
        resolve(model, one, trace=False)
    remembered = decided(model, chosen.rules)
    assert (min(remembered), max(remembered)) == (1, 2)
    for one in both:
        resolve(model, one, trace=False)
    assert decided(model, chosen.rules) == remembered


@pytest.mark.parametrize("rules", RULE_SETS)
def test_numbers_are_those_of_a_whole_plan_until_the_sizes_are_not_possible(rules):
    compared = 0
    for scenario in random_scenarios(60, 11, rules):
        model, chosen = load_model(scenario.model), settings_of(scenario)
        whole = outcome(model, chosen, untraced)
        if not isinstance(whole, Plan):
            continue
        compared += 1
        numbers = resolve_numbers(model, chosen, lambda plan, whole=whole: same_sizes(plan, whole))
        assert (numbers.cache, numbers.max_model_len) == (whole.cache, whole.max_model_len)
        assert same_sizes(numbers, whole)
        assert resolve_numbers(model, chosen, lambda _plan: False) is None
    assert compared


def same_sizes(one, other):
    return (one.block_size, one.padding_percent) == (other.block_size, other.padding_percent)


@pytest.mark.parametrize("rules", ["0.23", "0.33"])
def test_plans_of_a_scenario_are_remembered_for_plain_settings(rules):
    # as a panel resolves a scenario, and then sweeps from its settings
    name = "nemotron-3-nano-30b-a3b"
    scenario = Scenario(model=name, rules=rules, pipeline_parallel=13)
    model = load_model(name)
    plain = [settings_of(scenario, tensor_parallel=size) for size in (1, 2)]
    for chosen in (scenario, *plain):
        plan = resolve(model, chosen, trace=False)
        assert any(stage.own is not None for stage in plan.stages)
        assert plan.to_dict() == replace(decide_anew(model, chosen), steps=()).to_dict()


def test_models_that_differ_in_their_weights_alone_are_decided_apart():
    quantized = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    config = {**catalog_config("llama-3.1-8b"), "quantization_config": quantized}
    chosen = settings_of(Scenario(model="llama-3.1-8b", tensor_parallel=2))
    whole, cut = (
        resolve(read_model({**config, "intermediate_size": size}, "llama"), chosen, trace=False)
        for size in (14_336, 14_272)
    )
    assert whole.model == cut.model
    assert [len(plan.errors) for plan in (whole, cut)] == [0, 1]
