"""Random scenarios that fail, as the log that vLLM would print, and back again."""

from __future__ import annotations

from random import Random

import pytest

import workbench as wb
from workbench.core.capacity.memory_budget import explicit_bytes
from workbench.core.errors import ConfigError, Refused
from workbench.interop.exchange import explain_log
from workbench.interop.logs.written import ARGUMENTS, start_log
from workbench.scenario import FIELDS
from workbench.scenario.scenario import random_scenarios

COUNT = 150
SHARES = (None, None, 0, 0.001, 0.4, 0.97, 0.999, 1.001, 1.2)
"""Memory as a share of what one request of full length needs; None leaves it unknown."""
STATED = (
    *(field for field in ARGUMENTS if field != "kv_cache_memory_bytes"),
    "model",
    "num_speculative_tokens",
    "speculative_method",
    "platform",
)
DEFAULTS = wb.Scenario()
NOT_STATED = {
    name: field.default for name, field in FIELDS.items() if name not in {*STATED, "rules"}
}
"""Fields that no line of these starts states, and their defaults."""


def failing(rules, seed, count=COUNT):
    """Random scenarios, some with memory, that vLLM refuses or that have an error with words."""
    random = Random(seed)
    for first in random_scenarios(count, seed, rules):
        scenario = with_memory(first, random)
        plan, problem = outcome(scenario)
        if problem is not None:
            yield scenario, plan, problem


def with_memory(scenario, random):
    scenario = scenario.replace(
        max_num_seqs=random.choice((None, None, 16, 1024)),
        max_model_len=random.choice((scenario.max_model_len, scenario.max_model_len, -1)),
    )
    share = random.choice(SHARES)
    if share is None:
        return scenario
    try:
        cache = wb.resolve(scenario.replace(kv_cache_memory_bytes=2**49)).cache
    except Refused:
        return scenario
    if cache is None:
        return scenario
    memory = min(int((cache.needed_bytes + cache.held_back_bytes) * share), 2**42)
    if not memory:  # as an argument it would be none, except on a CPU
        return scenario.replace(kv_cache_memory_bytes_by_rank=(0,))
    return scenario.replace(kv_cache_memory_bytes=memory)


def outcome(scenario):
    """(plan, the error with which vLLM ends); (None, refusal) without a plan."""
    try:
        plan = wb.resolve(scenario)
    except Refused as refusal:
        return None, refusal if refusal.vllm_text else None
    except ConfigError:
        return None, None
    return plan, next((one for one in plan.errors if one.vllm_text), None)


def errors_of(scenario):
    try:
        return {problem.code for problem in wb.resolve(scenario).errors}
    except Refused as refusal:
        return {refusal.code}


def cut(text, width):
    """The text as a terminal cuts it, in the middle of words too."""
    lines = text.split("\n")
    return "\n".join(line[at : at + width] for line in lines for at in range(0, len(line), width))


def check_verdict(report, scenario, problem):
    """The scenario of the log gives its error, or the report says plainly that it does not."""
    failure = report.failure
    assert failure is not None
    assert "ValueError: " in failure.text or "Value error, " in failure.text
    found = wb.Scenario.from_dict(report.scenario)
    if failure.is_reproduced:
        assert failure.problem in errors_of(found)
        return
    assert failure.missing
    assert "do not find this problem" in failure.summary
    assert problem.code not in errors_of(scenario.replace(**NOT_STATED))


@pytest.mark.thorough
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(other, marks=pytest.mark.thorough) for other in (1, 2))]
)
@pytest.mark.parametrize("rules", ["0.23", "0.33"])
def test_the_scenario_of_a_log_has_its_facts_and_its_error(rules, seed):
    """Every field that the log states, and the fatal error, come back."""
    codes = set()
    for scenario, plan, problem in failing(rules, seed):
        report = explain_log(start_log(scenario, problem, plan))
        for field in STATED:
            if getattr(scenario, field) != getattr(DEFAULTS, field):
                assert report.scenario[field] == getattr(scenario, field), field
        if plan is not None and (memory := explicit_bytes(scenario)):
            (logged,) = explicit_bytes(wb.Scenario.from_dict(report.scenario))
            assert abs(logged - memory[0]) <= 2**30 // 100
        check_verdict(report, scenario, problem)
        codes.add(problem.code)
        wrapped = explain_log(cut(start_log(scenario, problem, plan), 120))
        assert wrapped.failure.problem == report.failure.problem
    assert len(codes) > 4


@pytest.mark.sampled(1)
@pytest.mark.parametrize("rules", ["0.23", "0.33"])
def test_a_log_without_its_arguments_still_gives_its_error_or_says_what_is_missing(rules):
    """Only the engine's config line and the lines after it, as many people paste them."""
    checked = 0
    for scenario, plan, problem in failing(rules, 7):
        if plan is None:
            continue
        report = explain_log(start_log(scenario, problem, plan, arguments=False))
        failure = report.failure
        assert failure is not None
        assert failure.is_reproduced or failure.missing
        for scene in report.scenes[:2]:
            wb.Scenario.from_dict(scene.fields)
        checked += 1
    assert checked > 20
