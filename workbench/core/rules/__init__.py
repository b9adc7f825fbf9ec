"""The rule sets, one module per version; importing this package registers them, oldest first."""

from workbench.core.rule_set import RULE_SETS, RuleSet
from workbench.core.rules.before_37467 import BEFORE_37467
from workbench.core.rules.v0_23 import V0_23
from workbench.core.rules.v0_33 import V0_33

for _rules in (BEFORE_37467, V0_23, V0_33):
    RULE_SETS.add(_rules.name, _rules)

__all__ = ["BEFORE_37467", "RULE_SETS", "V0_23", "V0_33", "RuleSet"]
