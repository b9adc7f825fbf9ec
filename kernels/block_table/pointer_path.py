"""What the paths of vLLM's releases share: a table per group, reached through its address."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, DTypeLike

from workbench.kernels.block_table.batch import Batch
from workbench.kernels.block_table.groups import TableGroup
from workbench.kernels.block_table.path import Allocate, DeviceBatch, TablePath
from workbench.kernels.block_table.reference import PAD_SLOT
from workbench.kernels.mode import on_device

BLOCK = 1024
"""Entries, or tokens, that a program of these paths handles at once."""


class PointerPath(TablePath):
    """Device memory of a path with an allocation per table, and what no release does otherwise.

    sources, gathered: per group [request, block], int32, as wide as the group's rows. counts:
    [group, request] live blocks. slots: [group, token] int64. strides and block_sizes, [groups],
    are what the kernels step and divide by.
    """

    slots_kernel: ClassVar[Any]
    """Triton's kernel that maps tokens to slots. Grid: (groups, requests + 1)."""
    slot_switches: tuple[torch.Tensor, ...] = ()
    """What it reads of every group after the counts."""

    def allocate(self, allocate: Allocate) -> None:
        """Allocate a source and a gathered table per group."""
        groups, max_requests, max_tokens = self.groups, self.max_requests, self.max_tokens
        rows = [self.row_of(group) for group in groups]
        self.sources = tuple(allocate((max_requests, width), torch.int32) for width, _ in rows)
        self.gathered = tuple(allocate((max_requests, width), torch.int32) for width, _ in rows)
        self.counts = allocate((len(groups), max_requests), torch.int32)
        self.counts.zero_()
        self.slots = allocate((len(groups), max_tokens), torch.int64)
        self.tables = self.gathered
        self.block_sizes = self._device([size for _, size in rows])
        # vLLM keeps arrays of pointers on the device, one entry per group (BlockTables, #38831)
        self._p_sources, self._p_gathered = map(self._addresses, (self.sources, self.gathered))
        self.strides = self._device([table.stride(0) for table in self.sources], np.int64)
        self._batch: Batch | DeviceBatch | None = None

    @staticmethod
    @abstractmethod
    def row_of(group: TableGroup) -> tuple[int, int]:
        """Return the blocks of a row, and the tokens of one of them."""

    def upload_batch(self, batch: Batch | DeviceBatch, _widest: Sequence[int] = ()) -> None:
        """Copy one step's batch to the device, unless it is there already."""
        self._batch = batch
        self._idx_mapping, self._query_start_loc, self._positions = (
            column if isinstance(column, torch.Tensor) else self._device(column, column.dtype)
            for column in (batch.idx_mapping, batch.query_start_loc, batch.positions)
        )

    def launch_slots(self) -> None:
        """Fill the whole slot mapping of every group."""
        assert self._batch is not None
        # + 1: the last program of a group pads the rest of its slots
        with on_device(self.counts.device):
            self.slots_kernel[(len(self.groups), self._batch.num_requests + 1)](
                self._idx_mapping,
                self._query_start_loc,
                self._positions,
                self._p_sources,
                self.strides,
                self.block_sizes,
                self.counts,
                *self.slot_switches,
                self.slots,
                self.slots.stride(0),
                self.max_requests,
                self.max_tokens,
                CP_SIZE=self.parallel.size,
                CP_RANK=self.parallel.rank,
                CP_INTERLEAVE=self.parallel.interleave,
                PAD_SLOT=PAD_SLOT,
                BLOCK=BLOCK,
            )

    def launch_gather_and_slots(self) -> None:
        """Launch the gather, then the slots."""
        self.launch_gather()
        self.launch_slots()

    def launch_step(self) -> None:
        """Launch the apply, then the gather, then the slots."""
        self.launch_apply()
        self.launch_gather_and_slots()

    def _addresses(self, tables: Sequence[torch.Tensor]) -> torch.Tensor:
        return self._device([table.data_ptr() for table in tables], np.int64)

    def _device(self, values: ArrayLike, dtype: DTypeLike = np.int32) -> torch.Tensor:
        # A copy: an empty view has the address of its array, which another view may have as well,
        # and Triton's interpreter knows storages by their addresses.
        return torch.from_numpy(np.array(values, dtype)).to(self.counts.device)
