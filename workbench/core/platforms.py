"""Platforms: where the engine runs, and what that decides before any backend is queried."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from workbench.core.registry import Registry

if TYPE_CHECKING:
    from workbench.scenario.fields import Settings


@dataclass(frozen=True, slots=True)
class Platform:
    """One platform as vLLM 0.23 treats it.

    capabilities: compute capabilities to choose from ("9.0"), the first is the default; empty
    where the notion does not exist. float_dtypes: supported model dtypes, preferred first.
    checks_backend: whether a backend requested by name is tested at all.
    """

    name: str
    title: str
    capabilities: tuple[str, ...] = ()
    float_dtypes: tuple[str, ...] = ("bfloat16", "float16", "float32")
    checks_backend: bool = True

    @property
    def default_capability(self) -> str | None:
        """Return the capability assumed when none is picked."""
        return self.capabilities[0] if self.capabilities else None


CUDA_CAPABILITIES = ("9.0", "8.0", "8.6", "8.9", "10.0", "10.3", "11.0", "12.0", "12.1")

PLATFORMS: Registry[Platform] = Registry("platform", "platform")
for _platform in (
    Platform("cuda", "NVIDIA CUDA", capabilities=CUDA_CAPABILITIES),
    Platform("rocm", "AMD ROCm (gfx942)"),
    Platform("xpu", "Intel XPU", checks_backend=False),
    Platform("cpu", "CPU", checks_backend=False),
):
    PLATFORMS.add(_platform.name, _platform)


@lru_cache(maxsize=64)
def parse_capability(capability: str) -> tuple[int, int]:
    """Return the pair (9, 0) for "9.0"."""
    major, _, minor = capability.partition(".")
    return int(major), int(minor or 0)


def capability_of(settings: Settings) -> tuple[int, int] | None:
    """Return the compute capability, (9, 0) for "9.0"; None on platforms that have none."""
    default = PLATFORMS[settings.platform].default_capability
    return None if default is None else parse_capability(settings.compute_capability or default)
