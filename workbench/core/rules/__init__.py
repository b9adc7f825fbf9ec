"""The rule sets, one module per version; importing this package registers them."""

from workbench.core.rule_set import RULE_SETS, RuleSet
from workbench.core.rules.before_37467 import BEFORE_37467
from workbench.core.rules.v0_23 import V0_23
from workbench.core.rules.v0_33 import V0_33

__all__ = ["BEFORE_37467", "RULE_SETS", "V0_23", "V0_33", "RuleSet"]
