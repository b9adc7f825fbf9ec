"""The path as vLLM 0.33 has it: one launch writes all groups, and kernel blocks are made last."""

from collections.abc import Sequence

import numpy as np
import torch

from workbench.kernels.block_table.fused_kernel import (
    fused_apply_kernel,
    switched_slots_kernel,
    windowed_gather_kernel,
)
from workbench.kernels.block_table.groups import TableGroup
from workbench.kernels.block_table.path import Allocate, DeviceBatch, SourceUnit
from workbench.kernels.block_table.pointer_path import BLOCK, PointerPath
from workbench.kernels.block_table.staged import StagedWrites
from workbench.kernels.mode import on_device


class FusedPath(PointerPath):
    """The work split of vLLM 0.33's V2 runner: sources and gathered tables hold manager blocks.

    tables: per group [request, kernel_block], made of `gathered` where a block is split, else the
    same.
    """

    source_holds: SourceUnit = "manager blocks"
    slots_kernel = switched_slots_kernel
    _writes: tuple[torch.Tensor, ...] | None = None
    _longest = _dirty_rows = 0

    def allocate(self, allocate: Allocate) -> None:
        """Allocate tables of kernel blocks, too, where a block is split."""
        super().allocate(allocate)
        groups = self.groups
        for table in self.gathered:
            table.zero_()
        self.tables = tuple(
            allocate((self.max_requests, group.max_kernel_blocks), torch.int32)
            if group.is_split
            else table
            for group, table in zip(groups, self.gathered, strict=True)
        )
        self._parts = [self._device(np.arange(group.ratio)) for group in groups]
        # a column of a shard holds tokens of any place: then nothing is null
        reaches = [group.window_reach if self.parallel.size == 1 else 0 for group in groups]
        self._has_windows = any(reaches)
        self._reaches = self._device(reaches)
        enabled = self._device([group.has_slots for group in groups])
        self.slot_switches = enabled, self._device([group.is_sharded for group in groups])

    @staticmethod
    def row_of(group: TableGroup) -> tuple[int, int]:
        """Return the manager blocks of a row, and the tokens of one."""
        return group.max_blocks, group.block_size

    def upload_writes(
        self, writes: StagedWrites, _widest: Sequence[int] = (), batch: DeviceBatch | None = None
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
                self._p_sources, self.strides, groups, requests, starts, ends, ids, BLOCK=BLOCK
            )
        # after the launch in the same stream, so no reader sees a count before its ids
        self.counts[groups.long(), requests.long()] = counts

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
                self.strides,
                self.counts,
                self._reaches,
                self.block_sizes,
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
