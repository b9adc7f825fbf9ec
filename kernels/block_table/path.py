"""What `BlockTables` asks of a path, and where the tables' memory comes from."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
import torch

from workbench.kernels.block_table.batch import Batch
from workbench.kernels.block_table.errors import BlockTableError
from workbench.kernels.block_table.host import StagedWrites

SourceUnit = Literal["kernel blocks", "manager blocks"]

Allocate = Callable[[tuple[int, ...], torch.dtype], torch.Tensor]
"""(shape, dtype) -> a contiguous tensor on the tables' device, 16-byte aligned."""


def zeros_on(device: str | torch.device) -> Allocate:
    """Plain zeroed memory; tests put guarded memory full of garbage in its place."""

    def allocate(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        return torch.zeros(shape, dtype=dtype, device=device)

    return allocate


@dataclass(frozen=True, slots=True)
class DeviceBatch:
    """A batch whose tensors lie on the device already; its contents are trusted.

    idx_mapping [requests], query_start_loc [requests + 1]: int32; positions [at least num_tokens]:
    int64 or int32; as in `Batch`, contiguous. A token whose block its row does not have gets slot
    -1; a row outside of the table is not noticed.
    """

    idx_mapping: torch.Tensor
    query_start_loc: torch.Tensor
    positions: torch.Tensor
    num_tokens: int
    padded_requests: int

    @property
    def num_requests(self) -> int:
        """Requests, dummies included."""
        return len(self.idx_mapping)

    def check(self, device: torch.device, *, max_requests: int, max_tokens: int) -> None:
        """Refuse tensors of another type, place or size than the kernels expect."""
        wanted = {
            "idx_mapping": (self.idx_mapping, {torch.int32}, self.num_requests),
            "query_start_loc": (self.query_start_loc, {torch.int32}, self.num_requests + 1),
            "positions": (self.positions, {torch.int32, torch.int64}, self.num_tokens),
        }
        for field, (tensor, dtypes, entries) in wanted.items():
            fits = tensor.ndim == 1 and tensor.is_contiguous() and len(tensor) >= entries
            if not fits or tensor.dtype not in dtypes or tensor.device.type != device.type:
                raise BlockTableError(
                    f"{field} must be a contiguous tensor of at least {entries} entries on "
                    f"{device}, of {' or '.join(map(str, dtypes))}; got {tuple(tensor.shape)} "
                    f"{tensor.dtype} on {tensor.device}",
                    field=field,
                    given=tuple(tensor.shape),
                    limit=entries,
                )
        limits = {
            "padded_requests": (self.padded_requests, self.num_requests, max_requests),
            "num_tokens": (self.num_tokens, 0, max_tokens),
        }
        for field, (value, low, high) in limits.items():
            if not low <= value <= high:
                raise BlockTableError(
                    f"{field} must lie in {low}..{high}; got {value}",
                    field=field,
                    given=value,
                    limit=high,
                )


class TablePath(Protocol):
    """Device memory and launches. `upload_*` fills inputs, `launch_*` runs kernels on them."""

    source_holds: SourceUnit
    sources: tuple[torch.Tensor, ...]
    """Per group [request, block], int32, in units of `source_holds`."""
    tables: tuple[torch.Tensor, ...]
    """Per group [batch row, kernel_block] -> physical kernel block, int32."""
    slots: torch.Tensor
    """[group, token] -> slot, int64."""
    counts: torch.Tensor
    """[group, request] live blocks, int32, in units of `source_holds`."""

    def upload_writes(self, writes: StagedWrites) -> None:
        """Bring what is staged to the device."""

    def launch_apply(self) -> None:
        """Write it into the source tables and publish the counts."""

    def upload_batch(self, batch: Batch | DeviceBatch) -> None:
        """Bring one step's batch to the device, or note where it lies there."""

    def launch_gather(self) -> None:
        """Fill the gathered tables."""

    def launch_slots(self) -> None:
        """Fill the slot mapping."""

    def launch_gather_and_slots(self) -> None:
        """Both."""

    def manager_row(self, group: int, request: int) -> np.ndarray:
        """One source row as manager blocks, [max_blocks]; waits for the device."""
