"""Requests moved through real block tables; every step is checked against the reference."""

import statistics
from collections.abc import Sequence
from itertools import accumulate, chain

from workbench.core.arithmetic import LARGEST_INT32
from workbench.core.errors import check_integer, check_plan
from workbench.core.plan import Plan
from workbench.core.tables.batch_grammar import (
    EXAMPLE,
    LONGEST,
    BatchRequest,
    as_batch,
    as_request,
)
from workbench.core.tables.step import AccessCounts, StepRow, TableStep
from workbench.kernels.block_table.api import NEWER, BlockTables, PathName
from workbench.kernels.block_table.reference import ReferenceTables
from workbench.kernels.block_table.traffic import counted_traffic
from workbench.kernels.mode import triton_mode
from workbench.labs.tables.blocks import (
    Growth,
    HeldBlocks,
    Request,
    TableSessionError,
    check_lengths,
    first_mismatch,
    group_steps,
    table_groups,
)
from workbench.labs.tables.mistakes import MISTAKES, TableMistake, make_mistake

__all__ = ["TableSession", "TableSessionError"]

SPARE_ROWS = 4
"""Rows of the tables beyond the batch, so that requests can be admitted and moved."""


class TableSession:
    """A batch over the groups of a plan; rows of the batch are in the order of admission.

    Each method that changes something stages the writes, launches one step and returns it. Errors:
    TableSessionError, PoolIsEmptyError and the kernels' BlockTableError; the requests are then as
    before.

    >>> wb.tables(plan, "q40_3q1s300").launch().title
    'start 4 requests'
    """

    def __init__(
        self, plan: Plan, batch: Sequence[BatchRequest] | str = EXAMPLE, path: PathName = "fast"
    ) -> None:
        check_plan("wb.tables", plan, Plan)
        self.plan = plan
        batch = as_batch(batch)
        self._groups = table_groups(plan)
        self._held = HeldBlocks(plan, self._groups)
        self._rows = len(batch) + SPARE_ROWS
        tokens = sum(request.query_tokens for request in batch)
        shapes = [shape for _group, shape in self._groups]
        self.tables = BlockTables(
            shapes,
            max_requests=self._rows,
            max_tokens=max(plan.max_num_batched_tokens, tokens),
            num_blocks=self._held.pool.num_blocks,
            path=path,
        )
        self._reference = ReferenceTables(shapes, max_requests=self._rows, newer=path == NEWER)
        self._batch: list[Request] = []
        self._waiting: list[Request] = []
        self._pending = tuple(batch)

    def __repr__(self) -> str:
        from workbench.views.units import counted

        path, live = f"{self.tables.path_name} path", self.live_rows
        waits = "" if live else ", which launch() begins"
        requests = counted(len(live or self._pending), "request")
        return f"block tables of {requests}{waits}, {path}; {self.plan!r}"

    @property
    def requests(self) -> tuple[int, ...]:
        """Return the rows of the requests of the batch, in its order."""
        return tuple(request.row for request in self._batch)

    @property
    def live_rows(self) -> tuple[int, ...]:
        """Return the rows of all requests, including those that wait."""
        return tuple(request.row for request in (*self._batch, *self._waiting))

    @property
    def mistakes(self) -> tuple[str, ...]:
        """Return the mistakes that `mistake` can make, by name."""
        return tuple(MISTAKES)

    def mistake(self, name: str) -> TableMistake:
        """Run the correct and the wrong kernels on this batch, and compare every token.

        Errors: as `make_mistake`.
        """
        return make_mistake(self.plan, self._pending, name)

    def launch(self) -> TableStep:
        """Admit the whole batch: computed tokens are already there, the new ones get slots."""
        wanted = [Growth.first(row, request) for row, request in enumerate(self._pending)]
        return self._step(f"start {len(wanted)} requests", wanted)

    def admit(self, request: BatchRequest | str) -> TableStep:
        """Add a request in the lowest free row; the others decode a token."""
        request = as_request(request)
        row = self._free()[0]
        wanted = [*self._decoding(1), Growth.first(row, request)]
        return self._step(f"admit a request in row {row}", wanted)

    def decode(self, tokens: int = 1) -> TableStep:
        """Add `tokens` tokens to every request; a new block where one is full."""
        check_integer("tokens", tokens, 1, LARGEST_INT32, LONGEST)
        return self._step(f"decode {tokens}", self._decoding(tokens))

    def finish(self, row: int) -> TableStep:
        """Remove the request in `row`: its blocks become free, the batch is one row shorter."""
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
        """Schedule all requests again; those that waited are at the end."""
        back = [Growth(request, request.tokens + 1, 1) for request in self._waiting]
        step = self._step("schedule all again", [*self._decoding(1), *back])
        self._waiting = []
        return step

    def move(self, source: int, target: int | None = None) -> TableStep:
        """Move a request to a free row, by default the last, as vLLM's runners do to close gaps."""
        request, free = self._find(source), self._free()
        target = free[-1] if target is None else target
        if target not in free:
            raise TableSessionError(f"row {target} is not free; free rows: {list(free)}")
        wanted = self._decoding(1)
        self._check(wanted, None)
        for tables in (self.tables, self._reference):
            tables.move(source, target)
            tables.clear(source)
        self._held.move(source, target)
        request.row = target
        return self._step(f"move request {source} to row {target}", wanted)

    @property
    def free_rows(self) -> tuple[int, ...]:
        """Return the rows of the tables without a request."""
        return tuple(row for row in range(self._rows) if row not in self.live_rows)

    def _free(self) -> tuple[int, ...]:
        """Return the free rows, of which there must be one."""
        if not self.free_rows:
            raise TableSessionError(f"all {self._rows} rows are taken: finish a request first")
        return self.free_rows

    def _decoding(self, tokens: int) -> list[Growth]:
        return [Growth(request, request.tokens + tokens, tokens) for request in self._batch]

    def _find(self, row: int) -> Request:
        for request in (*self._batch, *self._waiting):
            if request.row == row:
                return request
        raise TableSessionError(f"no request in row {row}; live rows: {list(self.live_rows)}")

    def _step(
        self, title: str, wanted: Sequence[Growth], ending: Request | None = None
    ) -> TableStep:
        """Grow the requests in `wanted`, which become the batch, end one, launch, and read back."""
        self._check(wanted, ending)
        if ending is not None:
            self._waiting = [request for request in self._waiting if request is not ending]
            self._held.give_back(ending.row)
            for tables in (self.tables, self._reference):
                tables.clear(ending.row)
        self._batch = [growth.request for growth in wanted]
        for growth in wanted:
            self._grow(growth)
        starts = list(accumulate((growth.new_tokens for growth in wanted), initial=0))
        spans = [range(growth.tokens - growth.new_tokens, growth.tokens) for growth in wanted]
        positions = list(chain.from_iterable(spans))
        counted = self._launch(starts, positions)
        self._reference.apply()
        return self._read(title, wanted, starts, positions, counted)

    def _check(self, wanted: Sequence[Growth], ending: Request | None) -> None:
        """Refuse an impossible step before anything is changed."""
        if not wanted and not self._held.of:
            raise TableSessionError("The batch has not begun: call launch() first.")
        if not wanted:
            raise TableSessionError(
                "No request would remain, and a step has at least one: admit one, or begin a batch."
            )
        check_lengths(self.plan, wanted)
        new_tokens = sum(growth.new_tokens for growth in wanted)
        if new_tokens > self.tables.max_tokens:
            raise TableSessionError(
                f"{new_tokens:,} new tokens in one step are above the token budget "
                f"({self.tables.max_tokens:,})"
            )
        self._held.check(wanted, ending)

    def _grow(self, growth: Growth) -> None:
        """Give a request blocks for its tokens, and stage them for both tables."""
        row = growth.request.row
        new, replaced = self._held.grow(growth)
        for tables in (self.tables, self._reference):
            if replaced:
                tables.overwrite(row, self._held.of[row])
            else:
                tables.append(row, new)
        growth.request.tokens = growth.tokens

    def _launch(self, starts: list[int], positions: list[int]) -> AccessCounts | None:
        if triton_mode().mode != "interpreter":
            self.tables.step(self.requests, starts, positions)
            return None
        with counted_traffic() as moved:
            self.tables.step(self.requests, starts, positions)
        return AccessCounts(moved.launches, moved.programs, moved.loads, moved.stores, moved.bytes)

    def _read(
        self,
        title: str,
        wanted: Sequence[Growth],
        starts: list[int],
        positions: list[int],
        counted: AccessCounts | None,
    ) -> TableStep:
        mode = triton_mode()
        rows = tuple(StepRow(one.request.row, one.new_tokens, one.tokens) for one in wanted)
        groups = group_steps(self.plan, self._groups, self.tables, rows, self._held.of)
        mismatch = first_mismatch(
            groups,
            self.tables,
            self._reference.gather(self.requests, self._rows),
            self._reference.slot_mappings(self.requests, starts, positions, self.tables.max_tokens),
        )
        on_gpu = mode.mode == "gpu"
        return TableStep(
            title=title,
            path=self.tables.path_name,
            mode=mode.mode,
            device=mode.device or "CPU",
            target=_target() if on_gpu else None,
            rows=rows,
            groups=groups,
            positions=tuple(positions),
            owners=tuple(row for row, one in enumerate(wanted) for _ in range(one.new_tokens)),
            free_blocks=self._held.pool.free_blocks,
            mismatch=mismatch,
            counted=counted,
            is_sample_pool=self._held.is_sample,
            gpu_us=self._gpu_us() if on_gpu and mismatch is None else None,
        )

    def _gpu_us(self) -> float:
        """Return the median time of the step's launches; called only on a GPU, after the check."""
        from workbench.kernels.bench.gpu_clock import cold_samples

        return 1e6 * statistics.median(cold_samples(self.tables.launch))


def _target() -> str:
    """Return triton's compile target on this GPU, for example "cuda 90" or "hip gfx942"."""
    from triton.runtime import driver

    found = driver.active.get_current_target()
    return f"{found.backend} {found.arch}"
