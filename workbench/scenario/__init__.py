"""Scenarios: the table of fields, the checked scenario, its schema, random ones."""

from workbench.scenario.engine_fields import DEFAULT_MODEL, MODEL
from workbench.scenario.field import Field
from workbench.scenario.fields import FIELDS, Settings
from workbench.scenario.scenario import Scenario

__all__ = ["DEFAULT_MODEL", "FIELDS", "MODEL", "Field", "Scenario", "Settings"]
