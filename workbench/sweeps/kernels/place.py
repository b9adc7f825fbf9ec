"""The machine, device or cluster on which a kernel is measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, Self

from workbench.sweeps.kernels.lanes import process_lanes
from workbench.sweeps.kernels.measuring import device_name, gpu_hash


@dataclass(frozen=True, slots=True)
class Place:
    """One machine or many of a kind, for `with` or with `close` at the end.

    device: what rows are filed under; target: the inspector's name of its architecture, None
    without a GPU that it knows; lanes: one point at a time each.
    """

    device: str
    target: str | None
    lanes: Sequence[Executor]
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
    from workbench.kernels.mode import triton_mode

    if triton_mode().mode != "gpu":
        return None
    import torch

    if torch.version.hip is not None:
        name = torch.cuda.get_device_properties(0).gcnArchName.partition(":")[0]
    else:
        name = "sm_{}{}".format(*torch.cuda.get_device_capability())
    return name if name in TARGETS else None
