"""Requests moved step by step through real block tables; every step is checked by the oracle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import torch

from workbench.core.groups.decision import Group
from workbench.core.plan import Plan
from workbench.core.tables.batch_grammar import BatchRequest
from workbench.core.tables.block_pool import NULL_BLOCK, BlockPool, PoolIsEmptyError
from workbench.core.tables.rows import (
    MANAGER_BLOCKS,
    capacity_text,
    null_entries,
    row_blocks,
    row_length,
    table_holds,
)
from workbench.core.tables.step import Counted, GroupStep, StepRow, TableStep
from workbench.kernels.block_table.api import BlockTables, PathName
from workbench.kernels.block_table.groups import TableGroup
from workbench.kernels.block_table.reference import ReferenceTables
from workbench.kernels.block_table.traffic import counted_traffic
from workbench.kernels.mode import triton_mode

SPARE_ROWS = 4
"""Rows of the tables beyond the batch, so that requests can be admitted and moved."""
SAMPLE_BLOCKS = 4096
"""Blocks of the pool while the plan's memory is unknown."""


class TableSessionError(ValueError):
    """A step that cannot be done; nothing has changed."""


@dataclass
class _Request:
    """A live request: its row of the tables, and its tokens."""

    row: int
    tokens: int


@dataclass(frozen=True)
class _Growth:
    """A request, the tokens it will have after a step, and how many of them are new."""

    request: _Request
    tokens: int
    new_tokens: int


def table_groups(plan: Plan) -> tuple[tuple[Group, TableGroup], ...]:
    """The plan's groups as the tables want them. Errors: ValueError without a common block.

    Where tables hold manager blocks (0.33), these are what the kernels see: nothing is split here.
    """
    cache, found = plan.built_cache(), []
    whole = table_holds(plan) == MANAGER_BLOCKS
    for group, kernel in zip(cache.groups, cache.kernel_block_sizes, strict=True):
        if kernel is None:
            raise TableSessionError(
                f"No kernel block divides {group.spec.block_size} tokens: see plan.problems."
            )
        size = group.spec.block_size
        found.append((group, TableGroup(size, size if whole else kernel, row_blocks(plan, group))))
    return tuple(found)


