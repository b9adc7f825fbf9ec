"""Run the compiling process, and turn its output into reports."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from workbench.kernels.inspection.loops import Loop
from workbench.kernels.inspection.report import KernelReport
from workbench.kernels.inspection.targets import TARGETS
from workbench.kernels.mode import COMPILE_VARIABLE, INTERPRET_VARIABLE

TIME_LIMIT_S = 1800
INSPECTED_MODULES = {
    "block-table": ("workbench.kernels.block_table.calls",),
    "paged-flex": ("workbench.kernels.paged_flex.calls",),
}
"""Operation -> the modules with its kernels."""
PEER_MODULES = {"paged-flex": ("workbench.kernels.bench.vllm_attention_specs",)}
"""Operation -> modules with vLLM's kernels for it, of every vLLM that VLLM_SRC names."""
WORKER = "workbench.kernels.inspection.worker"


class InspectionError(RuntimeError):
    """The compiler failed, or the request names something unknown."""


def compiling_process(module: str, request: object) -> subprocess.CompletedProcess[str]:
    """Run a module that compiles for GPUs that are not here: JSON on stdin, its text on stdout."""
    # triton reads the variable while it is imported, so the child must not have it
    environment = {name: value for name, value in os.environ.items() if name != INTERPRET_VARIABLE}
    return subprocess.run(
        [sys.executable, "-m", module],
        input=json.dumps(request),
        env={**environment, COMPILE_VARIABLE: "1"},
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT_S,
        check=False,
    )


def inspect_kernels(
    module: str,
    targets: Sequence[str] = ("sm_90",),
    kernels: Sequence[str] = (),
    *,
    configs: Sequence[Mapping[str, Any]] = (),
) -> tuple[KernelReport, ...]:
    """Compile the kernels that `module` lists as INSPECTED, for every target; no GPU is needed.

    kernels: names to choose, none for all. configs: values of JSON; the kernels are then those that
    the module's `specs_of` returns for each. Errors: InspectionError with the compiler's message,
    for an unknown target with those there are.
    """
    for target in targets:
        if target not in TARGETS:
            near = get_close_matches(target, TARGETS, 1)
            hint = f" Nearest: {near[0]}." if near else ""
            raise InspectionError(
                f"no target {target[:80]!r}.{hint} Targets: {', '.join(TARGETS)}."
            )
    request = {
        "module": module,
        "targets": list(targets),
        "kernels": list(kernels),
        "configs": list(configs),
    }
    return tuple(_report(entry) for entry in _answer(request))


def inspected_names(module: str) -> tuple[str, ...]:
    """Return the names of the kernels that `module` lists; nothing is compiled."""
    return tuple(_answer({"module": module}))


def _answer(request: Mapping[str, Any]) -> Any:
    done = compiling_process(WORKER, request)
    if done.returncode:
        targets = f" for {', '.join(request['targets'])}" if "targets" in request else ""
        raise InspectionError(f"{request['module']} did not compile{targets}:\n{done.stderr}")
    return json.loads(done.stdout)


def _report(entry: dict[str, Any]) -> KernelReport:
    """Build a report from JSON, whose keys are never integers."""
    read: dict[str, Any] = {name: _numbers(entry[name]) for name in ("loads", "stores")}
    read["loops"] = tuple(Loop(**loop) for loop in entry["loops"])
    read["tile"] = entry["tile"] and tuple(entry["tile"])
    return KernelReport(**{**entry, **read})


def _numbers(found: object) -> dict[int, int]:
    assert isinstance(found, dict)
    return {int(size): count for size, count in found.items()}
