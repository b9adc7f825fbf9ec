"""vLLM's platform classes with a device that is not there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .machine import Machine

CAPABILITIES = {"rocm": (9, 4)}
CUDA_RUNTIME = 13
"""Major version of CUDA in vLLM's own wheels; a torch for CPUs has none."""
A100 = (8, 0)
"""The compute capability whose device is named an A100: vLLM has other defaults for that name."""


def pinned(platform: Any, machine: Machine) -> Any:
    """Return a subclass of vLLM's platform class that knows its device without one."""
    from vllm.platforms.interface import DeviceCapability

    pair = machine.host.get("capability") or CAPABILITIES.get(machine.host["platform"])
    answers = {
        "get_device_capability": DeviceCapability(*pair) if pair else None,
        "get_device_name": _device_name(machine.host["platform"], pair),
        "get_device_uuid": "played",
    }
    if hasattr(platform, "get_cuda_runtime_major"):
        answers["get_cuda_runtime_major"] = CUDA_RUNTIME
    methods = {name: _answering(value) for name, value in answers.items()}
    # Each question sets its own device memory.
    methods["get_device_total_memory"] = lambda *_, **__: machine.device_memory_bytes
    return type("Pinned", (platform,), {name: classmethod(how) for name, how in methods.items()})


def _device_name(platform: str, capability: Sequence[int] | None) -> str:
    is_a100 = platform == "cuda" and capability is not None and tuple(capability) == A100
    return "played NVIDIA A100" if is_a100 else f"played {platform}"


def _answering(value: Any) -> Callable[..., Any]:
    """Return a method that answers `value`, for any device."""
    return lambda _class, *_, **__: value
