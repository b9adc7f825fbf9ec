"""The machine, device or cluster that measures a kernel, and what a row records of it."""

import hashlib
import platform
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, Self

from workbench.kernels.bench.machine import device_name
from workbench.kernels.mode import triton_mode
from workbench.sweeps.kernels.lanes import Lane, process_lanes


@dataclass(frozen=True, slots=True)
class Place:
    """One machine or many of a kind, for `with` or with `close` at the end.

    device: what rows are filed under; target: the inspector's name of its architecture, None
    without a GPU that it knows; lanes: one point at a time each.
    """

    device: str
    target: str | None
    lanes: Sequence[Lane]
    disconnect: Callable[[], None] = lambda: None

    def close(self) -> None:
        """End what measures here, or leave the cluster."""
        for lane in self.lanes:
            lane.shutdown()
        self.disconnect()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


def here() -> Place:
    """Return this machine: one process for each GPU, or one without."""
    return Place(device_name(), target(), process_lanes())


def about_here() -> dict[str, Any]:
    """Return what must be known of a machine before its times are believed; runs on workers, too.

    device, target: as in `Place`; gpu: which one it is, None without; kernels: name -> hash.
    """
    from workbench.sweeps.kernels.kernel_session import KERNELS

    hashes = {name: kernel.hash_of() for name, kernel in KERNELS.items()}
    return {"device": device_name(), "target": target(), "gpu": gpu_hash(), "kernels": hashes}


def target() -> str | None:
    """Return the inspector's name of this GPU's architecture; None without one that it knows."""
    from workbench.kernels.inspection.targets import TARGETS

    if triton_mode().mode != "gpu":
        return None
    import torch

    if torch.version.hip is not None:
        name = torch.cuda.get_device_properties(0).gcnArchName.partition(":")[0]
    else:
        name = "sm_{}{}".format(*torch.cuda.get_device_capability())
    return name if name in TARGETS else None


def gpu_hash() -> str | None:
    """Return a hash of the GPU's own number, which stays private; None without a GPU."""
    if triton_mode().mode != "gpu":
        return None
    return hashlib.sha256(_gpu_uuid().encode()).hexdigest()[:12]


def _gpu_uuid() -> str:
    import torch

    return f"GPU-{torch.cuda.get_device_properties(0).uuid}"


def times(seconds: Sequence[float]) -> dict[str, Any]:
    """Return the fields of a row with a time, and this GPU's limits: see `Row`."""
    low, median, high = statistics.quantiles(seconds, n=4)
    spread = {"n": len(seconds), "median_s": median, "spread_s": high - low}
    return {**spread, "limits": dict(_limits())}


@cache
def _limits() -> dict[str, float]:
    """Return bytes per second of a copy and seconds of a launch, measured once per process."""
    from workbench.kernels.bench.gpu_clock import measured_limits

    return asdict(measured_limits())


def wrong(message: str, kernel_hash: str) -> dict[str, Any]:
    """Return the fields of the row of a wrong result, which has no time."""
    said = {"status": "wrong", "correct": False, "message": message}
    return {"provenance": provenance(kernel_hash), **said}


def provenance(kernel_hash: str) -> dict[str, Any]:
    """Return machine, device, driver, versions, mode, source hash, clocks and temperature."""
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
