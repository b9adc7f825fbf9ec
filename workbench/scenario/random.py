"""Random scenarios of a rule set, identical for the same seed: the input of `workbench verify`."""

from __future__ import annotations

from random import Random
from typing import Any

from workbench.core.versions import RULE_SETS, RuleSet
from workbench.scenario.fields import FIELDS
from workbench.scenario.scenario import Scenario


def random_scenarios(count: int, seed: int, rules: str) -> tuple[Scenario, ...]:
    """Return `count` scenarios over the catalog, the platforms and the backends of `rules`.

    A backend is of the model's kind (MLA or not) and of the platform; the rest is free, so some
    scenarios are refused, which is an answer too.
    """
    random = Random(seed)  # noqa: S311  (a choice of examples, not of secrets)
    return tuple(_scenario(random, RULE_SETS[rules]) for _ in range(count))


def _scenario(random: Random, rules: RuleSet) -> Scenario:
    chosen: dict[str, Any] = {"rules": rules.name}
    for name, field in FIELDS.items():
        if values := field.example_values(chosen, rules):
            chosen[name] = random.choice(values)
    return Scenario(**chosen)
