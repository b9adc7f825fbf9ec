"""The fast path: one copy of unexpanded ids, one apply launch, one launch for all the rest."""

import struct
from collections.abc import Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any

import numpy as np
import torch

from workbench.kernels.block_table.arena import Arena, row_arena
from workbench.kernels.block_table.batch import Batch
from workbench.kernels.block_table.batch_arguments import BatchArguments
from workbench.kernels.block_table.fast_apply_kernel import apply_kernel
from workbench.kernels.block_table.fast_fields import FIRST_TILES, HEADER, LAYOUT_FIELDS
from workbench.kernels.block_table.fast_kernel import gather_and_slots_kernel
from workbench.kernels.block_table.numbers import round_up
from workbench.kernels.block_table.path import Allocate, DeviceBatch, SourceUnit, TablePath
from workbench.kernels.block_table.plan import Cuts, cuts_of, group_layout
from workbench.kernels.block_table.ring import StagingRing
from workbench.kernels.block_table.staged import PLANES, StagedWrites
from workbench.kernels.launching import Launch, processors

IDS = 512
WORDS = HEADER.value
PROGRAMS_PER_PROCESSOR = 8
WRITES, ROWS, WRITES_AND_ROWS = (True, False), (False, True), (True, True)
"""What the first launch does: write what is staged, and the row of every token."""
SLOTS, TABLES, SLOTS_AND_TABLES = (True, False), (False, True), (True, True)
"""What the second one fills."""


