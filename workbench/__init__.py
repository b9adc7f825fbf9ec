"""Hybrid KV Workbench: which KV-cache block size an engine will choose, and why.

    plan = wb.resolve(model="nemotron-3-nano-30b-a3b", tensor_parallel=4)
    plan.hits(), plan.offload(cpu_bytes_to_use="64 GiB"), plan.layout(num_blocks=3)
    wb.tables(plan, "2q700_3q1s3000").launch()

The public names are loaded on first use, so that `import workbench` stays cheap: it imports
neither torch, nor plotly, nor ipywidgets.
"""

from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from workbench import verify
    from workbench.core import adding
    from workbench.core.chunks.request import chunks
    from workbench.core.errors import ConfigError, Refused, ScenarioError, WorkbenchError
    from workbench.core.flex.picture import stale_picture
    from workbench.core.layouts.error import LayoutError
    from workbench.core.offload.pool import block_counts
    from workbench.core.plan import Plan
    from workbench.core.problems import Problem
    from workbench.core.sizes import parse_bytes
    from workbench.exercises.alignment import resolve_in_order
    from workbench.exercises.check import check, progress, reset_progress
    from workbench.exercises.kernels.view import memory_view
    from workbench.exercises.layouts import cache_shape
    from workbench.exercises.log_case import log_case
    from workbench.interop.exchange import (
        commands_of,
        explain_log,
        from_vllm_command,
        load_design,
        save_design,
        sweep_file,
    )
    from workbench.kernels.mode import triton_mode
    from workbench.labs.cache_views import check_ownership
    from workbench.labs.flex.session import FlexSession as flex
    from workbench.labs.tables.session import TableSession as tables
    from workbench.models import catalog_names, load_model
    from workbench.models.coverage import coverage
    from workbench.notebooks import write_results
    from workbench.scenario import Scenario
    from workbench.scenario.links import linked_scenario
    from workbench.scenario.resolution import remedies_of_refusal, resolve
    from workbench.scenario.versions import compare, compare_catalog, versions_of
    from workbench.sweeps.kernels.kernel_session import Measurement as measure
    from workbench.sweeps.sweep import sweep
    from workbench.ui import explore, lab
    from workbench.views import figures

_HOME = {
    "ConfigError": "workbench.core.errors:ConfigError",
    "LayoutError": "workbench.core.layouts.error:LayoutError",
    "Plan": "workbench.core.plan:Plan",
    "Problem": "workbench.core.problems:Problem",
    "Refused": "workbench.core.errors:Refused",
    "Scenario": "workbench.scenario:Scenario",
    "ScenarioError": "workbench.core.errors:ScenarioError",
    "WorkbenchError": "workbench.core.errors:WorkbenchError",
    "adding": "workbench.core.adding:",
    "block_counts": "workbench.core.offload.pool:block_counts",
    "cache_shape": "workbench.exercises.layouts:cache_shape",
    "catalog_names": "workbench.models:catalog_names",
    "check": "workbench.exercises.check:check",
    "chunks": "workbench.core.chunks.request:chunks",
    "check_ownership": "workbench.labs.cache_views:check_ownership",
    "commands_of": "workbench.interop.exchange:commands_of",
    "compare": "workbench.scenario.versions:compare",
    "compare_catalog": "workbench.scenario.versions:compare_catalog",
    "coverage": "workbench.models.coverage:coverage",
    "explain_log": "workbench.interop.exchange:explain_log",
    "explore": "workbench.ui:explore",
    "figures": "workbench.views.figures:",
    "flex": "workbench.labs.flex.session:FlexSession",
    "from_vllm_command": "workbench.interop.exchange:from_vllm_command",
    "lab": "workbench.ui:lab",
    "linked_scenario": "workbench.scenario.links:linked_scenario",
    "load_design": "workbench.interop.exchange:load_design",
    "load_model": "workbench.models:load_model",
    "memory_view": "workbench.exercises.kernels.view:memory_view",
    "log_case": "workbench.exercises.log_case:log_case",
    "measure": "workbench.sweeps.kernels.kernel_session:Measurement",
    "parse_bytes": "workbench.core.sizes:parse_bytes",
    "progress": "workbench.exercises.check:progress",
    "remedies_of_refusal": "workbench.scenario.resolution:remedies_of_refusal",
    "reset_progress": "workbench.exercises.check:reset_progress",
    "resolve": "workbench.scenario.resolution:resolve",
    "resolve_in_order": "workbench.exercises.alignment:resolve_in_order",
    "save_design": "workbench.interop.exchange:save_design",
    "stale_picture": "workbench.core.flex.picture:stale_picture",
    "sweep": "workbench.sweeps.sweep:sweep",
    "sweep_file": "workbench.interop.exchange:sweep_file",
    "tables": "workbench.labs.tables.session:TableSession",
    "triton_mode": "workbench.kernels.mode:triton_mode",
    "verify": "workbench.verify:",
    "versions_of": "workbench.scenario.versions:versions_of",
    "write_results": "workbench.notebooks:write_results",
}
"""Public name -> where it is, as `pkgutil.resolve_name` reads it."""

__all__ = ["__version__", *_HOME]  # noqa: PLE0604 - strings, made above


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'workbench' has no attribute {name!r}")
    try:
        value = resolve_name(_HOME[name])
    except ModuleNotFoundError as error:
        from workbench.extras import missing_package

        raise missing_package(error.name) or error from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "core", "models"]
