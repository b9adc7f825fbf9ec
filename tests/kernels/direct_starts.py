"""What direct starts give to a driver, and what Triton's launcher is given; prints a JSON.

Started by `test_direct_launch.py` in a process that only compiles.
"""

import ctypes
import gc
import json
import struct
import sys
from dataclasses import replace

import torch

from tests.kernels.paged_flex.captured_runs import flat
from workbench.kernels.bench.inputs import step_input
from workbench.kernels.bench.peers import Manner, OurPeer
from workbench.kernels.bench.workloads import WORKLOADS
from workbench.kernels.direct_launch import Starter
from workbench.kernels.inspection import TARGETS
from workbench.kernels.inspection.dry_driver import _Launcher, dry_launches, parameter_bytes
from workbench.kernels.language import triton
from workbench.kernels.launching import Launch
from workbench.kernels.paged_flex.api import plan_attention
from workbench.kernels.paged_flex.layout import lay_out, random_request

HEADS = {"heads": 8, "kv_heads": 2, "dim": 64, "dtype": torch.float16}
SIZES = {"decode": ((1100, 1),), "prefill": ((40, 40),), "both": ((1100, 1), (40, 40))}
FORMS = {"i32": "<i", "i64": "<q", "fp32": "<f"}
STARTER = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, *[ctypes.c_uint] * 7, ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p,
)  # fmt: skip
launched, started = [], []


class Recording(_Launcher):
    """Keeps what Triton's launcher is given, as the bytes that it would give to the driver."""

    def __call__(self, x, y, z, stream, binary, *rest):
        super().__call__(x, y, z, stream, binary, *rest)
        pairs = zip(flat(rest[4:]), flat(self.source.signature.values()), strict=True)
        values = [bytes_of(value, kind) for value, kind in pairs if kind != "constexpr"]
        scratch = 0
        if size := self.metadata.global_scratch_size:
            from triton.runtime import _allocation

            allocate = _allocation._allocator.get()
            scratch = allocate(x * y * z * size, self.metadata.global_scratch_align, stream)
        values += [bytes_of(scratch, "*i8"), bytes_of(0, "*i8")]
        threads = self.metadata.num_warps * self.metadata.warp_size
        launched.append((id(binary), (x, y, z), threads, self.metadata.shared, values))


def bytes_of(value, kind):
    """A parameter's bytes, in hexadecimal."""
    address = value.data_ptr() if hasattr(value, "data_ptr") else value
    return struct.pack("<Q" if kind[0] == "*" else FORMS[kind], address or 0).hex()


def start(function, *rest):
    """Keep what a direct start gives to the driver."""
    x, y, z, threads, _y, _z, shared, _stream, parameters, _extra = rest
    binary = next(found for found in gc.get_objects() if id(found) == function)
    values = [
        ctypes.string_at(parameters[i], size).hex()
        for i, size in enumerate(parameter_bytes(binary))
    ]
    started.append((function, (x, y, z), threads, shared, values))
    return 0


def compared(work, starter):
    """Work through Triton's launcher, then directly, with the same tensors."""
    driver = triton.runtime.driver.active
    driver.starter = None
    work()
    launched.clear()
    work()
    expected = [*launched]
    for held in gc.get_objects():
        if isinstance(held, Launch):
            held._compiled.clear()
    driver.starter = starter
    work()
    launched.clear()
    started.clear()
    work()
    return {
        "launches": len(expected),
        "direct": len(started),
        "launched": len(launched),
        "equal": started == expected,
        "first": [expected[:1], started[:1]],
    }


def attention(requests, **extras):
    """Work of one layer."""
    cache = lay_out([random_request(*size, **HEADS) for size in requests], 64, poison=0.0)
    keys = cache.kv_cache
    if "key_scale" in extras:
        keys = keys.to(torch.int8)
    if extras.pop("lse", False):
        extras["lse"] = torch.empty(cache.query.shape[:2])
    out = torch.empty_like(cache.query)
    plan = plan_attention(cache.batch, cache.query, keys)
    return lambda: plan.run(cache.query, keys, out, **extras)


def tables(name):
    """A step of block tables."""
    peer = OurPeer(Manner("fast"), step_input(WORKLOADS[name], 0, "cpu"))
    peer.rewind()
    peer.step()
    return lambda: peer.launch("step")


def main():
    """Compare every case; then a starter that disagrees about a kernel's parameters."""
    callback = STARTER(start)
    address = ctypes.cast(callback, ctypes.c_void_p).value
    starter = Starter(address, parameter_bytes)
    sinks, scale = torch.zeros(8), torch.ones(2)
    found = {}
    with dry_launches(TARGETS["sm_90"]):
        triton.runtime.driver.active.launcher_cls = Recording
        works = {name: attention(requests) for name, requests in SIZES.items()}
        works["lse and sinks"] = attention(SIZES["both"], lse=True, sinks=sinks)
        works["scales"] = attention(SIZES["both"], key_scale=scale, value_scale=scale)
        works |= {name: tables(name) for name in ("W1", "W7")}
        for name, work in works.items():
            found[name] = compared(work, starter)
        one_less = replace(starter, sizes=lambda binary: parameter_bytes(binary)[:-1])
        found["another kernel"] = compared(works["decode"], one_less)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
