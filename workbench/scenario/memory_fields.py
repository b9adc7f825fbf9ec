"""The fields of the memory budget of one device; bytes are per rank."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.core.capacity.memory_budget import DEFAULT_GPU_MEMORY_UTILIZATION
from workbench.scenario.field import declare
from workbench.scenario.numbers import Bytes, Share
from workbench.scenario.sizes import SMALLEST_BARE

GIB = 2**30


@dataclass(frozen=True)
class MemoryFields:
    """What vLLM measures while it starts, given here."""

    device_memory_bytes: int | None = declare(
        None,
        Bytes(low=SMALLEST_BARE),
        "Device memory",
        "Memory of one device, for example 80 GiB",
        examples=(None, 24 * GIB, 80 * GIB, 192 * GIB),
    )
    gpu_memory_utilization: float | None = declare(
        None,
        Share(),
        "Utilisation",
        f"--gpu-memory-utilization, {DEFAULT_GPU_MEMORY_UTILIZATION} by default",
        flag="--gpu-memory-utilization",
    )
    weights_bytes: int | None = declare(
        None,
        Bytes(),
        "Weights",
        "Weights on one rank: about the safetensors divided by TP",
    )
    activation_bytes: int | None = declare(
        None,
        Bytes(),
        "Activations",
        "Peak activation memory per step, plus non-torch allocations",
    )
    cuda_graph_bytes: int | None = declare(
        None,
        Bytes(),
        "Graph reserve",
        "Memory that vLLM estimates for CUDA graphs",
    )
