"""The path as vLLM 0.33 has it: one launch writes all groups, and kernel blocks are made last."""

from collections.abc import Sequence

import numpy as np
import torch

from workbench.kernels.block_table.batch import Batch
from workbench.kernels.block_table.fused_kernel import (
    BLOCK,
    fused_apply_kernel,
    switched_slots_kernel,
    windowed_gather_kernel,
)
from workbench.kernels.block_table.groups import ContextParallel, TableGroup
from workbench.kernels.block_table.path import Allocate, DeviceBatch, SourceUnit
from workbench.kernels.block_table.reference import PAD_SLOT
from workbench.kernels.block_table.staged import StagedWrites
from workbench.kernels.mode import on_device


class FusedPath:
    """Device memory and launches with the work split of vLLM 0.33's V2 runner.

    sources, gathered: per group [request, manager_block] -> manager block, int32. tables: per group
    [request, kernel_block], made of `gathered` where a block is split, else the same. counts:
    [group, request] manager blocks. slots: [group, token] int64.
    """

    source_holds: SourceUnit = "manager blocks"

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
        shapes = [(max_requests, group.max_blocks) for group in groups]
        self.sources = tuple(allocate(shape, torch.int32) for shape in shapes)
        self.gathered = tuple(allocate(shape, torch.int32) for shape in shapes)
        for table in self.gathered:
            table.zero_()
        self.tables = tuple(
            allocate((max_requests, group.max_kernel_blocks), torch.int32)
            if group.is_split
            else table
            for group, table in zip(groups, self.gathered, strict=True)
        )
        self.counts = allocate((len(groups), max_requests), torch.int32)
        self.counts.zero_()
        self.slots = allocate((len(groups), max_tokens), torch.int64)
        self._dirty_rows = 0
        self._parts = [self._device(np.arange(group.ratio)) for group in groups]
        self._p_sources = self._device(np.array([t.data_ptr() for t in self.sources]), np.int64)
        self._p_gathered = self._device(np.array([t.data_ptr() for t in self.gathered]), np.int64)
        self._strides = self._device(np.array([t.stride(0) for t in self.sources]), np.int64)
        self._sizes = self._device(np.array([group.block_size for group in groups]))
        # a column of a shard holds tokens of any place: then nothing is null
        reaches = [group.window_reach if parallel.size == 1 else 0 for group in groups]
        self._has_windows = any(reaches)
        self._reaches = self._device(np.array(reaches))
        self._enabled = self._device(np.array([group.has_slots for group in groups]))
        self._sharded = self._device(np.array([group.is_sharded for group in groups]))
        self._batch: Batch | DeviceBatch | None = None
        self._writes: tuple[torch.Tensor, ...] | None = None
        self._longest = 0

    def upload_writes(
        self,
        writes: StagedWrites,
        _widest: Sequence[int] = (),
        batch: DeviceBatch | None = None,
    ) -> None:
        """Copy what is staged to the device, for all groups at once."""
        if batch is not None:
            self.upload_batch(batch)
        self._writes, lengths = None, writes.lengths
        if len(writes):
            columns = (writes.group, writes.request, writes.start, lengths.cumsum(), writes.ids)
            counts = writes.start + lengths
            self._writes = tuple(self._device(column) for column in (*columns, counts))
            self._longest = int(lengths.max())

    def launch_apply(self) -> None:
        """Launch one kernel for everything staged, then publish the counts."""
        if self._writes is None:
            return
        groups, requests, starts, ends, ids, counts = self._writes
        grid = (len(groups), max(-(-self._longest // BLOCK), 1))
        with on_device(self.counts.device):
            fused_apply_kernel[grid](
                self._p_sources, self._strides, groups, requests, starts, ends, ids, BLOCK=BLOCK
            )
        # after the launch in the same stream, so no reader sees a count before its ids
        self.counts[groups.long(), requests.long()] = counts

    def upload_batch(self, batch: Batch | DeviceBatch, _widest: Sequence[int] = ()) -> None:
        """Copy one step's batch to the device, unless it is there already."""
        self._batch = batch
        if isinstance(batch, DeviceBatch):
            self._idx_mapping = batch.idx_mapping
            self._query_start_loc, self._positions = batch.query_start_loc, batch.positions
            return
        self._idx_mapping = self._device(batch.idx_mapping)
        self._query_start_loc = self._device(batch.query_start_loc)
        self._positions = self._device(batch.positions, np.int64)

    def launch_gather(self) -> None:
        """Fill the first padded rows, and those that a larger batch left; then split blocks."""
        assert self._batch is not None
        padded, requests = self._batch.padded_requests, self._batch.num_requests
        rows, self._dirty_rows = max(padded, self._dirty_rows), requests
        if not rows:
            return
        with on_device(self.counts.device):
            windowed_gather_kernel[(len(self.groups), rows)](
                self._idx_mapping,
                self._query_start_loc,
                self._positions,
                self._p_sources,
                self._p_gathered,
                self._strides,
                self.counts,
                self._reaches,
                self._sizes,
                self.max_requests,
                requests,
                # a batch without tokens has no first token, and so no window
                WINDOWS=self._has_windows and self._batch.num_tokens > 0,
                BLOCK=BLOCK,
            )
        pairs = zip(self.groups, self._parts, self.gathered, self.tables, strict=True)
        for group, parts, gathered, table in pairs:
            if group.is_split:
                # the whole allocated width, whatever of it is live
                out = table[:padded].unflatten(1, (group.max_blocks, group.ratio))
                blocks = gathered[:padded].unsqueeze(-1)
                torch.add(parts, blocks, alpha=group.kernel_stride, out=out)

    def launch_slots(self) -> None:
        """Fill the whole slot mapping of every group."""
        assert self._batch is not None
        # + 1: the last program of a group pads the rest of its slots
        with on_device(self.counts.device):
            switched_slots_kernel[(len(self.groups), self._batch.num_requests + 1)](
                self._idx_mapping,
                self._query_start_loc,
                self._positions,
                self._p_sources,
                self._strides,
                self._sizes,
                self.counts,
                self._enabled,
                self._sharded,
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
        return self.sources[group][request].cpu().numpy()

    def _device(self, array: np.ndarray, dtype: type = np.int32) -> torch.Tensor:
        return torch.from_numpy(array.astype(dtype)).to(self.counts.device)
