"""The faithful path: expands on the host, one apply launch per group, then gather, then slots."""

from collections.abc import Sequence

import numpy as np
import torch

from workbench.kernels.block_table.batch import Batch
from workbench.kernels.block_table.faithful_kernel import (
    BLOCK,
    apply_group_kernel,
    gather_kernel,
    slot_mapping_kernel,
)
from workbench.kernels.block_table.groups import ContextParallel, TableGroup
from workbench.kernels.block_table.path import Allocate, DeviceBatch, SourceUnit
from workbench.kernels.block_table.reference import PAD_SLOT
from workbench.kernels.block_table.staged import StagedWrites
from workbench.kernels.mode import on_device


class FaithfulPath:
    """Device memory and launches with the work split of vLLM 0.23's V2 runner (#38831).

    sources, tables: per group [request, kernel_block] -> physical kernel block, int32, as wide as
    the group's rows. counts: [group, request] live kernel blocks. slots: [group, token] int64.
    strides and block_sizes, [groups], are what the kernels divide and step by.
    """

    source_holds: SourceUnit = "kernel blocks"

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
        shapes = [(max_requests, group.max_kernel_blocks) for group in groups]
        self.sources = tuple(allocate(shape, torch.int32) for shape in shapes)
        self.tables = tuple(allocate(shape, torch.int32) for shape in shapes)
        self.counts = allocate((len(groups), max_requests), torch.int32)
        self.counts.zero_()
        self.slots = allocate((len(groups), max_tokens), torch.int64)
        self._batch: Batch | DeviceBatch | None = None
        self._writes: list[tuple] = []
        self._new_counts: list[tuple] = []
        self.read_addresses()

    def read_addresses(self) -> None:
        """Record the addresses of the tables. Call it again after their memory has moved."""
        # vLLM keeps arrays of pointers on the device, one entry per group (BlockTables, #38831)
        self._p_sources = self._device(np.array([t.data_ptr() for t in self.sources]))
        self._p_tables = self._device(np.array([t.data_ptr() for t in self.tables]))
        self.strides = self._device(np.array([t.stride(0) for t in self.sources]))
        sizes = [group.kernel_block_size for group in self.groups]
        self.block_sizes = self._device(np.array(sizes, dtype=np.int32))

    def upload_writes(
        self, writes: StagedWrites, _widest: Sequence[int] = (), batch: DeviceBatch | None = None
    ) -> None:
        """Expand what is staged and copy it to the device, group by group."""
        if batch is not None:
            self.upload_batch(batch)
        lengths, given = writes.lengths.astype(np.int64), np.split(writes.ids, writes.offset[1:])
        self._writes, self._new_counts = [], []
        for g, group in enumerate(self.groups):
            mine = np.flatnonzero(writes.group == g)
            if not len(mine):
                continue
            ratio = group.ratio
            blocks = np.concatenate([given[w] for w in mine])
            # kernel blocks of manager block b: b * ratio .. b * ratio + ratio - 1
            ids = (blocks[:, None] * ratio + np.arange(ratio)).ravel()
            offsets = np.concatenate(([0], lengths[mine].cumsum())) * ratio
            requests, starts = writes.request[mine], writes.start[mine] * ratio
            arrays = (requests, starts, offsets, ids)
            self._writes.append((g, *(self._device(a.astype(np.int32)) for a in arrays)))
            counts = (starts + np.diff(offsets)).astype(np.int32)
            self._new_counts.append((g, self._device(requests), self._device(counts)))

    def launch_apply(self) -> None:
        """Launch one kernel for every group with staged writes, then one for the counts."""
        for g, requests, starts, offsets, ids in self._writes:
            table = self.sources[g]
            with on_device(table.device):
                apply_group_kernel[(len(requests),)](
                    table, table.stride(0), requests, starts, offsets, ids, BLOCK=BLOCK
                )
        for g, requests, counts in self._new_counts:
            # after the launches in the same stream, so no reader sees a count before its ids
            self.counts[g, requests] = counts

    def upload_batch(self, batch: Batch | DeviceBatch, _widest: Sequence[int] = ()) -> None:
        """Copy one step's batch to the device, unless it is there already."""
        self._batch = batch
        if isinstance(batch, DeviceBatch):
            self._idx_mapping = batch.idx_mapping
            self._query_start_loc, self._positions = batch.query_start_loc, batch.positions
            return
        self._idx_mapping = self._device(batch.idx_mapping)
        self._query_start_loc = self._device(batch.query_start_loc)
        self._positions = self._device(batch.positions)

    def launch_gather(self) -> None:
        """Fill the first padded rows of every group's gathered table."""
        assert self._batch is not None
        if not self._batch.padded_requests:
            return
        with on_device(self.counts.device):
            gather_kernel[(len(self.groups), self._batch.padded_requests)](
                self._idx_mapping,
                self._p_sources,
                self._p_tables,
                self.strides,
                self.counts,
                self.max_requests,
                self._batch.num_requests,
                BLOCK=BLOCK,
            )

    def launch_slots(self) -> None:
        """Fill the whole slot mapping of every group."""
        assert self._batch is not None
        # + 1: the last program of a group pads the rest of its slots
        with on_device(self.counts.device):
            slot_mapping_kernel[(len(self.groups), self._batch.num_requests + 1)](
                self._idx_mapping,
                self._query_start_loc,
                self._positions,
                self._p_sources,
                self.strides,
                self.block_sizes,
                self.counts,
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

    def manager_row(self, group: int, request: int) -> np.ndarray:
        """Return one row on the device as manager blocks, [max_blocks]; waits for the device."""
        ratio = self.groups[group].ratio
        # the first kernel block of each manager block, divided back
        return self.sources[group][request].cpu().numpy()[::ratio] // ratio

    def _device(self, array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(array).to(self.counts.device)
