"""Compare the rule sets for a scenario, or for every model of the catalog."""

from workbench.core.versions import RULE_SETS
from workbench.core.what_if import differences
from workbench.core.what_if.differences import Comparison
from workbench.core.what_if.outcomes import Outcome
from workbench.core.what_if.upgrades import Upgrades
from workbench.models import catalog_names, load_scenario_model
from workbench.scenario.start import Start, scenario_from


def compare(scenario: Start, old: str | None = None, new: str | None = None) -> Comparison:
    """Return what changes for `scenario` from the rule set `old` to `new`; ignores its own `rules`.

    scenario: also a plan, or a model alone. Without names: from the release before the newest one
    to the newest; `new` alone is compared with the version before it. A version that refuses the
    scenario is an outcome, not an error. Errors: ConfigError when the model cannot be read;
    ScenarioError for an unknown rule set, and for the newest alone as `old`.

    >>> wb.compare(plan.scenario, "0.23", "0.33")
    nemotron-3-nano-30b-a3b: 0.23 -> 0.33 ...
    """
    scenario = scenario_from(scenario)
    return differences.compare(load_scenario_model(scenario), scenario, old, new)


def compare_catalog(scenario: Start, old: str | None = None, new: str | None = None) -> Upgrades:
    """Compare the same settings for every model of the catalog.

    >>> len(wb.compare_catalog(plan.scenario)) == len(wb.catalog_names())
    True
    """
    start = scenario_from(scenario)
    models = catalog_names()
    return Upgrades(compare(start.replace(model=model), old, new) for model in models)


def versions_of(scenario: Start) -> tuple[Outcome, ...]:
    """Resolve the scenario under every rule set, for `figures.versions`.

    >>> [outcome.rules for outcome in wb.versions_of(plan.scenario)]
    ['before-37467', '0.23', '0.33']
    """
    scenario = scenario_from(scenario)
    return differences.outcomes(load_scenario_model(scenario), scenario, tuple(RULE_SETS))
