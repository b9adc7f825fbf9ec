"""Decide where kernels run: on a GPU, in Triton's interpreter, or nowhere (only compiled).

The decision is made once per process. Triton reads `TRITON_INTERPRET` while it is imported, so the
decision has to come before that. Importing this module imports neither torch nor triton.
"""

import importlib
import os
import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any, Literal

INTERPRET_VARIABLE = "TRITON_INTERPRET"
COMPILE_VARIABLE = "WORKBENCH_COMPILE_ONLY"
"""Set to 1 in a process that compiles kernels for some target and launches none."""
Mode = Literal["gpu", "interpreter", "compiler", "unavailable"]

# the last three are names under which builds for one accelerator have been published
_TRITON_DISTRIBUTIONS = ("triton", "pytorch-triton", "pytorch-triton-rocm", "triton-rocm")


class TritonModeError(RuntimeError):
    """Triton cannot run in the mode that was decided, or cannot run at all."""


@dataclass(frozen=True, slots=True)
class TritonMode:
    """The decision, with what it rests on.

    `device` is the GPU's name, None unless `mode` is "gpu". A version is None where the
    package is not installed.
    """

    mode: Mode
    reason: str
    device: str | None
    triton_version: str | None
    torch_version: str | None

    @property
    def torch_device(self) -> str:
        """Return the device of a kernel's arguments: "cuda" (also ROCm's name) or "cpu"."""
        return "cuda" if self.mode == "gpu" else "cpu"


def on_device(device: Any) -> AbstractContextManager[object]:
    """Make a torch device current for launches: Triton launches on the current GPU.

    A kernel that runs on another GPU than its tensors' reads addresses that mean nothing there.
    """
    if device.type != "cuda":
        return nullcontext()
    guard: AbstractContextManager[object] = importlib.import_module("torch").cuda.device(device)
    return guard


def triton_mode() -> TritonMode:
    """Return the mode of this process, decided on the first call and kept.

    Without a usable GPU it sets TRITON_INTERPRET=1, which child processes inherit. A value that
    is already set is respected: a true one means the interpreter, a false one means a GPU or
    nothing. Does not import triton; imports torch, unless the value makes that unnecessary.

    Raises TritonModeError when triton was imported earlier in the other mode.

    >>> wb.triton_mode().mode in ("gpu", "interpreter", "unavailable")
    True
    """
    decided = _decide()
    _refuse_other_mode(decided)
    return decided


@cache
def _decide() -> TritonMode:
    triton_version = _installed_version("triton", _TRITON_DISTRIBUTIONS)
    torch_version = _installed_version("torch", ("torch",))

    def decision(mode: Mode, reason: str, device: str | None = None) -> TritonMode:
        return TritonMode(mode, reason, device, triton_version, torch_version)

    for name, found in (("triton", triton_version), ("torch", torch_version)):
        if found is None:
            return decision("unavailable", f"{name} is not installed")

    if os.environ.get(COMPILE_VARIABLE) == "1":
        os.environ.pop(INTERPRET_VARIABLE, None)
        return decision("compiler", f"{COMPILE_VARIABLE} is set")
    requested = _user_setting()
    if requested is True:
        return decision("interpreter", f"{INTERPRET_VARIABLE} is set")
    device, missing = _usable_gpu()
    if device is not None:
        return decision("gpu", f"torch can use {device}", device)
    if requested is False:
        return decision("unavailable", f"{INTERPRET_VARIABLE}=0 requires a GPU, but {missing}")
    os.environ[INTERPRET_VARIABLE] = "1"
    return decision("interpreter", missing)


def _installed_version(module: str, distributions: tuple[str, ...]) -> str | None:
    """Return a module's version, "unknown" without metadata; None if not installed."""
    if find_spec(module) is None:
        return None
    for distribution in distributions:
        try:
            return version(distribution)
        except PackageNotFoundError:
            continue
    return "unknown"


def _user_setting() -> bool | None:
    value = os.environ.get(INTERPRET_VARIABLE, "").strip().lower()
    return value in {"1", "true", "yes", "on", "y"} if value else None


def _usable_gpu() -> tuple[str | None, str]:
    """Return the name of the GPU that torch would use, or None and the reason."""
    try:
        cuda = importlib.import_module("torch").cuda
        if cuda.is_available():
            return cuda.get_device_name(), ""
    except (ImportError, OSError, RuntimeError) as error:
        return None, f"torch cannot be used: {error}"
    return None, "torch sees no usable GPU"


def _refuse_other_mode(decided: TritonMode) -> None:
    loaded = _loaded_mode()
    # a process that only compiles has triton as it is on a GPU
    wanted = "gpu" if decided.mode == "compiler" else decided.mode
    if loaded is None or wanted in {loaded, "unavailable"}:
        return
    raise TritonModeError(
        f"triton is already imported in {loaded} mode, but kernels must run in {decided.mode} "
        f"mode here ({decided.reason}). Restart the process and call triton_mode() before "
        f"anything imports triton, or start it with {INTERPRET_VARIABLE} set."
    )


def _loaded_mode() -> Mode | None:
    """Return the mode in which triton was imported; None if not imported or unknown."""
    standard = sys.modules.get("triton.language.standard")
    function = getattr(standard, "zeros", None)
    if function is None:
        return None
    # triton's own functions went through the same decorator as every kernel will
    return "interpreter" if type(function).__name__ == "InterpretedFunction" else "gpu"
