"""The device that a scenario names: what vLLM asks it for, and where the answers are from."""

from workbench.core.trace import Rule
from workbench.core.working_plan import WorkingPlan

DEVICE = Rule(
    "device",
    "Device",
    "platform, compute capability or gfx and memory of the named device; an explicit memory wins",
)


def device(run: WorkingPlan) -> None:
    """Record the named device."""
    named = run.device
    if named is None:
        return
    run.step(
        DEVICE,
        named.title,
        _note(run),
        platform=named.platform,
        architecture=named.architecture or None,
        driver_bytes=named.driver_bytes,
        torch_bytes=named.torch_bytes,
        device_memory_bytes=run.device_memory_bytes,
        source=named.source,
    )


def _note(run: WorkingPlan) -> str:
    """Return what the memory is."""
    assert run.device is not None
    if run.settings.device_memory_bytes is not None:
        return "the explicit device_memory_bytes is used, not the memory of this device"
    if run.device.is_nominal:
        return "nominal: the advertised capacity, since no report of the driver was found"
    if run.device.torch_bytes is not None:
        return "vLLM takes its share of what torch reports, which depends on the driver's version"
    return "torch reports somewhat less than the driver, depending on its version"
