"""What every measurement records in addition to its numbers: device, versions, limits, source."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

NO_GPU = "no GPU: Triton's interpreter"


def device_name() -> str:
    """Return what rows are filed under: the GPU's name, or that there is none."""
    from workbench.kernels.mode import triton_mode

    return triton_mode().device or NO_GPU


def source_hash(files: Iterable[Path]) -> str:
    """Return twelve hex digits over names and contents: other code is another kernel."""
    digest = hashlib.sha256()
    for file in sorted(files, key=lambda path: path.name):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:12]


def limits() -> dict[str, float]:
    """Return this GPU's limits in this process: bytes per second of a copy, seconds of a launch."""
    return dict(_limits())


@cache
def _limits() -> tuple[tuple[str, float], ...]:
    from workbench.kernels.bench.gpu_clock import measured_limits

    found = measured_limits()
    return (("copy_bytes_per_s", found.copy_bytes_per_s), ("launch_s", found.launch_s))


def provenance(kernel_hash: str) -> dict[str, Any]:
    """Return machine, device, driver, versions, mode, source hash, clocks and temperature."""
    from workbench.kernels.mode import triton_mode

    decided = triton_mode()
    found = {
        "host": platform.node(),
        "mode": decided.mode,
        "device": decided.device,
        "torch": decided.torch_version,
        "triton": decided.triton_version,
        "python": platform.python_version(),
        "source": kernel_hash,
    }
    return {**found, **_of_the_gpu()} if decided.mode == "gpu" else found


def gpu_hash() -> str | None:
    """Return a hash of the GPU's own number, which stays private; None without a GPU."""
    from workbench.kernels.mode import triton_mode

    if triton_mode().mode != "gpu":
        return None
    return hashlib.sha256(_gpu_uuid().encode()).hexdigest()[:12]


def _gpu_uuid() -> str:
    import torch

    return f"GPU-{torch.cuda.get_device_properties(0).uuid}"


def _of_the_gpu() -> dict[str, Any]:
    """Return what NVIDIA's driver reports now; empty where it reports nothing."""
    try:
        import pynvml

        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByUUID(_gpu_uuid())
        return {
            "driver": pynvml.nvmlSystemGetDriverVersion(),
            "device_hash": gpu_hash(),
            "sm_clock_mhz": pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM),
            "temperature_c": pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU),
            "other_processes": _others(handle),
        }
    except Exception as error:  # noqa: BLE001 - without the driver the rest is still measured
        return {"driver": f"unknown: {type(error).__name__}"}


def _others(handle: Any) -> int | None:
    """Count the other processes on the GPU; None where the driver does not report them."""
    import pynvml

    try:
        return max(0, len(pynvml.nvmlDeviceGetComputeRunningProcesses(handle)) - 1)
    except pynvml.NVMLError:
        return None
