"""Triton, imported only after its mode is decided.

A kernel file begins with `from workbench.kernels.language import tl, triton`.
Raises TritonModeError on import where Triton is unavailable, or was imported in the other mode.
"""

from workbench.kernels.mode import TritonModeError, triton_mode

_mode = triton_mode()
if _mode.mode == "unavailable":
    raise TritonModeError(f"Triton kernels cannot run here: {_mode.reason}")

import triton  # noqa: E402 - only now may triton be imported
import triton.language as tl  # noqa: E402

from workbench.kernels.interpreter import replace_once  # noqa: E402

if _mode.mode == "interpreter":
    replace_once()

__all__ = ["tl", "triton"]
