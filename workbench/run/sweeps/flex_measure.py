"""Measure one configuration of the paged flex kernel: correct first, then bits, then the time.

On a GPU; in Triton's interpreter everything but the time, which it does not have.
"""

from __future__ import annotations

import hashlib
import platform
import statistics
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

KV_HEADS = 2


def measure(config: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a row. A wrong result has no time and says how wrong it is."""
    import torch

    from workbench.kernels.mode import triton_mode
    from workbench.kernels.paged_flex import masks
    from workbench.kernels.paged_flex.api import prepare
    from workbench.kernels.paged_flex.layout import lay_out, random_request
    from workbench.kernels.paged_flex.reference import agreement
    from workbench.run.sweeps.flex_kernels import settings_of

    decided = triton_mode()
    requests = [
        random_request(
            config["tokens"],
            config["queries"],
            heads=KV_HEADS * config["group"],
            kv_heads=KV_HEADS,
            dim=config["head_dim"],
            dtype=getattr(torch, config["dtype"]),
            seed=number,
        )
        for number in range(config["requests"])
    ]
    settings, mask = settings_of(config), masks.causal()
    paged = lay_out(requests, config["block_size"])
    ready = prepare(paged.query, paged.kv_cache, paged.batch, mask=mask, settings=settings)
    ready.out.fill_(float("nan"))
    result = ready.run()
    asked = paged.batch.num_tokens
    some = sorted({0, asked // 2, asked - 1})
    found = agreement(result, paged.query, paged.kv_cache, paged.batch, mask, tokens=some)
    told: dict[str, Any] = {"provenance": provenance(), "correct": found.ok}
    if not found.ok:
        how = f"error {found.max_error:.3g}, allowed {found.tolerance:.3g}"
        return {**told, "status": "wrong", "message": how}
    alone = lay_out(requests[:1], config["block_size"], seed=1)
    single = prepare(alone.query, alone.kv_cache, alone.batch, mask=mask, settings=settings).run()
    own = paged.tokens_of(0)
    words = torch.int32 if single.element_size() == 4 else torch.int16
    told["bitwise"] = bool(
        torch.equal(single[: config["queries"]].view(words), result[own].view(words))
    )
    told["values"] = {"max_error": found.max_error, "tolerance": found.tolerance}
    if decided.mode != "gpu":
        return told
    return {**told, **_timed(ready), "limits": dict(_limits())}


def _timed(ready: Any) -> dict[str, Any]:
    """Median and quartile distance of repeated runs, with a cold L2 before each."""
    from triton.testing import do_bench

    seconds = sorted(1e-3 * time for time in do_bench(ready.run, return_mode="all"))
    low, _, high = statistics.quantiles(seconds, n=4)
    return {"n": len(seconds), "median_s": statistics.median(seconds), "spread_s": high - low}


@cache
def _limits() -> tuple[tuple[str, float], ...]:
    from workbench.kernels.bench.gpu_clock import measured_limits

    found = measured_limits()
    return (("copy_bytes_per_s", found.copy_bytes_per_s), ("launch_s", found.launch_s))


@cache
def kernel_hash() -> str:
    """Of the kernel's own files: other code is another kernel."""
    from workbench.kernels import paged_flex

    digest = hashlib.sha256()
    for file in sorted(Path(paged_flex.__file__).parent.glob("*.py")):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:12]


def device_name() -> str:
    """What rows are filed under: the GPU's name, or that there is none."""
    from workbench.kernels.mode import triton_mode

    return triton_mode().device or "no GPU: Triton's interpreter"


def provenance() -> dict[str, Any]:
    """Device, driver, versions, mode, source hash, clocks and temperature."""
    from workbench.kernels.mode import triton_mode

    decided = triton_mode()
    told = {
        "mode": decided.mode,
        "device": decided.device,
        "torch": decided.torch_version,
        "triton": decided.triton_version,
        "python": platform.python_version(),
        "source": kernel_hash(),
    }
    return {**told, **_of_the_gpu()} if decided.mode == "gpu" else told


def _of_the_gpu() -> dict[str, Any]:
    """What NVIDIA's driver says now; empty where it says nothing."""
    try:
        import pynvml
        import torch

        pynvml.nvmlInit()
        uuid = f"GPU-{torch.cuda.get_device_properties(0).uuid}"
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        return {
            "driver": pynvml.nvmlSystemGetDriverVersion(),
            "device_hash": hashlib.sha256(uuid.encode()).hexdigest()[:12],
            "sm_clock_mhz": pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM),
            "temperature_c": pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU),
        }
    except Exception as error:  # noqa: BLE001 - the driver's absence is no reason not to measure
        return {"driver": f"unknown: {type(error).__name__}"}
