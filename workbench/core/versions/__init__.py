"""The rule sets, one package per release; importing this one registers them, oldest first."""

from typing import Final

from workbench.core.rule_set import RULE_SETS, RuleSet
from workbench.core.versions.before_37467 import BEFORE_37467
from workbench.core.versions.v0_23 import V0_23
from workbench.core.versions.v0_33 import V0_33

for _rules in (BEFORE_37467, V0_23, V0_33):
    RULE_SETS.add(_rules.name, _rules)

DEFAULT: Final = V0_23.name
"""The rules of a scenario that names none."""


def registered(name: str) -> RuleSet:
    """Return the rule set of this name. Errors: ScenarioError for another name."""
    return RULE_SETS[name]


__all__ = ["BEFORE_37467", "DEFAULT", "RULE_SETS", "V0_23", "V0_33", "RuleSet", "registered"]
