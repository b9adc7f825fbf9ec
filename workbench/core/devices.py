"""Devices by the names that people use: where they run, what they can, what memory they report."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from workbench.core.arithmetic import GIB, MIB
from workbench.core.package_data import package_data

if TYPE_CHECKING:
    from workbench.scenario.fields import Settings

SET_BY_DEVICE = ("compute_capability", "device_memory_bytes")
"""Fields that may be finer than a device says: they go where another one is named."""
NOT_NAMES = frozenset({"amd", "geforce", "graphics", "instinct", "intel", "nvidia", "r", "tm"})
"""Words of a driver's name that people omit."""


@dataclass(frozen=True, slots=True, eq=False)
class Device:
    """One device, an entry of devices.json."""

    name: str
    title: str
    """As the driver reports it: vLLM looks for words in it."""
    platform: str
    architecture: str
    """Compute capability on CUDA ("9.0"), gfx number on ROCm, empty elsewhere."""
    driver_bytes: int | None
    """Total that the driver reports (nvidia-smi, rocm-smi); None if it does not report any."""
    torch_bytes: int | None
    """Total that torch reports, without what the driver keeps; None if no report was found."""
    is_nominal: bool
    """No report of the driver was found: `driver_bytes` is the capacity that is advertised."""
    is_unified: bool
    """Its memory is the host's (`is_integrated_gpu`)."""
    source: str

    def __reduce__(self) -> tuple[Callable[[str], Device | None], tuple[str]]:
        """Return how another process finds the same device: by its name."""
        return device_named, (self.name,)

    @property
    def memory_bytes(self) -> int:
        """Return the total that vLLM takes its share of: torch's, else the driver's."""
        return self.torch_bytes or self.driver_bytes or 0


def _entries() -> Mapping[str, Mapping[str, Any]]:
    found: dict[str, dict[str, Any]] = package_data("workbench.core", "devices.json")
    return found


def _device(name: str, entry: Mapping[str, Any]) -> Device:
    mib = entry["driver_mib"]
    return Device(
        name=name,
        title=entry["title"],
        platform=entry["platform"],
        architecture=entry["architecture"],
        driver_bytes=None if mib is None else mib * MIB,
        torch_bytes=entry.get("torch_bytes"),
        is_nominal=entry.get("nominal", False),
        is_unified=entry.get("unified", False),
        source=entry["source"],
    )


def _key(text: str) -> str:
    """Return a name without case, punctuation and the words that people omit."""
    words = re.findall(r"[a-z0-9]+", re.sub(r"\b(\d+)g\b", r"\1gb", text.casefold()))
    return "".join(word for word in words if word not in NOT_NAMES)


def _names() -> Iterator[tuple[str, str]]:
    """Yield every form of a device's name, and the name."""
    for name, entry in _ENTRIES.items():
        yield from ((_key(other), name) for other in (name, entry["title"], *entry["aliases"]))


_ENTRIES = _entries()
DEVICES: Mapping[str, Device] = MappingProxyType(
    {name: _device(name, entry) for name, entry in _ENTRIES.items()}
)
"""Name -> device; data centers first, newest first."""
NAMES: Mapping[str, str] = MappingProxyType(dict(_names()))
"""Every form of a name, without case and punctuation -> name."""


def device_named(text: object) -> Device | None:
    """Return the device of this name, in any of its forms; None if there is none."""
    return DEVICES.get(NAMES.get(_key(text), "")) if isinstance(text, str) else None


def devices_with(gigabytes: int) -> tuple[str, ...]:
    """Return the devices that are sold with so much memory: drivers report a little less."""
    least, most = (0.92 * gigabytes * 10**9, 1.04 * gigabytes * GIB)
    return tuple(name for name, one in DEVICES.items() if least <= one.memory_bytes <= most)


def device_of(settings: Settings) -> Device | None:
    """Return the device of a scenario, None where it names none."""
    name = settings.device
    return None if name is None else DEVICES[name]


def platform_of(settings: Settings) -> str:
    """Return the name of the platform: the device's, if one is given."""
    device = device_of(settings)
    return settings.platform if device is None else device.platform


def driver_memory_of(settings: Settings) -> int | None:
    """Return the bytes by which vLLM picks its defaults: the driver's total; None: not known."""
    device, explicit = device_of(settings), settings.device_memory_bytes
    if device is not None and device.driver_bytes is None:
        return 0  # 0.23 takes no answer for no memory; 0.33 keeps such devices in the last tier
    return device.driver_bytes if explicit is None and device is not None else explicit


def device_memory_of(settings: Settings) -> int | None:
    """Return the bytes of one device: the explicit ones, else those of the device by name."""
    explicit = settings.device_memory_bytes
    device = device_of(settings)
    return device.memory_bytes if explicit is None and device is not None else explicit
