"""Platforms: where the engine runs, and what that decides before any backend is queried."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from workbench.core.devices import device_of, platform_of
from workbench.core.registry import Registry

if TYPE_CHECKING:
    from workbench.core.plan import Plan
    from workbench.scenario.fields import Settings


@dataclass(frozen=True, slots=True)
class Platform:
    """One platform as vLLM 0.23 treats it."""

    name: str
    title: str
    capabilities: tuple[str, ...] = ()
    """Compute capabilities to choose from ("9.0"), the first is the default; empty where the notion
    does not exist."""
    gfx: str = ""
    """Architecture of the device, unless one is named."""
    float_dtypes: tuple[str, ...] = ("bfloat16", "float16", "float32")
    """Supported model dtypes, preferred first."""
    checks_backend: bool = True
    """Whether a backend requested by name is tested at all."""

    @property
    def default_capability(self) -> str | None:
        """Return the capability assumed when none is picked."""
        return self.capabilities[0] if self.capabilities else None


CUDA_CAPABILITIES = ("9.0", "8.0", "8.6", "8.9", "10.0", "10.3", "11.0", "12.0", "12.1", "7.5")

PLATFORMS: Registry[Platform] = Registry("platform", "platform")
for _platform in (
    Platform(name="cuda", title="NVIDIA CUDA", capabilities=CUDA_CAPABILITIES),
    Platform(name="rocm", title="AMD ROCm", gfx="gfx942"),
    Platform(name="xpu", title="Intel XPU", checks_backend=False),
    Platform(name="cpu", title="CPU", checks_backend=False),
):
    PLATFORMS.add(_platform.name, _platform)


EVERYWHERE = tuple(PLATFORMS)
FP8_SINCE, HOPPER, SM10X = (8, 9), (9, 0), 10
"""Compute capabilities: the first that multiplies in fp8, Hopper's, and the major one of the larger
Blackwell chips."""


@lru_cache(maxsize=64)
def parse_capability(capability: str) -> tuple[int, int]:
    """Return the pair (9, 0) for "9.0"."""
    major, _, minor = capability.partition(".")
    return int(major), int(minor or 0)


def capability_of(settings: Settings) -> tuple[int, int] | None:
    """Return the compute capability, (9, 0) for "9.0"; None on platforms that have none."""
    default = PLATFORMS[platform_of(settings)].default_capability
    if default is None:
        return None
    device = device_of(settings)
    named = default if device is None else device.architecture
    return parse_capability(settings.compute_capability or named)


def is_sm10x(plan: Plan) -> bool:
    """Return whether the device is one of the larger Blackwell chips."""
    return plan.capability is not None and plan.capability[0] == SM10X


def gfx_of(settings: Settings) -> str:
    """Return the architecture of an AMD device, gfx942 unless one is named; "" elsewhere."""
    device = device_of(settings)
    if device is None:
        return PLATFORMS[settings.platform].gfx
    return device.architecture if device.platform == "rocm" else ""
