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
    from workbench.exchange import explain_log, from_vllm_command, load_design, save_design
    from workbench.exercise import check, progress, reset_progress
    from workbench.models import catalog_names, load_model
    from workbench.plan import Plan, remedies_of_refusal, resolve
    from workbench.run.notebooks import write_results
    from workbench.scenario import Scenario
    from workbench.sweeping import sweep
    from workbench.ui import explore
    from workbench.versions import compare, compare_catalog, versions_of
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
    "sweep": "workbench.sweeping",
    "check": "workbench.exercise",
    "progress": "workbench.exercise",
    "reset_progress": "workbench.exercise",
    "write_results": "workbench.run.notebooks",
    "compare": "workbench.versions",
    "compare_catalog": "workbench.versions",
    "versions_of": "workbench.versions",
    "explain_log": "workbench.exchange",
    "from_vllm_command": "workbench.exchange",
    "load_design": "workbench.exchange",
    "save_design": "workbench.exchange",
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
    "compare",
    "compare_catalog",
    "explain_log",
    "explore",
    "figures",
    "from_vllm_command",
    "load_design",
    "load_model",
    "progress",
    "remedies_of_refusal",
    "reset_progress",
    "resolve",
    "save_design",
    "sweep",
    "versions_of",
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
