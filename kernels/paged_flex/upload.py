"""Tables of a batch, brought to a device in one copy."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

STEP = 16
"""Words between the starts of two tables, 64 bytes: what Triton compiles wide accesses for."""
_WORDS = {torch.int32: np.int32, torch.float32: np.float32}


def uploaded(
    tables: Mapping[str, tuple[Any, torch.dtype]], device: torch.device
) -> dict[str, torch.Tensor]:
    """Return name -> table on the device, with contiguous rows.

    tables: name -> array, tensor, or None for what no kernel reads, and int32 or float32. A tensor
    on the device stays there. All others come in one copy: to a GPU from pinned memory, without
    waiting for it.
    """
    found, packed = dict[str, torch.Tensor](), dict[str, np.ndarray]()
    for name, (table, dtype) in tables.items():
        if isinstance(table, torch.Tensor) and table.device == device:
            own = table.to(dtype)
            # a kernel steps from row to row by the stride, so rows may be apart
            found[name] = own if own.stride(-1) == 1 else own.contiguous()
        else:
            host = np.zeros((1, 1)) if table is None else np.asarray(_on_host(table))
            packed[name] = np.ascontiguousarray(host, dtype=_WORDS[dtype])
    starts = np.cumsum([0, *(-(-array.size // STEP) * STEP for array in packed.values())]).tolist()
    staged = torch.empty(starts[-1], dtype=torch.int32, pin_memory=device.type == "cuda")
    words = staged.numpy()
    for start, array in zip(starts, packed.values(), strict=False):
        words[start : start + array.size] = array.view(np.int32).ravel()
    # torch keeps pinned memory until the copy is done
    moved = staged.to(device, non_blocking=True)
    for start, (name, array) in zip(starts, packed.items(), strict=False):
        piece = moved[start : start + array.size].view(tables[name][1])
        found[name] = piece.view(array.shape)
    return found


def _on_host(table: Any) -> Any:
    return table.cpu() if isinstance(table, torch.Tensor) else table
