"""A driver for Triton that compiles and checks every launch, and starts none.

With it the public functions run their real way to a launch without a GPU: binder, specialisation,
compiler, limits of the target. Tensors are on the CPU, and what a kernel would write stays as it
was.
"""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from workbench.kernels.c_module import c_module
from workbench.kernels.direct_launch import SOURCE, Starter
from workbench.kernels.inspection.binary import cuda_resources
from workbench.kernels.inspection.targets import REGISTER_STEP, REGISTERS_PER_SM, Target
from workbench.kernels.language import triton

LARGEST_GRID = (2**31 - 1, 65_535, 65_535)
"""Programs per axis of a launch (CUDA C++ guide, technical specifications; AMD takes no less)."""
MOST_THREADS = 1_024
BINARY_LEVELS = ("cubin", "hsaco")


class DryLaunchError(RuntimeError):
    """A launch that a device of the target would refuse."""


@dataclass(eq=False, slots=True)
class Binary:
    """A compiled kernel, in every level of its code."""

    name: str
    code: bytes
    files: dict[str, Path] = field(default_factory=dict)
    """Suffix such as "ptx" -> the file that the compiler wrote."""

    def __getitem__(self, level: str) -> Any:
        """Return one level of its code, text, or bytes for "cubin"."""
        file = self.files[level]
        return file.read_bytes() if level in BINARY_LEVELS else file.read_text()

    def __int__(self) -> int:
        """Return a handle, as of a function of a driver."""
        return id(self)


def parameter_bytes(binary: Binary) -> list[int]:
    """Return the bytes of every parameter, as the compiler wrote them into the assembly text."""
    head = binary["ptx"].partition(".entry")[2].partition("{")[0]
    return [int(bits) // 8 for bits in re.findall(r"\.param \.[a-z](\d+)", head)]


@dataclass(frozen=True, slots=True)
class DryLaunch:
    """One launch that was checked and not started."""

    binary: Binary
    constants: dict[str, Any]
    """Compile-time parameter -> its value."""
    metadata: Any
    """Triton's: shared, num_warps, num_stages ..."""
    grid: tuple[int, int, int]


class _Utils:
    """What Triton wants to know of a device and of a binary."""

    def __init__(self, target: Target, *, limited: bool) -> None:
        self.target, self.limited = target, limited

    def get_device_properties(self, _device: str) -> dict[str, int]:
        """Return the limit that Triton compares with."""
        # Without a limit too large a tile compiles as well, and its figures can be shown.
        return {"max_shared_mem": self.target.shared_memory_bytes if self.limited else sys.maxsize}

    def load_binary(
        self, name: str, code: bytes, _shared: int, _device: str
    ) -> tuple[Binary, Binary, int, int, int]:
        """Return (module, function, registers, spilled bytes, threads that its registers allow).

        Without a module Triton would load a kernel again at every launch.
        """
        # Triton refuses a launch with more threads than registers allow, as the device would.
        registers, spilled, threads = 0, 0, MOST_THREADS
        if self.target.backend == "cuda" and self.limited:
            registers, spilled = cuda_resources(code)
            per_thread = -(-registers // REGISTER_STEP) * REGISTER_STEP
            threads = min(threads, REGISTERS_PER_SM // per_thread)
        binary = Binary(name, code)
        return binary, binary, registers, spilled, threads


class _Launcher:
    """Triton's launcher of one compiled kernel."""

    def __init__(self, source: Any, metadata: Any) -> None:
        self.source, self.metadata = source, metadata

    def __call__(self, x: int, y: int, z: int, stream: int, binary: Binary, *rest: Any) -> None:
        """Check the grid and the arguments, allocate scratch, and record the launch."""
        _packed, _launch, _enter, _exit, *arguments = rest
        driver = triton.runtime.driver.active
        assert isinstance(driver, DryDriver)
        names = list(self.source.signature)
        if len(arguments) != len(names):
            raise DryLaunchError(
                f"{binary.name} takes {len(names)} arguments, not {len(arguments)}"
            )
        for axis, programs, limit in zip("xyz", (x, y, z), LARGEST_GRID, strict=True):
            if not 0 <= programs <= limit:
                raise DryLaunchError(
                    f"{binary.name} is launched with {programs:,} programs along {axis}; allowed "
                    f"are 0 to {limit:,}"
                )
        size = getattr(self.metadata, "global_scratch_size", 0)
        if size and x * y * z:
            from triton.runtime import _allocation

            # as the real launcher does: without triton.set_allocator this raises
            allocate: Any = _allocation._allocator.get()  # noqa: SLF001 - triton has no other way
            allocate(x * y * z * size, self.metadata.global_scratch_align, stream)
        # a longer place is that of a field of a bundle
        known = self.source.constants.items()
        constants = {names[place[0]]: value for place, value in known if len(place) == 1}
        driver.launches.append(DryLaunch(binary, constants, self.metadata, (x, y, z)))


class _NoLauncher:
    """A launcher that does nothing, to time what comes before it."""

    def __init__(self, _source: Any, _metadata: Any) -> None:
        """Keep nothing."""

    def __call__(self, *_arguments: Any) -> None:
        """Do nothing."""


class DryDriver:
    """What Triton needs of a driver, for one target."""

    starter: Starter | None
    """Without one every launch goes through `launcher_cls`."""

    def __init__(self, target: Target, *, limited: bool, recorded: bool) -> None:
        self.target, self.utils = target, _Utils(target, limited=limited)
        self.launcher_cls = _Launcher if recorded else _NoLauncher
        module = None if recorded or target.backend != "cuda" else c_module(SOURCE)
        self.starter = Starter(module.NOTHING, parameter_bytes) if module else None
        self.launches: list[DryLaunch] = []

    def get_current_target(self) -> Any:
        """Return what the compiler compiles for."""
        from triton.backends.compiler import GPUTarget

        return GPUTarget(self.target.backend, self.target.arch, self.target.warp_size)

    def get_current_device(self) -> str:
        """Return a name for Triton, which keeps compiled kernels, and limits, per device."""
        return f"{self.target.name}, limited: {self.utils.limited}"

    def get_current_stream(self, _device: str) -> int:
        """Return the default stream."""
        return 0

    def get_active_torch_device(self) -> torch.device:
        """Return where tensors are."""
        return torch.device("cpu")


def _remember_files(_module: Binary, binary: Binary, _name: str, files: Any, _hash: str) -> None:
    binary.files = {Path(name).suffix[1:]: Path(path) for name, path in files.items()}


@contextmanager
def dry_launches(
    target: Target, *, limited: bool = True, recorded: bool = True
) -> Iterator[list[DryLaunch]]:
    """Launch dry for a target as long as the context is open; yield the growing list.

    limited: as of a `PublicCall`. recorded=False: launches are neither checked nor listed, so that
    time goes only into what comes before them.
    Needs a process that only compiles. A launch that the target would refuse raises
    DryLaunchError, or triton's OutOfResources or CompilationError.
    """
    driver = DryDriver(target, limited=limited, recorded=recorded)
    loaded = triton.knobs.runtime.kernel_load_end_hook
    triton.runtime.driver.set_active(driver)
    loaded.add(_remember_files)
    try:
        yield driver.launches
    finally:
        loaded.remove(_remember_files)
        # back to none: a process that only compiles has no other driver
        triton.runtime.driver.set_active(None)
