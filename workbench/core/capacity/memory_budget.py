"""What is left of a device's memory for the KV cache (0.23).

Source: `request_memory` and `Worker.determine_available_memory`. vLLM measures weights, activations
and the graph reserve while it starts; here they are given.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING

from workbench.core.capacity.memory_doubts import Doubt
from workbench.core.devices import device_memory_of, platform_of

if TYPE_CHECKING:
    from workbench.scenario.fields import Settings


DEFAULT_GPU_MEMORY_UTILIZATION = 0.92
"""The share of a device that vLLM takes: the default of its `CacheConfig` in 0.23."""
NEEDED = ("device_memory_bytes", "weights_bytes")
"""Fields without which there is no budget; the others count as 0 while they are not given."""


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """Bytes of one rank's device."""

    device_bytes: int
    utilization: float
    weights_bytes: int
    activation_bytes: int
    """Their peak; explicit ones include non-torch allocations."""
    cuda_graph_bytes: int
    other_bytes: int = 0
    """Non-torch allocations, where they are estimated."""
    doubts: tuple[Doubt, ...] | None = None
    """Why an estimate may be off, the largest first; None: every part is explicit."""

    @property
    def margin_bytes(self) -> int | None:
        """Return what an estimate may be off by, in either direction; None where it is none."""
        return None if self.doubts is None else sum(one.size_bytes for one in self.doubts)

    @property
    def requested_bytes(self) -> int:
        """Return the share of the device that vLLM takes: its memory times utilisation."""
        # Rounded up as `request_memory` does; a floor would be a byte off, and sometimes a block.
        return ceil(self.device_bytes * self.utilization)

    @property
    def available_bytes(self) -> int:
        """Return what is left for the cache; negative when the rest alone does not fit."""
        # vLLM subtracts its estimate of the graphs too, since they are captured after the cache
        # exists (VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS, on by default).
        taken = self.weights_bytes + self.activation_bytes + self.cuda_graph_bytes
        return self.requested_bytes - taken - self.other_bytes

    @property
    def range(self) -> tuple[int, int]:
        """Return the least and the most that may be left for the cache."""
        margin = self.margin_bytes or 0
        return self.available_bytes - margin, self.available_bytes + margin

    def utilization_for(self, cache_bytes: int) -> float | None:
        """Return the least utilisation, in hundredths, that leaves `cache_bytes`; None above 1."""
        wanted = self.requested_bytes - self.available_bytes + cache_bytes
        hundredths = ceil(100 * wanted / self.device_bytes)
        return hundredths / 100 if 0 < hundredths <= 100 else None


def explicit_bytes(settings: Settings) -> tuple[int, ...]:
    """Return explicit bytes of the ranks, one entry for all; empty where vLLM measures them."""
    if settings.kv_cache_memory_bytes_by_rank:
        return settings.kv_cache_memory_bytes_by_rank
    given = settings.kv_cache_memory_bytes
    # The workers of GPUs take 0 for not set, that of CPUs takes it as it is
    # (determine_available_memory of gpu_worker.py and cpu_worker.py, 0.23 and 0.33).
    if given or (given is not None and platform_of(settings) == "cpu"):
        return (given,)
    return ()


def memory_budget(settings: Settings) -> MemoryBudget | None:
    """Return the budget of a scenario; None while the device or the weights are unknown."""
    device = device_memory_of(settings)
    if not device or settings.weights_bytes is None:
        return None
    return MemoryBudget(
        device_bytes=device,
        utilization=settings.gpu_memory_utilization or DEFAULT_GPU_MEMORY_UTILIZATION,
        weights_bytes=settings.weights_bytes,
        activation_bytes=settings.activation_bytes or 0,
        cuda_graph_bytes=settings.cuda_graph_bytes or 0,
    )