class TableSession:
    """A batch over the groups of a plan; rows of the batch are in the order of admission.

    Each method that changes something stages the writes, launches one step and returns it. Errors:
    TableSessionError, PoolIsEmptyError and the kernels' BlockTableError; the requests are then as
    before.
    """

    def __init__(self, plan: Plan, batch: Sequence[BatchRequest], path: PathName = "fast") -> None:
        self.plan = plan
        self._groups = table_groups(plan)
        num_blocks = plan.built_cache().blocks_or(SAMPLE_BLOCKS)
        if num_blocks <= 1:
            raise TableSessionError(
                f"the pool has {num_blocks} blocks, and the first is the null block: nothing can "
                "be stored. Give the cache more memory."
            )
        self._pool = BlockPool(num_blocks)
        self._rows = len(batch) + SPARE_ROWS
        tokens = sum(request.query_tokens for request in batch)
        shapes = [shape for _group, shape in self._groups]
        self.tables = BlockTables(
            shapes,
            max_requests=self._rows,
            max_tokens=max(plan.max_num_batched_tokens, tokens),
            num_blocks=self._pool.num_blocks,
            path=path,
        )
        self._oracle = ReferenceTables(shapes, max_requests=self._rows)
        self._blocks: dict[int, list[list[int]]] = {}
        self._batch: list[_Request] = []
        self._waiting: list[_Request] = []
        self._pending = tuple(batch)

    @property
    def requests(self) -> tuple[int, ...]:
        """Rows of the requests of the batch, in its order."""
        return tuple(request.row for request in self._batch)

    @property
    def live_rows(self) -> tuple[int, ...]:
        """Rows of all requests, those that wait included."""
        return tuple(request.row for request in (*self._batch, *self._waiting))

    def start(self) -> TableStep:
        """Admit the whole batch: computed tokens are there already, the new ones get slots."""
        wanted = [
            _Growth(_Request(row, 0), request.sequence_tokens, request.query_tokens)
            for row, request in enumerate(self._pending)
        ]
        return self._step(f"start {len(wanted)} requests", wanted)

    def admit(self, request: BatchRequest) -> TableStep:
        """One more request, in the lowest free row; the others decode a token."""
        free = self.free_rows
        if not free:
            raise TableSessionError(f"all {self._rows} rows are taken: finish a request first")
        new = _Growth(_Request(free[0], 0), request.sequence_tokens, request.query_tokens)
        return self._step(f"admit a request in row {free[0]}", [*self._decoding(1), new])

    def decode(self, tokens: int = 1) -> TableStep:
        """Every request gets `tokens` more tokens; a new block where one is full."""
        if tokens < 1:
            raise TableSessionError(f"at least 1 token is decoded; got {tokens}")
        return self._step(f"decode {tokens}", self._decoding(tokens))

    def finish(self, row: int) -> TableStep:
        """End the request in `row`: its blocks are free, the batch is one row shorter."""
        ending = self._find(row)
        kept = [growth for growth in self._decoding(1) if growth.request is not ending]
        return self._step(f"finish request {row}", kept, ending)

    def shrink(self) -> TableStep:
        """Schedule only the first half; the others keep their blocks and wait, their rows are 0."""
        half = -(-len(self._batch) // 2)
        waiting = self._batch[half:]
        step = self._step(f"shrink the batch to {half}", self._decoding(1)[:half])
        self._waiting = [*waiting, *self._waiting]
        return step

    def grow_back(self) -> TableStep:
        """Schedule all requests again; those that waited stand at the end."""
        back = [_Growth(request, request.tokens + 1, 1) for request in self._waiting]
        step = self._step("schedule all again", [*self._decoding(1), *back])
        self._waiting = []
        return step

    def move(self, source: int, target: int | None = None) -> TableStep:
        """Move a request to a free row, the last one if none is named; runners close gaps so."""
        request = self._find(source)
        if not self.free_rows:
            raise TableSessionError(f"all {self._rows} rows are taken: finish a request first")
        if target is None:
            target = self.free_rows[-1]
        if target not in self.free_rows:
            raise TableSessionError(f"row {target} is not free; free rows: {list(self.free_rows)}")
        wanted = self._decoding(1)
        self._check(wanted, None)
        for tables in (self.tables, self._oracle):
            tables.move(source, target)
            tables.clear(source)
        self._blocks[target] = self._blocks.pop(source)
        request.row = target
        return self._step(f"move request {source} to row {target}", wanted)

    @property
    def free_rows(self) -> tuple[int, ...]:
        """Rows of the tables without a request."""
        return tuple(row for row in range(self._rows) if row not in self.live_rows)

    def _decoding(self, tokens: int) -> list[_Growth]:
        return [_Growth(request, request.tokens + tokens, tokens) for request in self._batch]

    def _find(self, row: int) -> _Request:
        for request in (*self._batch, *self._waiting):
            if request.row == row:
                return request
        raise TableSessionError(f"no request in row {row}; live rows: {list(self.live_rows)}")

    def _step(
        self, title: str, wanted: Sequence[_Growth], ending: _Request | None = None
    ) -> TableStep:
        """Grow the requests in `wanted`, which become the batch, end one, and launch."""
        self._check(wanted, ending)
        if ending is not None:
            self._waiting = [request for request in self._waiting if request is not ending]
            for blocks in self._blocks.pop(ending.row):
                self._pool.give_back(blocks)
            for tables in (self.tables, self._oracle):
                tables.clear(ending.row)
        self._batch = [growth.request for growth in wanted]
        for growth in wanted:
            self._grow(growth)
        starts, positions = [0], list[int]()
        for growth in wanted:
            starts.append(starts[-1] + growth.new_tokens)
            positions += range(growth.tokens - growth.new_tokens, growth.tokens)
        counted = self._launch(starts, positions)
        self._oracle.apply()
        rows = tuple(
            StepRow(growth.request.row, growth.new_tokens, growth.tokens) for growth in wanted
        )
        return self._read(title, rows, starts, positions, counted)

    def _check(self, wanted: Sequence[_Growth], ending: _Request | None) -> None:
        """Refuse a step that cannot be done, before anything is touched."""
        if not wanted:
            raise TableSessionError("no request would be left: start a batch again")
        longest = max(growth.tokens for growth in wanted)
        if longest > self.plan.max_model_len:
            raise TableSessionError(
                f"a request of {longest:,} tokens is longer than max_model_len "
                f"({self.plan.max_model_len:,})"
            )
        new_tokens = sum(growth.new_tokens for growth in wanted)
        if new_tokens > self.tables.max_tokens:
            raise TableSessionError(
                f"{new_tokens:,} new tokens in one step are above the token budget "
                f"({self.tables.max_tokens:,})"
            )
        freed = 0 if ending is None else sum(map(_held, self._blocks[ending.row]))
        needed = sum(
            self._entries_wanted(group, growth, len(blocks))[2]
            for growth in wanted
            for (group, _shape), blocks in zip(
                self._groups, self._blocks_of(growth.request), strict=True
            )
        )
        if needed > self._pool.free_blocks + freed:
            raise PoolIsEmptyError(needed, self._pool.free_blocks + freed)
        for growth in wanted:
            for number, (group, shape) in enumerate(self._groups):
                entries = row_length(self.plan, group, growth.tokens)
                said = capacity_text(growth.request.row, number, entries, shape.max_blocks)
                if said is not None:
                    raise TableSessionError(said)

    def _entries_wanted(self, group: Group, growth: _Growth, held: int) -> tuple[int, int, int]:
        """Null entries of the grown row, and how many new entries are null and real blocks."""
        length = row_length(self.plan, group, growth.tokens)
        computed = growth.tokens - growth.new_tokens
        nulls = null_entries(self.plan, group, length, computed)
        new = max(0, length - held)
        skipped = min(new, max(0, nulls - held))
        return nulls, skipped, new - skipped

    def _blocks_of(self, request: _Request) -> list[list[int]]:
        return self._blocks.get(request.row) or [[] for _ in self._groups]

    def _grow(self, growth: _Growth) -> None:
        """Give a request blocks for its tokens; states that align mode drops become null blocks."""
        per_group = self._blocks.setdefault(growth.request.row, [[] for _ in self._groups])
        new, replaced = [], False
        for (group, _shape), row in zip(self._groups, per_group, strict=True):
            before = len(row)
            nulls, skipped, taken = self._entries_wanted(group, growth, before)
            row.extend([NULL_BLOCK] * skipped)
            row.extend(self._pool.take(taken))
            if dropped := [block for block in row[:nulls] if block != NULL_BLOCK]:
                self._pool.give_back(dropped)
                row[:nulls] = [NULL_BLOCK] * nulls
                replaced = True
            new.append(row[before:])
        for tables in (self.tables, self._oracle):
            if replaced:
                tables.overwrite(growth.request.row, per_group)
            else:
                tables.append(growth.request.row, new)
        growth.request.tokens = growth.tokens

    def _launch(self, starts: list[int], positions: list[int]) -> Counted | None:
        def step() -> None:
            self.tables.step(self.requests, starts, positions)

        if triton_mode().mode != "interpreter":
            step()
            return None
        with counted_traffic() as traffic:
            step()
        return Counted(
            traffic.launches, traffic.programs, traffic.loads, traffic.stores, traffic.bytes
        )

    def _read(
        self,
        title: str,
        rows: tuple[StepRow, ...],
        starts: list[int],
        positions: list[int],
        counted: Counted | None,
    ) -> TableStep:
        mode = triton_mode()
        counts = self.tables.counts()
        groups = []
        holds, kernels = table_holds(self.plan), self.plan.built_cache().kernel_block_sizes
        for index, (group, shape) in enumerate(self._groups):
            live = [int(counts[index, row.request]) for row in rows]
            table = self.tables.block_table[index].cpu()
            source = self.tables.source_table[index].cpu()
            unit = 1 if self.tables.source_holds == "kernel blocks" else shape.ratio
            groups.append(
                GroupStep(
                    name=f"{index}: {group.spec.kind.removesuffix('Spec')}",
                    is_mamba=group.spec.is_mamba,
                    block_size=shape.block_size,
                    kernel_block_size=shape.kernel_block_size,
                    blocks=tuple(tuple(self._blocks[row.request][index]) for row in rows),
                    source=tuple(
                        _entries(source, row.request, count // unit)
                        for row, count in zip(rows, live, strict=True)
                    ),
                    source_holds=holds if holds == MANAGER_BLOCKS else self.tables.source_holds,
                    table=tuple(_entries(table, i, count) for i, count in enumerate(live)),
                    slots=tuple(self.tables.slot_mapping[index].tolist()),
                    table_holds=holds,
                    attention_kernel_block_size=kernels[index] if holds == MANAGER_BLOCKS else None,
                )
            )
        step = TableStep(
            title=title,
            path=self.tables.path_name,
            mode=mode.mode,
            device=mode.device or "CPU",
            target=_target() if mode.mode == "gpu" else None,
            rows=rows,
            groups=tuple(groups),
            positions=tuple(positions),
            owners=tuple(
                row for row, (first, end) in enumerate(pairwise(starts)) for _ in range(first, end)
            ),
            free_blocks=self._pool.free_blocks,
            mismatch=None,
            counted=counted,
        )
        mismatch = self._mismatch(step, starts)
        timed = mode.mode == "gpu" and mismatch is None
        return replace(step, mismatch=mismatch, gpu_us=self._gpu_us() if timed else None)

    def _gpu_us(self) -> float:
        """Median time of the step's launches; only asked for on a GPU, after the check."""
        from triton.testing import do_bench

        milliseconds: float = do_bench(self.tables.launch, return_mode="median")
        return milliseconds * 1000

    def _mismatch(self, step: TableStep, starts: list[int]) -> str | None:
        """The first entry in which device and oracle differ; tails and padded rows included."""
        order = self.requests
        expected = self._oracle.gather(order, self._rows)
        slots = self._oracle.slot_mappings(order, starts, step.positions, self.tables.max_tokens)
        for index, group in enumerate(step.groups):
            table = self.tables.block_table[index].cpu()
            for row, wanted in enumerate(expected[index]):
                if (found := _entries(table, row, len(wanted))) != wanted:
                    return f"group {group.name}, row {row}: {_first(found, wanted)}"
            if group.slots != slots[index]:
                return f"group {group.name}, slots: {_first(group.slots, slots[index])}"
        return None


def _target() -> str:
    """What triton compiles for on this GPU, for example "cuda 90" or "hip gfx942"."""
    from triton.runtime import driver

    found = driver.active.get_current_target()
    return f"{found.backend} {found.arch}"


def _held(row: Sequence[int]) -> int:
    return sum(block != NULL_BLOCK for block in row)


def _entries(table: torch.Tensor, row: int, count: int) -> tuple[int, ...]:
    return tuple(table[row, :count].tolist())


def _first(found: Sequence[int], wanted: Sequence[int]) -> str:
    for index, (ours, theirs) in enumerate(zip(found, wanted, strict=True)):
        if ours != theirs:
            return f"entry {index} is {ours}, the oracle says {theirs}"
    return f"{len(found)} entries, the oracle has {len(wanted)}"
