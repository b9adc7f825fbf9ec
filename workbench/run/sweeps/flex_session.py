"""A kernel sweep ready to start, for this machine: on its GPUs, or small in the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from workbench.run.store import ResultStore, Row
from workbench.run.sweeps.execute import Sweep
from workbench.run.sweeps.flex_kernels import (
    BUCKETS,
    MEASURE,
    SMALL_BUCKETS,
    Bucket,
    Candidates,
    candidates,
    keys,
)
from workbench.run.sweeps.flex_measure import device_name, kernel_hash
from workbench.run.sweeps.lanes import process_lanes

SMALL_MODEL = {"head_dim": 16, "group": 2, "dtype": "float32", "block_size": 16}
SMALL_AXES: Mapping[str, tuple[Any, ...]] = {
    "block_m": (16, 24, 32),
    "block_n": (16, 32),
    "num_warps": (4,),
    "decode_n": (16,),
    "split_tokens": (0, 32),
}
"""Without a GPU: a few configurations, one of them illegal, to see the flow."""


def flex_candidates(*, bitwise: bool = False) -> tuple[Candidates, tuple[Bucket, ...]]:
    """What is worth measuring here, and on which batches. May compile for a minute on a GPU."""
    target = _target()
    if target is None:
        found = candidates(SMALL_AXES, target=None, bitwise=bitwise, model=SMALL_MODEL)
        return found, SMALL_BUCKETS
    return candidates(target=target, bitwise=bitwise), BUCKETS


def flex_sweep(
    store: ResultStore,
    configs: Sequence[Mapping[str, Any]],
    buckets: Sequence[Bucket],
    *,
    rounds: int = 1,
    on_row: Callable[[Row], None] | None = None,
) -> Sweep:
    """The sweep over these configurations, one process for each GPU (one without)."""
    wanted = keys(configs, buckets, device_name(), kernel_hash(), rounds)
    return Sweep(store, wanted, MEASURE, process_lanes(), on_row=on_row)


def _target() -> str | None:
    """The inspector's name of this GPU's architecture; None without one that it knows."""
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
