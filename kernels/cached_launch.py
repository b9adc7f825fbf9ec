"""Launch a kernel again without Triton's binder, which takes longer than the launch itself.

Triton binds, specialises and looks up every argument of every launch. Where a caller knows what a
kernel is specialised for, all that has to be done again is the launch.
"""

from collections.abc import Hashable, Mapping, Sequence
from importlib import import_module
from typing import Any

from workbench.kernels.language import triton
from workbench.kernels.mode import on_device, triton_mode

DRY_PROCESSORS = 132
"""Of an H100: for a process that only compiles."""


class CachedLaunch:
    """One kernel with fixed compile-time parameters, on one device.

    The kernel's compile-time parameters come last. constants: all of them, by name; options: what
    Triton takes besides, as num_warps.
    """

    def __init__(
        self,
        kernel: Any,
        constants: Mapping[str, Any],
        device: Any,
        options: Mapping[str, int] | None = None,
    ) -> None:
        self._kernel, self._device = kernel, device
        self._named = {**constants, **(options or {})}
        self._constants = tuple(constants[name] for name in kernel.arg_names if name in constants)
        self._ready: dict[Hashable, tuple[Any, Any, Any]] = {}
        self._is_interpreted = triton_mode().mode == "interpreter"

    def __call__(self, programs: int, key: Hashable, arguments: Sequence[Any]) -> None:
        """Launch on the current stream of the device.

        key: what Triton specialises the kernel for, as far as it differs between calls: types, and
        which addresses and numbers are multiples of 16. Equal keys run the same binary.
        """
        if self._is_interpreted:
            self._kernel[(programs,)](*arguments, **self._named)
            return
        driver = triton.runtime.driver.active
        current = driver.get_current_device()
        if self._device.type == "cuda" and self._device.index not in {None, current}:
            with on_device(self._device):
                self(programs, key, arguments)
            return
        ready = self._ready.get((current, key))
        if ready is None or _is_observed():
            compiled = self._kernel[(programs,)](*arguments, **self._named)
            self._ready[current, key] = compiled.run, compiled.function, compiled.packed_metadata
            return
        run, function, metadata = ready
        stream = driver.get_current_stream(current)
        run(
            programs, 1, 1, stream, function, metadata, None, None, None,
            *arguments, *self._constants,
        )  # fmt: skip


def _is_observed() -> bool:
    """Return whether a profiler listens to launches, which Triton's own way has to tell."""
    hook = triton.knobs.runtime.launch_enter_hook
    return bool(getattr(hook, "calls", hook))


def processors(device: Any) -> int:
    """Return the multiprocessors of a device; 1 in the interpreter."""
    if device.type == "cuda":
        return int(import_module("torch").cuda.get_device_properties(device).multi_processor_count)
    return DRY_PROCESSORS if triton_mode().mode == "compiler" else 1
