"""A kernel's launch that takes the way through Triton once, and then starts what was compiled.

Arguments are numbers, tensors or None, or tuples of them: a bundle is one argument of a kernel.
"""

from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import Any, NamedTuple

import torch

from workbench.kernels.direct_launch import Start, Starter, cuda_starter, direct_start
from workbench.kernels.language import triton
from workbench.kernels.mode import on_device, triton_mode

ALIGNMENT = 16
"""Triton compiles a kernel for addresses that are multiples of this, and another for the others."""
DRY_PROCESSORS = 132
"""Of an H100: for a process that only compiles."""


class Place(NamedTuple):
    """Where launches go: a device as Triton's driver names it, and the handle of a stream."""

    device: Any
    stream: int


def starter_of(driver: Any) -> Starter | None:
    """Return what starts kernels of Triton's driver directly: its own, or CUDA's."""
    if hasattr(driver, "starter"):
        return driver.starter
    return cuda_starter() if driver.get_current_target().backend == "cuda" else None


class Launch:
    """One launch of a kernel: its first arguments have tensors that change from call to call.

    fixed: the arguments after them; it keeps their tensors alive. options: compile-time parameters
    by name, num_warps and num_stages. describes: it builds descriptors, and needs memory for them.
    """

    def __init__(
        self,
        kernel: Any,
        grid: Sequence[int],
        fixed: Sequence[Any],
        options: dict[str, Any],
        device: torch.device,
        *,
        describes: bool = False,
    ) -> None:
        self.kernel, self.fixed, self.options = kernel, tuple(fixed), options
        self.device = device
        self._describes = describes
        self._memory: torch.Tensor | None = None
        self.grid = (*grid, 1, 1)[:3]
        self._compiled: dict[object, tuple[Start, object]] = {}

    def place(self) -> Place | None:
        """Return where it is started now; None before `first`, and where a profiler has hooks."""
        runtime = triton.knobs.runtime
        # hooks get what only Triton's own way prepares
        if not self._compiled or runtime.launch_enter_hook.calls or runtime.launch_exit_hook.calls:
            return None
        driver = triton.runtime.driver.active
        device = driver.get_current_device()
        return Place(device, driver.get_current_stream(device))

    def start(self, place: Place | None, addresses: Sequence[Any]) -> bool:
        """Start what `first` compiled for the device of the place; return whether there is such.

        place: see `place`. addresses: the changing arguments with an address in place of a tensor;
        None, and what is a multiple of ALIGNMENT, as in `first`.
        """
        if place is None or (found := self._compiled.get(place.device)) is None:
            return False
        begin, kernel = found
        begin(kernel, *self.grid, place.stream, addresses)
        return True

    def first(self, changing: Sequence[Any], *, remember: bool) -> None:
        """Start it through Triton, which compiles it; remember what it compiled for `start`."""
        with on_device(self.device):
            begin = self._with_memory if self._describes else _plainly
            made = begin(self.kernel[self.grid], *changing, *self.fixed, **self.options)
            # the interpreter compiles nothing
            if made is None or not remember:
                return
            driver = triton.runtime.driver.active
            device = driver.get_current_device()
            names = self.kernel.arg_names[len(changing) + len(self.fixed) :]
            # a launcher takes addresses as well as tensors, and reads them faster
            rest = [*_addresses(self.fixed), *[self.options[name] for name in names]]
            memory = 0 if self._memory is None else self._memory.data_ptr()
            direct = direct_start(
                starter_of(driver), made, _addresses(tuple(changing)), rest, memory
            )
            self._compiled[device] = direct or (self._through_launcher(made, rest), None)

    def _through_launcher(self, made: Any, rest: Sequence[Any]) -> Start:
        """Return a start by Triton's launcher, of the same arguments as a direct one."""

        def start(_kernel: None, x: int, y: int, z: int, stream: int, given: Sequence[Any]) -> None:
            launched = (x, y, z, stream, made.function, made.packed_metadata, None, None, None)
            begin = self._with_memory if self._describes else _plainly
            begin(made.run, *launched, *given, *rest)

        return start

    def _with_memory(self, launch: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        # a context of its own: the allocator of the caller stays as it was
        return copy_context().run(self._allocating, launch, *arguments, **options)

    def _allocating(self, launch: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        triton.set_allocator(self._allocate)
        return launch(*arguments, **options)

    def _allocate(self, size: int, _alignment: int, _stream: int | None) -> torch.Tensor:
        # the same for every launch: those of a plan come one after the other, as its scratch needs
        if self._memory is None or len(self._memory) < size:
            # what was compiled before starts with the address of what this replaces
            self._compiled.clear()
            # torch aligns to 512 bytes
            self._memory = torch.empty(size, dtype=torch.int8, device=self.device)
        return self._memory


def _addresses(argument: Any) -> Any:
    """Return an argument with addresses in place of its tensors."""
    if isinstance(argument, tuple):
        return tuple(map(_addresses, argument))
    return argument.data_ptr() if hasattr(argument, "data_ptr") else argument


def _plainly(launch: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    return launch(*arguments, **options)


def processors(device: torch.device) -> int:
    """Return the multiprocessors of a device; 1 in the interpreter."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).multi_processor_count)
    return DRY_PROCESSORS if triton_mode().mode == "compiler" else 1
