"""A compiled kernel's start by the driver's own function, without Triton's launcher."""

import ctypes
import functools
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.kernels.c_module import c_module

SIZES = {"i1": 1, "u1": 1, "i8": 1, "u8": 1, "i16": 2, "u16": 2, "i32": 4, "u32": 4} | {
    "i64": 8, "u64": 8, "fp32": 4,
}  # fmt: skip
"""Bytes of a parameter other than a pointer, by Triton's name of its type."""
POINTER_BYTES = 8
SOURCE = Path(__file__).with_suffix(".c")
Start = Callable[..., None]


@dataclass(frozen=True, slots=True)
class Starter:
    """What starts kernels, and knows the bytes of each of their parameters."""

    address: int
    """Of a function like cuLaunchKernel."""
    sizes: Callable[[Any], list[int]]
    """Of a function, the bytes of each of its parameters."""


@functools.cache
def cuda_starter() -> Starter | None:
    """Return CUDA's; None without it, or before CUDA 12.4, whose driver cannot list parameters."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
        launch, parameter = cuda.cuLaunchKernel, cuda.cuFuncGetParamInfo
    except (OSError, AttributeError):
        return None

    def sizes(function: int) -> list[int]:
        offset, size, found = ctypes.c_size_t(), ctypes.c_size_t(), list[int]()
        handle, ends = ctypes.c_void_p(function), (ctypes.byref(offset), ctypes.byref(size))
        while not parameter(handle, ctypes.c_size_t(len(found)), *ends):
            found.append(size.value)
        return found

    return Starter(ctypes.cast(launch, ctypes.c_void_p).value or 0, sizes)


def direct_start(
    starter: Starter | None, made: Any, changing: Sequence[Any], rest: Sequence[Any], memory: int
) -> tuple[Start, object] | None:
    """Return (start, kernel): start(kernel, x, y, z, stream, addresses) launches what was made.

    made: Triton's compiled kernel. changing, rest: all of its arguments, with addresses in place
    of tensors; a start takes the first of them anew. memory: address of its descriptors, or 0.
    None for what only Triton's launcher starts: clusters, cooperative grids, other types, or
    parameters that are not those of the kernel in the driver.
    """
    module, metadata = c_module(SOURCE), made.metadata
    if starter is None or module is None or metadata.num_ctas != 1:
        return None
    if metadata.launch_cooperative_grid or metadata.launch_pdl or metadata.profile_scratch_size:
        return None
    types = list(_flat(made.src.signature.values()))
    first, values = list(_flat(changing)), list(_flat((changing, rest)))
    if len(types) != len(values):
        return None
    # what is known at compile time is omitted; the last two are Triton's own
    parameters = [pair for pair in zip(types, values, strict=True) if pair[0] != "constexpr"]
    parameters += [("*i8", memory), ("*i8", 0)]
    expected = [POINTER_BYTES if kind[0] == "*" else SIZES.get(kind) for kind, _ in parameters]
    if expected != starter.sizes(made.function):
        return None
    given = sum(value is not None for value in first)
    if any(kind[0] != "*" for kind, _ in parameters[:given]):
        return None
    packed = b"".join(_packed(kind, value) for kind, value in parameters)
    threads = metadata.num_warps * metadata.target.warp_size
    function = int(made.function)
    kernel = module.prepare(starter.address, function, threads, metadata.shared, packed, given)
    return module.start, kernel


def _flat(arguments: Any) -> Iterator[Any]:
    for argument in arguments:
        if isinstance(argument, tuple | list):
            yield from _flat(argument)
        else:
            yield argument


def _packed(kind: str, value: Any) -> bytes:
    """Return 8 bytes that begin with the parameter's."""
    if kind == "fp32":
        return struct.pack("<f4x", value)
    # of a smaller integer the driver reads the lower bytes
    return struct.pack("<Q", (value or 0) % 2**64)
