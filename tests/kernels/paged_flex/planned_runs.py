"""What `run` of a plan does for a device, observed without one; prints a JSON.

Started by `test_plan.py` in a process that only compiles.
"""

import json
import sys

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from workbench.kernels.inspection import TARGETS
from workbench.kernels.inspection.dry_driver import dry_launches
from workbench.kernels.language import triton
from workbench.kernels.paged_flex.api import plan_attention
from workbench.kernels.paged_flex.layout import lay_out, random_request

SIZES = {"decodes": ((1100, 1),), "prefill": ((40, 40),), "both": ((1100, 1), (40, 40))}


class Operations(TorchDispatchMode):
    """Counts what torch computes, allocates or copies."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += 1
        return function(*args, **(kwargs or {}))


def observed(sizes, launches):
    """Plan, run for one layer, and count what the same does for a second one."""
    heads = {"heads": 8, "kv_heads": 2, "dim": 64, "dtype": torch.float16}
    requests = [random_request(*size, **heads) for size in sizes]
    paged = lay_out(requests, 64)
    plan = plan_attention(paged.batch, paged.query, paged.kv_cache)
    plan.run(paged.query, paged.kv_cache)
    first = [(one.binary.name, one.grid) for one in launches]
    other = paged.kv_cache.clone()
    launches.clear()
    calls, operations = 0, Operations()

    def count(_frame, event, _argument):
        nonlocal calls
        calls += event == "call"

    original = triton.JITFunction.run
    triton.JITFunction.run = None
    with operations:
        sys.setprofile(count)
        plan.run(paged.query, other)
        sys.setprofile(None)
    triton.JITFunction.run = original
    again = [(one.binary.name, one.grid) for one in launches]
    launches.clear()
    return {"first": first, "again": again, "operations": operations.count, "calls": calls}


def main():
    """Observe batches of one request and of 50."""
    with dry_launches(TARGETS["sm_90"]) as launches:
        found = {
            f"{name} x {times}": observed(sizes * times, launches)
            for name, sizes in SIZES.items()
            for times in (1, 50)
        }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
