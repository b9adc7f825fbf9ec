"""The fast path: one copy of unexpanded ids, one apply launch, one launch for all the rest."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
import torch

from workbench.kernels.block_table.arena import Arena, row_arena
from workbench.kernels.block_table.batch import Batch
from workbench.kernels.block_table.fast_apply_kernel import apply_kernel
from workbench.kernels.block_table.fast_fields import HEADER, LAYOUT_FIELDS
from workbench.kernels.block_table.fast_kernel import gather_and_slots_kernel
from workbench.kernels.block_table.groups import ContextParallel, TableGroup
from workbench.kernels.block_table.numbers import round_up
from workbench.kernels.block_table.path import Allocate, DeviceBatch, SourceUnit
from workbench.kernels.block_table.plan import TOKENS, group_layout, launch_plan
from workbench.kernels.block_table.ring import StagingRing
from workbench.kernels.block_table.staged import PLANES, StagedWrites

IDS = 512
WORDS = HEADER.value
PROGRAMS_PER_PROCESSOR = 8
INTERPRETER_PROGRAMS = 2


class FastPath:
    """Device memory and launches of the fast path. Grids, addresses and arguments are fixed.

    sources: per group [request, manager_block] -> physical manager block; tables: per group
    [batch row, kernel_block] -> physical kernel block; int32, rows of both start on a cache line.
    counts: [group, request] live manager blocks. slots: [group, token] int64.
    slot_tokens, apply_ids: tokens and ids of one program; launch_options: what Triton takes
    besides, as num_warps.
    """

    source_holds: SourceUnit = "manager blocks"
    slot_tokens, apply_ids = TOKENS, IDS
    launch_options: Mapping[str, int] = MappingProxyType({})

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
        sources = row_arena([group.max_blocks for group in groups], max_requests)
        tables = row_arena([group.max_kernel_blocks for group in groups], max_requests)
        self._sources = allocate((sources.size,), torch.int32)
        self._tables = allocate((tables.size,), torch.int32)
        self.sources = _views(self._sources, sources, max_requests)
        self.tables = _views(self._tables, tables, max_requests)
        self.counts = allocate((len(groups), max_requests), torch.int32)
        # an allocator may hand out garbage, and a row of count 0 is never read
        self.counts.zero_()
        # 32 entries of 8 bytes: every group starts on its own cache lines
        self._slots = allocate((len(groups), round_up(max_tokens, 32)), torch.int64)
        self.slots = self._slots[:, :max_tokens]
        self.device = self._sources.device

        max_ids = max_requests * sum(group.max_blocks for group in groups)
        max_writes = max_requests * len(groups)
        # a header for a batch that is on the device, one for the writes, the writes
        staged_words = 2 * WORDS + PLANES * max_writes + max_ids
        self._staging = StagingRing(allocate((staged_words,), torch.int32))
        # until the first upload a launch sees no writes and no requests
        self._staging.target[: 2 * WORDS] = 0
        self._staged = self._staging.target[WORDS:]
        # steps of the binary search for a write; constant, so that one kernel serves every batch
        self._write_steps = (max_writes - 1).bit_length()
        programs = -(-max(max_ids, max_writes) // IDS)
        # fixed for a captured graph: the programs stride over the ids, however many there are
        self._apply_programs = min(programs, _resident_programs(self.device))

        # + 1: query_start_loc has one entry more than there are requests
        row_words = round_up(max_requests + 1, 32)
        self._batch_starts = np.cumsum([WORDS, row_words, row_words]).tolist()
        batch_words = self._batch_starts[-1] + round_up(max_tokens, 32)
        self._batches = StagingRing(allocate((batch_words,), torch.int32))
        self._batches.target[:WORDS] = 0
        ends = [*self._batch_starts[1:], batch_words]
        self._own_parts = tuple(
            self._batches.target[first:end]
            for first, end in zip(self._batch_starts, ends, strict=True)
        )
        # what the next launch reads; a DeviceBatch replaces both
        self._batch_header, self._batch_parts = self._batches.target, self._own_parts

        layout = group_layout(
            groups, sources, tables, ranks=parallel.size, num_fields=LAYOUT_FIELDS.value
        )
        self._layout = torch.from_numpy(layout.fields).to(self.device)
        self._power_of_two = layout.power_of_two
        self.plan = launch_plan(tables, max_requests=max_requests, max_tokens=max_tokens)
        self._entries = torch.from_numpy(self.plan.entries).to(self.device)

    def upload_writes(self, writes: StagedWrites, batch: DeviceBatch | None = None) -> None:
        """Copy all groups' unexpanded ids and where they go, in one transfer.

        Of a batch on the device only its sizes are copied, in the same transfer. A captured launch
        keeps the addresses it was captured with: of the own buffers, or of a DeviceBatch's tensors.
        """
        buffer, first, packed = self._staging.buffer(), WORDS, writes.packed
        end = 2 * WORDS + len(packed)
        # count twice: the planes are as long as the writes are many
        buffer[WORDS : WORDS + 3] = writes.count, len(packed) - PLANES * writes.count, writes.count
        buffer[2 * WORDS : end] = packed
        if batch is not None:
            first = 0
            buffer[:3] = batch.num_requests, batch.padded_requests, batch.num_tokens
            self._batch_header = self._staging.target
            self._batch_parts = (batch.idx_mapping, batch.query_start_loc, batch.positions)
        # the header of a device batch rides along, just before that of the writes
        self._staging.send(end, first)

    def launch_apply(self) -> None:
        """Launch one kernel for everything staged."""
        apply_kernel[(self._apply_programs,)](
            self._staged,
            self._layout,
            self._sources,
            self.counts,
            self.max_requests,
            IDS=self.apply_ids,
            STEPS=self._write_steps,
            **self.launch_options,
        )

    def upload_batch(self, batch: Batch) -> None:
        """Copy one step's batch, in one transfer."""
        buffer = self._batches.buffer()
        buffer[:3] = batch.num_requests, batch.padded_requests, batch.num_tokens
        self._batch_header, self._batch_parts = self._batches.target, self._own_parts
        columns: list[np.ndarray] = [batch.idx_mapping, batch.query_start_loc, batch.positions]
        for first, column in zip(self._batch_starts, columns, strict=True):
            buffer[first : first + len(column)] = column
        self._batches.send(self._batch_starts[-1] + batch.num_tokens)

    def launch_gather(self) -> None:
        """Launch only the tiles of the gathered tables."""
        self._launch(self._entries[self.plan.slot_tiles :])

    def launch_slots(self) -> None:
        """Launch only the tiles of the slot mapping."""
        self._launch(self._entries[: self.plan.slot_tiles])

    def launch_gather_and_slots(self) -> None:
        """Launch both in one kernel."""
        self._launch(self._entries)

    def manager_row(self, group: int, request: int) -> np.ndarray:
        """Return one row on the device as manager blocks, [max_blocks]; waits for the device."""
        return self.sources[group][request].cpu().numpy()

    def _launch(self, entries: torch.Tensor) -> None:
        gather_and_slots_kernel[(len(entries),)](
            entries,
            self._batch_header,
            *self._batch_parts,
            self._layout,
            self._sources,
            self.counts,
            self._tables,
            self._slots,
            self._slots.stride(0),
            self.max_requests,
            ROWS=self.plan.rows,
            COLUMNS=self.plan.columns,
            TOKENS=self.slot_tokens,
            STEPS=(self.max_requests - 1).bit_length(),
            POWER_OF_TWO=self._power_of_two,
            CP_SIZE=self.parallel.size,
            CP_RANK=self.parallel.rank,
            CP_INTERLEAVE=self.parallel.interleave,
            **self.launch_options,
        )


def _views(arena: torch.Tensor, layout: Arena, rows: int) -> tuple[torch.Tensor, ...]:
    """Return [rows, width] of every group, without the padding between rows."""
    return tuple(
        arena[base : base + rows * stride].view(rows, stride)[:, :width]
        for base, stride, width in zip(layout.bases, layout.strides, layout.widths, strict=True)
    )


def _resident_programs(device: torch.device) -> int:
    """Return the number of programs that share the staged ids; few in the interpreter."""
    if device.type != "cuda":
        return INTERPRETER_PROGRAMS
    # enough programs to fill every multiprocessor; each costs a fixed search for its writes
    return torch.cuda.get_device_properties(device).multi_processor_count * PROGRAMS_PER_PROCESSOR