class FastPath(TablePath):
    """Device memory and launches of the fast path. Addresses and arguments are fixed.

    sources: per group [request, manager_block] -> physical manager block; tables: per group
    [batch row, kernel_block] -> physical kernel block; int32, rows of both start on a cache line.
    counts: [group, request] live manager blocks. slots: [group, token] int64.
    apply_ids: ids of one program; launch_options: what Triton takes besides, as num_warps.
    """

    source_holds: SourceUnit = "manager blocks"
    apply_ids, programs_per_processor = IDS, PROGRAMS_PER_PROCESSOR
    launch_options: Mapping[str, int] = MappingProxyType({})

    def allocate(self, allocate: Allocate) -> None:
        """Allocate one arena for all sources and one for all tables, and the staging buffers."""
        groups, max_requests, max_tokens = self.groups, self.max_requests, self.max_tokens
        parallel = self.parallel
        sources = row_arena([group.max_blocks for group in groups], max_requests)
        tables = row_arena([group.max_kernel_blocks for group in groups], max_requests)
        self._sources = allocate((sources.size,), torch.int32)
        self._tables = allocate((tables.size,), torch.int32)
        # rows without a request are zero: what no step has written yet needs no zeroing later
        self._tables.zero_()
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
        # words of a batch's header, which ends with the tiles of every group
        header_words = FIRST_TILES.value + len(groups) + 1
        self._head = round_up(header_words, 32)
        self._header = struct.Struct(f"={header_words}i")
        # a header for a batch that is on the device, one for the writes, the writes
        staged_words = self._head + WORDS + PLANES * max_writes + max_ids
        self._staging = StagingRing(allocate((staged_words,), torch.int32))
        # until the first upload a launch sees no writes and no requests
        self._staging.target[: self._head + WORDS] = 0
        self._staged = self._staging.target[self._head :]
        # steps of the binary search for a write; constant, so that one kernel serves every batch
        self._write_steps = (max_writes - 1).bit_length()
        self._most_programs = processors(self.device) * self.programs_per_processor
        self._apply_programs = self._fill_programs = 1

        # idx_mapping, the row of every token, positions
        row_words, token_words = round_up(max_requests, 32), round_up(max_tokens, 32)
        starts = np.cumsum([self._head, row_words, token_words, token_words]).tolist()
        self._batch_starts = starts[:-1]
        self._batches = StagingRing(allocate((starts[-1],), torch.int32))
        self._batches.target[: self._head] = 0
        self._own_parts = tuple(self._batches.target[first:end] for first, end in pairwise(starts))
        self._token_rows = allocate((token_words,), torch.int32)
        self._token_rows.zero_()
        # what the next launches read; a DeviceBatch replaces all of it
        self._has_starts = False
        self._applied = BatchArguments(self._batches.target, self._token_rows)
        self._filled = BatchArguments(self._batches.target, *self._own_parts)

        layout = group_layout(
            groups, sources, tables, ranks=parallel.size, num_fields=LAYOUT_FIELDS.value
        )
        self._layout = torch.from_numpy(layout.fields).to(self.device)
        self._power_of_two = layout.power_of_two
        self._ratios = [group.ratio for group in groups]
        self.cuts = self._cuts(tables)
        self._slot_tiles = -(-max_tokens // self.cuts.tokens)
        # entries of the widest rows that any step gathered: the rest is zero
        self._written = [0] * len(groups)
        self._tiles: tuple[object, list[int]] = (None, [0] * (len(groups) + 1))
        self._launches: dict[object, Launch] = {}

    def upload_writes(
        self, writes: StagedWrites, widest: Sequence[int], batch: DeviceBatch | None = None
    ) -> None:
        """Copy all groups' unexpanded ids and where they go, in one transfer.

        Of a batch on the device only its sizes are copied, in the same transfer. A captured launch
        keeps the addresses it was captured with: of the own buffers, or of a DeviceBatch's tensors.
        """
        buffer, head, packed = self._staging.buffer(), self._head, writes.packed
        ids, begin = len(packed) - PLANES * writes.count, head + WORDS
        end = begin + len(packed)
        # count twice: the planes are as long as the writes are many
        struct.pack_into("=3i", buffer.data, 4 * head, writes.count, ids, writes.count)
        buffer[begin:end] = packed
        wanted = -(-max(ids, writes.count) // self.apply_ids)
        self._apply_programs = max(min(wanted, self._most_programs), 1)
        if batch is None:
            self._staging.send(end, head)
            return
        self._write_header(buffer, batch, widest, may_zero=batch.may_have_dummies)
        self._has_starts = batch.token_rows is None
        header, rows = self._staging.target, batch.token_rows
        self._applied = self._applied.renewed(header, batch.query_start_loc)
        self._filled = self._filled.renewed(
            header, batch.idx_mapping, self._token_rows if rows is None else rows, batch.positions
        )
        self._fill_programs = max(min(batch.num_requests, self._most_programs), 1)
        # the header of a device batch rides along, just before that of the writes
        self._staging.send(end)

    def upload_batch(self, batch: Batch, widest: Sequence[int]) -> None:
        """Copy one step's batch, in one transfer, with the row of every token."""
        buffer = self._batches.buffer()
        self._write_header(buffer, batch, widest, may_zero=batch.has_dummies)
        self._has_starts = False
        self._applied = self._applied.renewed(self._batches.target, self._token_rows)
        self._filled = self._filled.renewed(self._batches.target, *self._own_parts)
        columns: list[np.ndarray] = [batch.idx_mapping, batch.token_rows, batch.positions]
        for first, column in zip(self._batch_starts, columns, strict=True):
            buffer[first : first + len(column)] = column
        self._batches.send(self._batch_starts[-1] + batch.num_tokens)

    def launch_apply(self) -> None:
        """Launch one kernel for everything staged."""
        self._launch_apply(WRITES, self._apply_programs)

    def launch_gather(self) -> None:
        """Launch only the tiles of the gathered tables."""
        self._launch(TABLES)

    def launch_slots(self) -> None:
        """Launch only the tiles of the slot mapping; before them what they read of a batch."""
        if self._has_starts:
            self._launch_apply(ROWS, self._fill_programs)
        self._launch(SLOTS)

    def launch_gather_and_slots(self) -> None:
        """Launch both in one kernel, which needs the rows of the batch's tokens."""
        self._launch(SLOTS_AND_TABLES)

    def launch_step(self) -> None:
        """Launch two kernels: one that applies, one for the rest."""
        if self._has_starts:
            programs = max(self._apply_programs, self._fill_programs)
            self._launch_apply(WRITES_AND_ROWS, programs)
        else:
            self.launch_apply()
        self.launch_gather_and_slots()

    @property
    def programs(self) -> int:
        """Return the programs of the second launch for the batch that was copied last."""
        return self._programs(SLOTS_AND_TABLES)

    def _write_header(
        self,
        buffer: np.ndarray,
        batch: Batch | DeviceBatch,
        widest: Sequence[int],
        *,
        may_zero: bool,
    ) -> None:
        """Write the batch's sizes and tiles. widest: manager blocks of any row, per group."""
        padded = batch.padded_requests
        may_zero |= padded > batch.num_requests
        known = (padded, may_zero, *widest)
        if self._tiles[0] != known:
            widths = [n * ratio for n, ratio in zip(widest, self._ratios, strict=True)]
            self._written = list(map(max, self._written, widths))
            # a row of zeros is as wide as whatever was written there
            firsts = self.cuts.first_tiles(padded, self._written if may_zero else widths)
            self._tiles = known, firsts
        firsts = self._tiles[1]
        self._header.pack_into(
            buffer.data,
            0,
            *(batch.num_requests, padded, batch.num_tokens, self.cuts.row_tiles(padded)),
            *firsts,
        )

    def _programs(self, parts: tuple[bool, bool]) -> int:
        slots, tables = parts
        count = self._slot_tiles * len(self.groups) if slots else 0
        return count + (self._tiles[1][-1] if tables else 0)

    def _launch_apply(self, parts: tuple[bool, bool], programs: int) -> None:
        key = ("apply", parts, self._applied.kind)
        launch = self._launches.get(key)
        if launch is None:
            constants = {
                "IDS": self.apply_ids,
                "STEPS": self._write_steps,
                "APPLY": parts[0],
                "FILL": parts[1],
            }
            fixed = (
                self._staged, self._layout, self._sources, self.counts, self.max_requests,
                self._token_rows,
            )  # fmt: skip
            launch = self._launches[key] = self._made(apply_kernel, fixed, constants)
        self._applied.launch(launch, programs)

    def _launch(self, parts: tuple[bool, bool]) -> None:
        if not (programs := self._programs(parts)):
            return
        key = ("fill", parts, self._filled.kind)
        launch = self._launches.get(key)
        if launch is None:
            constants = {
                "ROWS": self.cuts.rows,
                "COLUMNS": self.cuts.columns,
                "TOKENS": self.cuts.tokens,
                "GROUPS": len(self.groups),
                "SPREAD": 1 << len(self.groups).bit_length(),
                "SLOTS": parts[0],
                "TABLES": parts[1],
                "POWER_OF_TWO": self._power_of_two,
                "CP_SIZE": self.parallel.size,
                "CP_RANK": self.parallel.rank,
                "CP_INTERLEAVE": self.parallel.interleave,
            }
            fixed = (
                self._layout, self._sources, self.counts, self._tables, self._slots,
                self._slots.stride(0), self._slot_tiles, self.max_requests,
            )  # fmt: skip
            launch = self._launches[key] = self._made(gather_and_slots_kernel, fixed, constants)
        self._filled.launch(launch, programs)

    def _made(self, kernel: Any, fixed: Sequence[Any], constants: dict[str, Any]) -> Launch:
        return Launch(kernel, (1,), fixed, {**constants, **self.launch_options}, self.device)

    def _cuts(self, tables: Arena) -> Cuts:
        return cuts_of(tables, max_requests=self.max_requests)


def _views(arena: torch.Tensor, layout: Arena, rows: int) -> tuple[torch.Tensor, ...]:
    """Return [rows, width] of every group, without the padding between rows."""
    return tuple(
        arena[base : base + rows * stride].view(rows, stride)[:, :width]
        for base, stride, width in zip(layout.bases, layout.strides, layout.widths, strict=True)
    )
