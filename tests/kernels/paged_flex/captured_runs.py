"""A graph of `run` for two layers, captured without a device; prints a JSON.

Started by `test_capture.py` in a process that only compiles. A CUDA graph keeps launches with their
addresses and nothing else: what torch does while it is captured is lost, and memory that is given
back afterwards is read all the same.
"""

import gc
import json
import sys
from typing import ClassVar

import torch
from triton.runtime import _allocation

from tests.kernels.paged_flex.planned_runs import SIZES, Operations
from workbench.kernels.inspection import TARGETS
from workbench.kernels.inspection.dry_driver import _Launcher, dry_launches
from workbench.kernels.language import triton
from workbench.kernels.paged_flex.api import plan_attention
from workbench.kernels.paged_flex.layout import lay_out, random_request

HEADS = {"heads": 8, "kv_heads": 2, "dim": 64, "dtype": torch.float16}


class Recording(_Launcher):
    """Keeps every launch as a graph does: what is started, and with which numbers."""

    graph: ClassVar[list] = []

    def __call__(self, x, y, z, stream, binary, *rest):
        super().__call__(x, y, z, stream, binary, *rest)
        arguments = flat(rest[4:])
        kinds = flat(self.source.signature.values())
        assert len(arguments) == len(kinds)
        addresses = [
            value.data_ptr() if hasattr(value, "data_ptr") else value
            for value, kind in zip(arguments, kinds, strict=True)
            if str(kind).startswith("*")
        ]
        numbers = [
            str(value)
            for value, kind in zip(arguments, kinds, strict=True)
            if not str(kind).startswith("*")
        ]
        if size := self.metadata.global_scratch_size:
            # the launcher asks for it at every launch, and a graph keeps where it was
            allocate = _allocation._allocator.get()
            scratch = allocate(x * y * z * size, self.metadata.global_scratch_align, stream)
            addresses.append(scratch.data_ptr())
        self.graph.append((binary.name, (x, y, z), addresses, numbers))


def flat(values):
    """Bundles count as what is in them."""
    return [
        one for value in values for one in (flat(value) if isinstance(value, tuple) else [value])
    ]


def captured(sizes):
    """Capture two layers, and compare with what a later run of the same layers launches."""
    paged = lay_out([random_request(*size, **HEADS) for size in sizes], 64)
    caches = [paged.kv_cache, paged.kv_cache.clone()]
    outs = [torch.empty_like(paged.query) for _ in caches]
    plan = plan_attention(paged.batch, paged.query, paged.kv_cache)

    def layers():
        for cache, out in zip(caches, outs, strict=True):
            plan.run(paged.query, cache, out)

    layers()
    Recording.graph = graph = []
    operations = Operations()
    with operations:
        layers()
    gc.collect()
    ours = [held for held in gc.get_objects() if type(held) is torch.Tensor]
    spans = [(t.untyped_storage().data_ptr(), t.untyped_storage().nbytes()) for t in ours]
    places = {address for _, _, addresses, _ in graph for address in addresses if address}
    dangling = [p for p in places if not any(first <= p < first + size for first, size in spans)]
    Recording.graph = again = []
    layers()
    return {
        "launches": len(graph),
        "operations": operations.count,
        "addresses": len(places),
        "dangling": len(dangling),
        "again": again == graph,
    }


def main():
    """Capture one request, and 50."""
    with dry_launches(TARGETS["sm_90"]):
        triton.runtime.driver.active.launcher_cls = Recording
        found = {
            f"{name} x {times}": captured(sizes * times)
            for name, sizes in SIZES.items()
            for times in (1, 50)
        }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
