"""Resolve a scenario: read its model, and ask the rules what vLLM decides."""

from typing import Any

from workbench.core import resolve as rules
from workbench.core.errors import Refused, check_kind
from workbench.core.plan import Plan
from workbench.core.remedies import Remedy, remedies_for_refusal
from workbench.models import load_scenario_model
from workbench.scenario.start import Start, scenario_from


def resolve(scenario: Start = None, **fields: Any) -> Plan:
    """Return what vLLM decides for a scenario: block sizes, pages, kernel block, trace, problems.

    scenario: also a plan, whose scenario it is, or a model alone. fields: of the scenario, for
    example `resolve("qwen3.5-4b", tensor_parallel=2)`; they win over those of `scenario`. Errors:
    ScenarioError for a field that is invalid; ConfigError when the model cannot be read; Refused
    when vLLM refuses the configuration before any size exists. Later failures are values in
    `plan.problems`.

    >>> wb.resolve(model="qwen3.5-4b", tensor_parallel=2).block_size
    528
    """
    scenario = scenario_from(scenario, **fields)
    return rules.resolve(load_scenario_model(scenario), scenario)


def remedies_of_refusal(scenario: Start, refusal: Refused) -> tuple[Remedy, ...]:
    """Return tried changes of a refused scenario that lift the refusal, best first.

    scenario: as `wb.resolve` takes it. Errors: ScenarioError for what is not a refusal.

    >>> scenario = wb.Scenario(model="bamba-9b", tensor_parallel=3)
    >>> try:
    ...     wb.resolve(scenario)
    ... except wb.Refused as refusal:
    ...     wb.remedies_of_refusal(scenario, refusal)[0].changes
    {'tensor_parallel': 4}
    """
    scenario = scenario_from(scenario)
    expected = "a wb.Refused, as wb.resolve raises it"
    check_kind("wb.remedies_of_refusal", refusal, Refused, expected)
    return remedies_for_refusal(load_scenario_model(scenario), scenario, refusal)
