"""The interface of a path of `BlockTables`, and where the tables' memory comes from."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch

from workbench.kernels.block_table.batch import Batch
from workbench.kernels.block_table.groups import ContextParallel, TableGroup
from workbench.kernels.block_table.staged import StagedWrites
from workbench.kernels.errors import BlockTableError

SourceUnit = Literal["kernel blocks", "manager blocks"]

Allocate = Callable[[tuple[int, ...], torch.dtype], torch.Tensor]
"""(shape, dtype) -> a contiguous tensor on the tables' device, 16-byte aligned."""


def zeros_on(device: str | torch.device) -> Allocate:
    """Return an allocator of zeroed memory; tests use guarded memory full of garbage instead."""

    def allocate(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        return torch.zeros(shape, dtype=dtype, device=device)

    return allocate


@dataclass(frozen=True, slots=True)
class DeviceBatch:
    """A batch whose tensors are already on the device; its contents are trusted.

    idx_mapping [requests], query_start_loc [requests + 1]: int32; positions [at least num_tokens]:
    int64 or int32; as in `Batch`, contiguous. A token whose block its row does not have gets slot
    -1; a row outside the table is not detected.
    """

    idx_mapping: torch.Tensor
    query_start_loc: torch.Tensor
    positions: torch.Tensor
    num_tokens: int
    padded_requests: int
    token_rows: torch.Tensor | None = None
    """[at least num_tokens] int32, the batch row of every token; a launch finds it if None."""
    may_have_dummies: bool = True
    """False promises that no row is a dummy request: fewer programs where rows were once longer."""

    @property
    def num_requests(self) -> int:
        """Return the number of requests, including dummies."""
        shape = self.idx_mapping.shape
        return shape[0] if shape else 0

    def check(self, device: torch.device, *, max_requests: int, max_tokens: int) -> None:
        """Refuse tensors of another type, place or size than the kernels expect."""
        # with its index: a kernel of one GPU cannot read the tensors of another
        requests, tokens = self.num_requests, self.num_tokens
        _check_tensor("idx_mapping", self.idx_mapping, ROWS, requests, device)
        _check_tensor("query_start_loc", self.query_start_loc, ROWS, requests + 1, device)
        _check_tensor("positions", self.positions, POSITIONS, tokens, device)
        if self.token_rows is not None:
            _check_tensor("token_rows", self.token_rows, ROWS, tokens, device)
        if not requests <= self.padded_requests <= max_requests:
            raise _outside("padded_requests", self.padded_requests, requests, max_requests)
        if not 0 <= self.num_tokens <= max_tokens:
            raise _outside("num_tokens", self.num_tokens, 0, max_tokens)


ROWS = (torch.int32,)
POSITIONS = (torch.int64, torch.int32)


def _check_tensor(
    field: str,
    tensor: torch.Tensor,
    dtypes: tuple[torch.dtype, ...],
    entries: int,
    place: torch.device,
) -> None:
    shape = tensor.shape
    # longer is fine: buffers of a captured graph are as long as its largest batch
    fits = len(shape) == 1 and shape[0] >= entries and tensor.is_contiguous()
    if not fits or tensor.dtype not in dtypes or tensor.device != place:
        raise BlockTableError(
            f"{field} must be a contiguous tensor of at least {entries} entries on {place}, of "
            f"{' or '.join(map(str, dtypes))}; got {tuple(shape)} {tensor.dtype} on "
            f"{tensor.device}",
            field=field,
            given=tuple(shape),
            limit=entries,
        )


def _outside(field: str, value: int, low: int, high: int) -> BlockTableError:
    return BlockTableError(
        f"{field} must be in {low}..{high}; got {value}", field=field, given=value, limit=high
    )


class TablePath:
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

    def __init__(
        self,
        groups: Sequence[TableGroup],
        *,
        max_requests: int,
        max_tokens: int,
        parallel: ContextParallel,
        allocate: Allocate,
    ) -> None:
        self.groups, self.max_requests, self.max_tokens = tuple(groups), max_requests, max_tokens
        self.parallel = parallel
        self.allocate(allocate)

    def allocate(self, allocate: Allocate) -> None:
        """Allocate the tables, and what the launches read."""

    def upload_writes(
        self, writes: StagedWrites, widest: Sequence[int], batch: DeviceBatch | None = None
    ) -> None:
        """Copy what is staged to the device, and record a batch that is already there.

        widest: the most manager blocks of any row, per group, once it is applied.
        """

    def launch_apply(self) -> None:
        """Write it into the source tables and publish the counts."""

    def upload_batch(self, batch: Batch, widest: Sequence[int]) -> None:
        """Bring one step's batch to the device."""

    def launch_gather(self) -> None:
        """Fill the gathered tables."""

    def launch_slots(self) -> None:
        """Fill the slot mapping."""

    def launch_step(self) -> None:
        """Launch a whole step: apply, gather, slots."""

    def manager_row(self, group: int, request: int) -> np.ndarray:
        """Return one source row as manager blocks, [max_blocks]; waits for the device."""
        return self.sources[group][request].cpu().numpy()
