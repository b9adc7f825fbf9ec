"""Describe this environment: versions, device, Triton mode."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

PACKAGES = (
    "hybrid-kv-workbench",
    "torch",
    "triton",
    "numpy",
    "pydantic",
    "plotly",
    "anywidget",
    "ipywidgets",
    "jupyterlab",
    "ipykernel",
    "papermill",
    "vllm",
)


def package_versions() -> dict[str, str]:
    """Return package -> installed version, or "not installed"."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def environment_report() -> str:
    """Return Markdown for an issue: machine, packages, devices, and whether Triton works."""
    import psutil

    memory = psutil.virtual_memory().total / 2**30
    lines = [
        "| what | value |",
        "|---|---|",
        f"| Python | {platform.python_version()} on {platform.system()} {platform.machine()} |",
        f"| CPU | {psutil.cpu_count()} cores, {memory:.0f} GiB memory |",
        *_kernel_rows(),
        *(f"| {name} | {number} |" for name, number in package_versions().items()),
    ]
    return "\n".join(lines)


def _kernel_rows() -> tuple[str, ...]:
    """Return device, mode and self-test; a conflict with an earlier mode is reported."""
    from workbench.kernels.mode import TritonModeError, triton_mode
    from workbench.kernels.selftest import run_selftest

    try:
        mode = triton_mode()
    except TritonModeError as error:
        return (f"| Triton mode | undecided: {error} |",)
    test = run_selftest()
    return (
        f"| device | {mode.device or 'no GPU: everything but GPU timings works'} |",
        f"| Triton mode | {mode.mode}: {mode.reason} |",
        f"| Triton self-test | {'passed' if test.ok else 'FAILED'}: {test.detail} |",
    )
