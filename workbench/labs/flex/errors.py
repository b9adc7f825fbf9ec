"""Clear messages for a kernel's own failures."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from workbench.core.errors import ScenarioError

if TYPE_CHECKING:
    from workbench.kernels.paged_flex.masks import Mask


@contextmanager
def kernel_errors_as_scenario_errors(doing: str, custom_mask: Mask | None = None) -> Iterator[None]:
    """Turn refusals of a kernel, and memory that runs out, into one ScenarioError.

    doing: the attempted work, for the message. custom_mask: a mask whose mask_mod is the caller's;
    its failures in the compiler or the interpreter are converted too. Other errors pass
    through. Memory that the failed launch held is released.
    """
    from triton.compiler.errors import CompilationError
    from triton.runtime.errors import InterpreterError, OutOfResources

    from workbench.kernels.paged_flex.errors import PagedFlexError
    from workbench.kernels.paged_flex.mods import mask_mod_error

    try:
        yield
    except PagedFlexError as error:
        raise ScenarioError("kernel_refuses", str(error), field=error.field) from error
    except (CompilationError, InterpreterError) as error:
        if custom_mask is None:
            raise
        raise ScenarioError(
            "mask_stops", str(mask_mod_error(custom_mask, error)), field="mask"
        ) from error
    except OutOfResources as error:
        raise ScenarioError(
            "out_of_shared_memory",
            f"{doing} does not fit into one program: it needs {error.required:,} of {error.name}, "
            f"and this device has {error.limit:,}. Use a smaller tile, for example 64 x 32.",
            field="tile",
        ) from error
    except (MemoryError, RuntimeError) as error:
        if not _is_memory(error):
            raise
        _give_back()
        first = str(error).strip().splitlines()
        raise ScenarioError(
            "out_of_memory",
            f"{doing} does not fit into the memory of this device. Take fewer or shorter requests. "
            f"The allocator says: {first[0][:300] if first else type(error).__name__}",
            field="batch",
        ) from error


def _is_memory(error: BaseException) -> bool:
    import torch

    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    # the allocator of the CPU has no exception type of its own
    return "can't allocate memory" in str(error)


def _give_back() -> None:
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
