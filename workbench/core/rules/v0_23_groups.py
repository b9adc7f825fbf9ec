"""How vLLM 0.23 groups layers: one tensor per slot, equal pages or none."""

from __future__ import annotations

from workbench.core.groups.rules import GroupRules

GROUPS = GroupRules(version="0.23")
