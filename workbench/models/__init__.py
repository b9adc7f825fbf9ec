"""Model descriptions from config.json: one reader per family, and the catalog."""

from workbench.models.catalog import catalog_config, catalog_names
from workbench.models.drafter import load_scenario_model
from workbench.models.load import load_model, repository
from workbench.models.read import read_model

__all__ = [
    "catalog_config",
    "catalog_names",
    "load_model",
    "load_scenario_model",
    "read_model",
    "repository",
]
