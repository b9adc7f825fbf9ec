"""Public comparison of rule sets, with notebook display."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import overload

from workbench.core.rules import RULE_SETS
from workbench.core.what_if.differences import Comparison as CoreComparison
from workbench.core.what_if.differences import Outcome, outcomes
from workbench.core.what_if.differences import compare as core_compare
from workbench.models import catalog_names, load_model
from workbench.plan import Plan
from workbench.scenario import Scenario


class Comparison(CoreComparison):
    """What an upgrade changes for one scenario; prints as text and as tables."""

    def __repr__(self) -> str:
        from workbench.views.differences import differences_text

        return differences_text(self)

    def _repr_html_(self) -> str:
        from workbench.views.differences import differences_html

        return differences_html(self)


class Upgrades(Sequence[Comparison]):
    """What an upgrade changes for many models, one row per model."""

    def __init__(self, comparisons: Sequence[Comparison]) -> None:
        self._comparisons = tuple(comparisons)

    @overload
    def __getitem__(self, index: int) -> Comparison: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Comparison, ...]: ...
    def __getitem__(self, index: int | slice) -> Comparison | tuple[Comparison, ...]:
        return self._comparisons[index]

    def __len__(self) -> int:
        return len(self._comparisons)

    def __repr__(self) -> str:
        from workbench.views.differences import matrix_text

        return matrix_text(self)

    def _repr_html_(self) -> str:
        from workbench.views.differences import matrix_html

        return matrix_html(self)


def compare(scenario: Scenario, old: str = "0.23", new: str = "0.33") -> Comparison:
    """Return what changes for `scenario` from the rule set `old` to `new`; ignores its own `rules`.

    A version that refuses the scenario is an outcome, not an error. Errors: ConfigError when the
    model cannot be read; ScenarioError for an unknown rule set.
    """
    found = core_compare(load_model(scenario.model), scenario, old, new, Plan)
    return Comparison(**{field.name: getattr(found, field.name) for field in fields(found)})


def compare_catalog(scenario: Scenario, old: str = "0.23", new: str = "0.33") -> Upgrades:
    """Compare the same settings for every model of the catalog."""
    models = catalog_names()
    return Upgrades([compare(scenario.replace(model=model), old, new) for model in models])


def versions_of(scenario: Scenario) -> tuple[Outcome, ...]:
    """Resolve the scenario under every rule set, for `figures.versions`."""
    return outcomes(load_model(scenario.model), scenario, tuple(RULE_SETS), Plan)
