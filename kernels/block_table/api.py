"""`BlockTables`: the block-table step of a hybrid model, over one of two paths."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch

from workbench.kernels.block_table.batch import Batch, checked_batch
from workbench.kernels.block_table.faithful import FaithfulPath
from workbench.kernels.block_table.fast import FastPath
from workbench.kernels.block_table.fused import FusedPath
from workbench.kernels.block_table.groups import (
    ContextParallel,
    TableGroup,
    check_number,
    checked_groups,
    checked_parallel,
    refuse_newer,
)
from workbench.kernels.block_table.host import HostTables
from workbench.kernels.block_table.numbers import Ids
from workbench.kernels.block_table.path import (
    Allocate,
    DeviceBatch,
    SourceUnit,
    TablePath,
    zeros_on,
)
from workbench.kernels.block_table.reference import expand_ids
from workbench.kernels.block_table.settled import NothingStagedAfterwards
from workbench.kernels.block_table.staged import StagedWrites
from workbench.kernels.errors import BlockTableError
from workbench.kernels.mode import triton_mode

PathName = Literal["faithful", "faithful-0.33", "fast"]
NEWER: PathName = "faithful-0.33"
PATHS: dict[str, type[FaithfulPath | FusedPath | FastPath]] = {
    "faithful": FaithfulPath,
    NEWER: FusedPath,
    "fast": FastPath,
}


class BlockTables:
    """Block tables of several groups: write, apply, gather a batch, map its tokens to slots.

    A request is a row, 0..max_requests-1. Writes take *manager* blocks, one list for each group,
    and are staged until `apply`. What comes out is in *kernel* blocks:

    - `block_table[g]`: [batch row, kernel_block] -> physical kernel block, int32. Valid up to the
      row's live blocks; entries after them are unspecified. Padded and dummy rows are 0.
    - `slot_mapping`: [group, token] -> kernel block * kernel_block_size + offset, int64; -1 for
      padding, dummy requests and tokens of other context-parallel ranks.

    `path="faithful"` works like vLLM 0.23's V2 runner (#38831), "faithful-0.33" like that of 0.33,
    which knows more of a group, `path="fast"` gives the results of 0.23 with one copy and two
    launches per step; `workbench.kernels.block_table.reference` is the oracle of all. Block ids are
    in 0..num_blocks-1. `device` is the GPU, or "cpu" for Triton's interpreter; None takes that of
    `workbench.kernels.mode`. `allocate` replaces torch.zeros for the tables' memory.

    Every refusal is a BlockTableError raised before anything is launched. A refused write leaves
    everything as it was. `apply` and `step` leave nothing staged, also when they raise; the rows
    are then as the device has them.
    """

    def __init__(
        self,
        groups: Sequence[TableGroup],
        *,
        max_requests: int,
        max_tokens: int,
        num_blocks: int,
        path: PathName = "fast",
        parallel: ContextParallel | None = None,
        device: str | torch.device | None = None,
        allocate: Allocate | None = None,
    ) -> None:
        self.groups = checked_groups(groups, num_blocks)
        for name, value in (("max_requests", max_requests), ("max_tokens", max_tokens)):
            check_number(name, value, 1)
        if not isinstance(path, str) or path not in PATHS:
            raise BlockTableError(
                f"path {path!r} is not known. Allowed: {', '.join(PATHS)}", field="path", given=path
            )
        self.path_name, self.parallel = path, checked_parallel(parallel)
        self.parallel.check_groups(self.groups)
        if path != NEWER:
            refuse_newer(self.groups, path, NEWER)
        self.max_requests, self.max_tokens = max_requests, max_tokens
        self._host = HostTables(self.groups, max_requests, num_blocks)
        device = triton_mode().torch_device if device is None else device
        self._path: TablePath = PATHS[path](
            self.groups,
            max_requests=max_requests,
            max_tokens=max_tokens,
            parallel=self.parallel,
            allocate=allocate or zeros_on(device),
        )
        self._device = self._path.slots.device
        self._nothing_staged_afterwards = NothingStagedAfterwards(self._host, self._path)

    def append(self, request: int, block_ids: Sequence[Ids]) -> None:
        """Add manager blocks at the end of a request's rows; block_ids[group] lists them."""
        self._host.append_many([request], [block_ids])

    def overwrite(self, request: int, block_ids: Sequence[Ids]) -> None:
        """Replace a request's rows by these manager blocks."""
        self._host.append_many([request], [block_ids], overwrite=True)

    def append_many(
        self, requests: Ids, block_ids: Sequence[Sequence[Ids]], *, overwrite: bool = False
    ) -> None:
        """Append or overwrite for many requests at once, each given once: much faster."""
        self._host.append_many(requests, block_ids, overwrite=overwrite)

    def append_flat(
        self, requests: Ids, lengths: np.ndarray, block_ids: Ids, *, overwrite: bool = False
    ) -> None:
        """Append from flat arrays: faster than `append_many` from some dozens of writes.

        lengths: [requests, groups]; block_ids: all ids one after the other, in that order.
        """
        self._host.append_flat(requests, lengths, block_ids, overwrite=overwrite)

    def move(self, source: int, target: int) -> None:
        """Copy a request's rows over another's; the source keeps its own."""
        self._host.move(source, target)

    def clear(self, request: int) -> None:
        """Finish a request: its rows become empty."""
        self._host.clear(request)

    @property
    def staged(self) -> StagedWrites:
        """Return what the next apply will write."""
        return self._host.staged()

    def apply(self) -> None:
        """Bring everything staged to the device."""
        with self._nothing_staged_afterwards:
            self._path.upload_writes(self._host.staged(), self._host.widest)
            self._path.launch_apply()

    def gather(
        self, idx_mapping: Ids, *, padded_requests: int | None = None
    ) -> tuple[torch.Tensor, ...]:
        """Gather the batch's rows of every group; padded_requests rows are valid.

        Batch row i is row idx_mapping[i], -1 a dummy request. Rows from len(idx_mapping) up to
        padded_requests (all rows by default) become 0. Sees what was applied, not what is staged.
        """
        batch = self._batch(idx_mapping, padded_requests=padded_requests)
        self._path.upload_batch(batch, self._host.widest_applied)
        self._path.launch_gather()
        return self.block_table

    def slot_mappings(self, idx_mapping: Ids, query_start_loc: Ids, positions: Ids) -> torch.Tensor:
        """Map the batch's tokens to slots: `slot_mapping`, -1 after the actual tokens.

        Batch row i owns tokens query_start_loc[i] .. query_start_loc[i+1]-1; positions[t] is
        token t's place in its request. A token whose block was never appended is refused.
        """
        batch = self._batch(idx_mapping, query_start_loc, positions)
        self._path.upload_batch(batch, self._host.widest_applied)
        self._path.launch_slots()
        return self.slot_mapping

    def step(
        self,
        idx_mapping: Ids,
        query_start_loc: Ids,
        positions: Ids,
        *,
        padded_requests: int | None = None,
    ) -> None:
        """Apply, gather and map slots: `upload` and `launch` in one."""
        with self._nothing_staged_afterwards:
            self._upload(idx_mapping, query_start_loc, positions, padded_requests)
            self.launch()

    def upload(
        self,
        idx_mapping: Ids,
        query_start_loc: Ids,
        positions: Ids,
        *,
        padded_requests: int | None = None,
    ) -> None:
        """Copy what is staged and the batch to the device. A `launch` has to follow."""
        with self._nothing_staged_afterwards:
            self._upload(idx_mapping, query_start_loc, positions, padded_requests)

    def upload_on_device(self, batch: DeviceBatch) -> None:
        """Do as `upload` for a batch that is on the device; its contents are not checked."""
        with self._nothing_staged_afterwards:
            batch.check(self._device, max_requests=self.max_requests, max_tokens=self.max_tokens)
            self._path.upload_writes(self._host.staged(), self._host.widest, batch)

    def launch(self) -> None:
        """Run a step's kernels on what `upload` copied.

        On the fast path addresses and arguments never change and any grid is right, so a CUDA graph
        that captured one call can be replayed after every `upload`. Its grid is that of the batch
        that it was captured with: capture a large one.
        """
        self._path.launch_step()

    def launch_gather(self) -> None:
        """Gather only, for the batch that was copied last: fills `block_table`.

        Nothing is applied: it sees what the last `launch` or `apply` brought. On the fast path
        `launch` does this and `launch_slots` in one launch.
        """
        self._path.launch_gather()

    def launch_slots(self) -> None:
        """Map slots only, for the batch that was copied last: fills `slot_mapping`.

        Nothing is applied, as in `launch_gather`; the batch must have come with its tokens.
        """
        self._path.launch_slots()

    @property
    def block_table(self) -> tuple[torch.Tensor, ...]:
        """Return per group [batch row, kernel_block] -> physical kernel block, int32."""
        return self._path.tables

    @property
    def slot_mapping(self) -> torch.Tensor:
        """Return [group, token] -> slot, int64, max_tokens wide, as last computed."""
        return self._path.slots

    @property
    def source_table(self) -> tuple[torch.Tensor, ...]:
        """Return per group [request, block], int32, as applied, in units of `source_holds`."""
        return self._path.sources

    @property
    def source_holds(self) -> SourceUnit:
        """Return the unit of `source_table`: the fast path expands while it gathers."""
        return self._path.source_holds

    def counts(self) -> np.ndarray:
        """Return [group, request] live kernel blocks on the device; waits for the device."""
        counts = self._path.counts.cpu().numpy()
        if self.source_holds == "kernel blocks":
            return counts
        return counts * np.array([[group.ratio] for group in self.groups])

    def row(self, group: int, request: int) -> tuple[int, ...]:
        """Return the kernel blocks of one request on the device; waits for the device.

        Errors: BlockTableError for a group or a request that does not exist.
        """
        check_number("group", group, 0, len(self.groups))
        check_number("request", request, 0, self.max_requests)
        count = int(self._host.counts[group, request])
        blocks = self._path.manager_row(group, request)[:count].tolist()
        shape = self.groups[group]
        return expand_ids(blocks, shape.ratio, shape.kernel_block_stride)

    def _upload(
        self,
        idx_mapping: Ids,
        query_start_loc: Ids,
        positions: Ids,
        padded_requests: int | None,
    ) -> None:
        batch = self._batch(
            idx_mapping, query_start_loc, positions, padded_requests=padded_requests, staged=True
        )
        self._path.upload_writes(self._host.staged(), self._host.widest)
        self._path.upload_batch(batch, self._host.widest)

    def _batch(
        self,
        idx_mapping: Ids,
        query_start_loc: Ids | None = None,
        positions: Ids | None = None,
        *,
        padded_requests: int | None = None,
        staged: bool = False,
    ) -> Batch:
        return checked_batch(
            self.groups,
            self._host.newest_counts if staged else self._host.counts,
            idx_mapping,
            query_start_loc,
            positions,
            padded_requests=padded_requests,
            max_tokens=self.max_tokens,
            parallel=self.parallel,
        )
