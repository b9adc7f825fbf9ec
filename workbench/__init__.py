"""Hybrid KV Workbench: which KV-cache block size an engine will choose, and why.

The public names are loaded on first use, so that `import workbench` stays cheap: it imports
neither torch, nor plotly, nor ipywidgets.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from workbench.core.errors import ConfigError, Refused, ScenarioError, WorkbenchError
    from workbench.exercise import check
    from workbench.models import catalog_names, load_model
    from workbench.plan import Plan, remedies_of_refusal, resolve
    from workbench.run.notebooks import write_results
    from workbench.scenario import Scenario
    from workbench.ui import explore
    from workbench.views import figures

_HOME = {
    "ConfigError": "workbench.core.errors",
    "Refused": "workbench.core.errors",
    "ScenarioError": "workbench.core.errors",
    "WorkbenchError": "workbench.core.errors",
    "catalog_names": "workbench.models",
    "load_model": "workbench.models",
    "Plan": "workbench.plan",
    "remedies_of_refusal": "workbench.plan",
    "resolve": "workbench.plan",
    "Scenario": "workbench.scenario",
    "check": "workbench.exercise",
    "write_results": "workbench.run.notebooks",
    "explore": "workbench.ui",
}
_MODULES = {"figures": "workbench.views.figures"}
__all__ = [
    "ConfigError",
    "Plan",
    "Refused",
    "Scenario",
    "ScenarioError",
    "WorkbenchError",
    "__version__",
    "catalog_names",
    "check",
    "explore",
    "figures",
    "load_model",
    "remedies_of_refusal",
    "resolve",
    "write_results",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value = import_module(_MODULES[name])
    elif name in _HOME:
        value = getattr(import_module(_HOME[name]), name)
    else:
        raise AttributeError(f"module 'workbench' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "core", "models"]
