"""The faithful path: expands on the host, one apply launch per group, then gather, then slots."""

from collections.abc import Sequence

import numpy as np

from workbench.kernels.block_table.faithful_kernel import (
    apply_group_kernel,
    gather_kernel,
    slot_mapping_kernel,
)
from workbench.kernels.block_table.groups import TableGroup
from workbench.kernels.block_table.path import DeviceBatch, SourceUnit
from workbench.kernels.block_table.pointer_path import BLOCK, PointerPath
from workbench.kernels.block_table.staged import StagedWrites
from workbench.kernels.mode import on_device


class FaithfulPath(PointerPath):
    """The work split of vLLM 0.23's V2 runner (#38831): all tables hold kernel blocks."""

    source_holds: SourceUnit = "kernel blocks"
    slots_kernel = slot_mapping_kernel
    _writes: Sequence[tuple] = ()
    _new_counts: Sequence[tuple] = ()

    @staticmethod
    def row_of(group: TableGroup) -> tuple[int, int]:
        """Return the kernel blocks of a row, and the tokens of one."""
        return group.max_kernel_blocks, group.kernel_block_size

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
            arrays = map(self._device, (requests, starts, offsets, ids))
            self._writes.append((g, *arrays))
            counts = self._device(starts + np.diff(offsets))
            self._new_counts.append((g, self._device(requests, requests.dtype), counts))

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

    def launch_gather(self) -> None:
        """Fill the first padded rows of every group's gathered table."""
        assert self._batch is not None
        if not self._batch.padded_requests:
            return
        with on_device(self.counts.device):
            gather_kernel[(len(self.groups), self._batch.padded_requests)](
                self._idx_mapping,
                self._p_sources,
                self._p_gathered,
                self.strides,
                self.counts,
                self.max_requests,
                self._batch.num_requests,
                BLOCK=BLOCK,
            )

    def manager_row(self, group: int, request: int) -> np.ndarray:
        """Return one row on the device as manager blocks, [max_blocks]; waits for the device."""
        ratio = self.groups[group].ratio
        # the first kernel block of each manager block, divided back
        return super().manager_row(group, request)[::ratio] // ratio
