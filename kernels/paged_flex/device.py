"""What the launcher has to know of a device: the real one, or a target that is compiled for."""

from dataclasses import replace

import torch

from workbench.kernels.mode import triton_mode
from workbench.kernels.paged_flex.fitting import Limits
from workbench.kernels.paged_flex.settings import Settings, shipped


def limits_of(device: torch.device) -> Limits | None:
    """Return what a tensor's CUDA device gives a program; None for AMD and the interpreter.

    A process that only compiles has its tensors on the CPU, and Triton's driver has the target.
    """
    if triton_mode().mode == "compiler":
        from workbench.kernels.language import triton

        driver = triton.runtime.driver.active
        target = driver.get_current_target()
        found = driver.utils.get_device_properties(driver.get_current_device())
        if target.backend != "cuda":
            return None
        return Limits(divmod(target.arch, 10), found["max_shared_mem"])
    if device.type != "cuda" or torch.version.hip is not None:
        return None
    properties = torch.cuda.get_device_properties(device)
    capability = (properties.major, properties.minor)
    return Limits(capability, properties.shared_memory_per_block_optin)


def default_settings(device: torch.device, *, bitwise: bool) -> Settings:
    """Return the shipped settings for a device; the interpreter's are those without wgmma."""
    limits = limits_of(device)
    settings = shipped(bitwise=bitwise, capability=limits.capability if limits else None)
    if device.type != "cuda":
        return settings
    processors = torch.cuda.get_device_properties(device).multi_processor_count
    return replace(settings, fill_programs=processors)
